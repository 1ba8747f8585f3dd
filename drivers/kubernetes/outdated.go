package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/plan"
)

// mint is what makes units that their owner doesn't bring up to date.
type mint struct {
	owner      *fact
	atRender   bool // the owner stands at its render
	images     map[string]string
	config     string
	generation string
}

// mints are the owners, by key, whose units must be deleted to be brought up to
// date: a ReplicaSet that no Deployment owns, and what has the strategy OnDelete.
func (v *view) mints(r *render, digests map[string]plan.Object) map[string]*mint {
	var all map[string]*mint
	for _, f := range v.facts {
		want, isWanted := digests[f.key]
		if !f.manual || !isWanted || !f.topLevel() || f.deleting || r.objects[f.key] == nil {
			continue
		}
		pod := templateOf(r.objects[f.key], f.gk)
		if all == nil {
			all = map[string]*mint{}
		}
		all[f.key] = &mint{
			owner: f, atRender: f.digest == want.Digest, images: readImages(imagesOf(pod, "spec")),
			config: str(pod, "metadata", "annotations", AnnotationConfig), generation: str(pod, "metadata", "labels", LabelGeneration),
		}
	}
	return all
}

// outdated tells in what the pod differs from those that its owner makes now.
func (m *mint) outdated(f *fact) string {
	if m.generation != "" && f.colour != m.generation {
		return fmt.Sprintf("it is of generation %s, not %s", f.colour, m.generation)
	}
	// A pod that was made after its owner was last changed has what its owner gave it:
	// if its images differ all the same, an admission webhook made them so.
	if !m.atRender || f.pod.created.Unix() <= m.owner.written {
		runs := readImages(f.pod.images)
		for _, name := range slices.Sorted(maps.Keys(m.images)) {
			if runs[name] != m.images[name] {
				_, container, _ := strings.Cut(name, ":")
				return fmt.Sprintf("its container %s runs image %q, not %q", container, runs[name], m.images[name])
			}
		}
	}
	if f.pod.config != m.config {
		return "ConfigMaps or Secrets that it uses have changed"
	}
	return ""
}

// imagesOf are the images of a pod's containers by the container's name.
func imagesOf(object map[string]any, spec string) unique.Handle[string] {
	var all strings.Builder
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range mapsAt(object, spec, list) {
			// Neither a name nor an image can hold a line's end.
			all.WriteString(list[:1] + ":" + str(c, "name") + "\n" + str(c, "image") + "\n")
		}
	}
	return unique.Make(all.String())
}

// readImages are the images by "c:" (containers) or "i:" (initContainers) and the
// container's name.
func readImages(images unique.Handle[string]) map[string]string {
	all := map[string]string{}
	fields := strings.Split(images.Value(), "\n")
	for i := 0; i+1 < len(fields); i += 2 {
		all[fields[i]] = fields[i+1]
	}
	return all
}

// image is what the containers run, as people are told.
func (p *podFact) image() string {
	var all []string
	fields := strings.Split(p.images.Value(), "\n")
	for i := 0; i+1 < len(fields); i += 2 {
		if strings.HasPrefix(fields[i], "c:") {
			all = append(all, fields[i+1])
		}
	}
	return strings.Join(all, ",")
}

// onDelete says whether a workload replaces pods only when somebody deletes them.
func onDelete(u *unstructured.Unstructured) bool {
	return str(u.Object, "spec", "updateStrategy", "type") == "OnDelete"
}

// writtenAt is when Jibe last changed the object, in seconds since 1970.
func writtenAt(u *unstructured.Unstructured) int64 {
	for _, m := range u.GetManagedFields() {
		if isOurs(m) && m.Time != nil {
			return m.Time.Unix()
		}
	}
	return 0
}
