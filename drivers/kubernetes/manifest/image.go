package manifest

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// overlayImages takes the images of the containers that have the same name in the
// workload of the same kind and name.
func overlayImages(pkg *vnfd.Package, base []fileSet, all []manifest) error {
	look, err := newFinder(pkg)
	if err != nil {
		return err
	}
	for _, f := range base {
		for i, m := range all {
			if m.file != f.file || !IsVDUKind(m.gk) {
				continue
			}
			next, err := look.successor(m, f)
			if err != nil {
				return err
			}
			if next != nil {
				all[i].obj = withImages(m.obj, m.gk, containerImages(next.obj, next.gk))
			}
		}
	}
	return nil
}

// finder finds, in another version of a package, what became of an object.
type finder struct {
	pkg   *vnfd.Package
	files []fileSet
	all   []manifest // of every file under Files/kubernetes that can be read
}

func newFinder(pkg *vnfd.Package) (*finder, error) {
	names, err := manifestFiles(pkg)
	if err != nil {
		return nil, err
	}
	look := &finder{pkg: pkg}
	for _, name := range names {
		// A file that nobody names by its path may hold anything.
		if found, err := readManifests(pkg, []string{name}); err == nil && len(found) > 0 {
			look.all = append(look.all, found...)
			look.files = append(look.files, fileSets(found)...)
		}
	}
	return look, nil
}

// renamed are the files that hold the same objects.
func (look *finder) renamed(ids []id) []string {
	var files []string
	for _, f := range look.files {
		if f.same(ids) {
			files = append(files, f.file)
		}
	}
	return files
}

// successor is the workload of the same kind and name: in the file at the same
// path, else in one that holds the same objects, else in any under Files/kubernetes.
func (look *finder) successor(m manifest, from fileSet) (*manifest, error) {
	if hasFile(look.pkg, from.file) {
		found, err := readManifests(look.pkg, []string{from.file})
		if err != nil {
			return nil, err
		}
		for _, x := range found {
			if x.id() == m.id() {
				return &x, nil
			}
		}
	}
	same := look.renamed(from.ids)
	var next *manifest
	for _, x := range look.all {
		if x.id() != m.id() || len(same) > 0 && !slices.Contains(same, x.file) {
			continue
		}
		if next != nil && !maps.Equal(containerImages(next.obj, next.gk), containerImages(x.obj, x.gk)) {
			return nil, &drivers.RefusedError{Object: x.where, Reason: fmt.Sprintf(
				"gives %s other images than %s does: keep the one that counts at the path at which it was, %s", m.id(), next.where, from.file)}
		}
		next = &x
	}
	return next, nil
}

// imageFields are the lists of containers that have images to update.
var imageFields = []string{"initContainers", "containers"}

// containerImages are the images of the workload by container.
func containerImages(u *unstructured.Unstructured, gk schema.GroupKind) map[string]string {
	images := map[string]string{}
	for _, field := range imageFields {
		for _, c := range raw.Maps(podSpec(u, gk), field) {
			if image := raw.String(c, "image"); image != "" {
				images[raw.String(c, "name")] = image
			}
		}
	}
	return images
}

// withImages is the workload with the images, as far as it has the containers.
func withImages(u *unstructured.Unstructured, gk schema.GroupKind, images map[string]string) *unstructured.Unstructured {
	u = u.DeepCopy()
	for _, field := range imageFields {
		for _, c := range raw.Maps(podSpec(u, gk), field) {
			if image := images[raw.String(c, "name")]; image != "" {
				c["image"] = image
			}
		}
	}
	return u
}
