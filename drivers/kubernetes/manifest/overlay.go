package manifest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// contents are the fields of a ConfigMap or Secret that a container update takes
// from its package, beside labels and annotations.
var contents = []string{"data", "binaryData", "type", "immutable"}

// overlay lays the container updates on the manifests, which stay as they are: the
// content of ConfigMaps and Secrets, and the images of workloads. Nothing else of
// the packages of container updates counts before the whole VNF is healed.
func overlay(src drivers.Source, base []manifest) ([]manifest, error) {
	updates := src.Instance.Overlays
	if len(updates) == 0 {
		return base, nil
	}
	if len(src.Overlays) != len(updates) {
		return nil, fmt.Errorf("instance %s has %d container updates, of which %d packages were read", src.Instance.ID, len(updates), len(src.Overlays))
	}
	files := fileSets(base)
	all := slices.Clone(base)
	for i, update := range updates {
		before := slices.Clone(all)
		if err := overlayMaps(src.Overlays[i], update.Paths, files, all); err != nil {
			return nil, err
		}
		if err := overlayImages(src.Overlays[i], files, all); err != nil {
			return nil, err
		}
		if err := markStale(before, all); err != nil {
			return nil, err
		}
	}
	return all, markUsers(base, all)
}

// fileSet is what one file of manifests holds.
type fileSet struct {
	file string
	ids  []id // in the order of the file
}

// fileSets are the files of the manifests, in order.
func fileSets(manifests []manifest) []fileSet {
	var files []fileSet
	for _, m := range manifests {
		if len(files) == 0 || files[len(files)-1].file != m.file {
			files = append(files, fileSet{file: m.file})
		}
		last := &files[len(files)-1]
		last.ids = append(last.ids, m.id())
	}
	return files
}

func setOf(ids []id) map[id]bool {
	set := make(map[id]bool, len(ids))
	for _, i := range ids {
		set[i] = true
	}
	return set
}

func (f fileSet) same(ids []id) bool { return maps.Equal(setOf(f.ids), setOf(ids)) }

// String is what the file holds, as people read it.
func (f fileSet) String() string { return names(f.ids) }

func names(ids []id) string {
	var all []string
	for _, i := range ids {
		all = append(all, i.String())
	}
	return strings.Join(all, ", ")
}

// overlayMaps takes the content of the ConfigMaps and Secrets in the files. Each
// file must hold exactly what a file of the base holds.
func overlayMaps(pkg *vnfd.Package, paths []string, base []fileSet, all []manifest) error {
	taken := map[id]string{}
	for _, file := range paths {
		found, err := readMaps(pkg, file)
		if err != nil {
			return err
		}
		var ids []id
		for _, m := range found {
			if prior, twice := taken[m.id()]; twice {
				return &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf("%s stands already in %s", m.id(), prior)}
			}
			taken[m.id()] = m.where
			ids = append(ids, m.id())
		}
		if err := succeeds(file, ids, base); err != nil {
			return err
		}
		for _, m := range found {
			at := slices.IndexFunc(all, func(x manifest) bool { return x.id() == m.id() })
			if space(m) != space(all[at]) {
				return &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf(
					"%s is in namespace %s and runs in %s: a container update can't move it", m.id(), space(m), space(all[at]))}
			}
			all[at].obj = refill(all[at].obj, m.obj)
		}
	}
	return nil
}

// readMaps reads one file of a container update.
func readMaps(pkg *vnfd.Package, file string) ([]manifest, error) {
	refuse := func(format string, args ...any) ([]manifest, error) {
		return nil, &drivers.RefusedError{Object: file, Reason: fmt.Sprintf(format, args...)}
	}
	if !fs.ValidPath(file) {
		return nil, &drivers.RefusedError{Object: fmt.Sprintf("%q", file), Reason: "is not a path in the package"}
	}
	if !hasFile(pkg, file) {
		return refuse("the package of the container update has no file %s", file)
	}
	found, err := readManifests(pkg, []string{file})
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		if !isMap(m.gk) {
			return refuse("holds %s: a container update takes nothing but ConfigMaps and Secrets from the files that it names", m.id())
		}
	}
	if len(found) == 0 {
		return refuse("holds no ConfigMap and no Secret")
	}
	return found, nil
}

// succeeds refuses a file of maps that isn't the successor of one in the base.
func succeeds(file string, ids []id, base []fileSet) error {
	set := setOf(ids)
	for _, f := range base {
		if f.same(ids) {
			return nil
		}
	}
	for _, f := range base {
		if slices.ContainsFunc(f.ids, func(i id) bool { return set[i] }) {
			return &drivers.RefusedError{Object: file, Reason: fmt.Sprintf(
				"holds %s, while %s, which runs, holds %s: a file of a container update must hold the same objects as the one whose place it takes; kinds and names can't change", names(ids), f.file, f)}
		}
	}
	return &drivers.RefusedError{Object: file, Reason: fmt.Sprintf(
		"holds %s, which no file that runs does: a container update can't add objects, nor change their kinds and names; change the package instead", names(ids))}
}

// space is the namespace that the manifest names.
func space(m manifest) string {
	if ns := m.obj.GetNamespace(); ns != "" {
		return ns
	}
	return "default"
}

// refill is the old object with the content of the new one.
func refill(old, content *unstructured.Unstructured) *unstructured.Unstructured {
	filled := old.DeepCopy()
	for _, field := range contents {
		delete(filled.Object, field)
		if v, ok := content.Object[field]; ok {
			filled.Object[field] = v
		}
	}
	filled = filled.DeepCopy() // nothing is shared with content
	filled.SetLabels(content.GetLabels())
	filled.SetAnnotations(content.GetAnnotations())
	return filled
}

// changedData is the content of the maps that hold something else than they did.
func changedData(before, after []manifest) map[id]any {
	changed := map[id]any{}
	for i, m := range after {
		if isMap(m.gk) && !sameData(before[i].obj, m.obj) {
			changed[m.id()] = []any{m.obj.Object["data"], m.obj.Object["binaryData"]}
		}
	}
	return changed
}

// contentOf is the part of the content that is used, by name; JSON sorts it.
func contentOf(changed map[id]any, used map[id]bool) map[string]any {
	part := map[string]any{}
	for which := range used {
		if content, ok := changed[which]; ok {
			part[which.String()] = content
		}
	}
	return part
}

// markUsers notes in the workloads the content of the maps that their pods use and
// that differs from the base's, so that they replace their pods.
func markUsers(base, all []manifest) error {
	changed := changedData(base, all)
	for i, m := range all {
		if !runs(m.gk) {
			continue
		}
		content := contentOf(changed, uses(podSpec(m.obj, m.gk)))
		if len(content) == 0 {
			continue
		}
		var err error
		if all[i].config, err = json.Marshal(content); err != nil {
			return fmt.Errorf("%s: content that %s uses: %w", m.where, m.id(), err)
		}
	}
	return nil
}

// markStale notes in bare Pods that one container update changed what a container
// uses and left the container itself: nothing restarts it then, and the Pod must be
// made anew. One whose image changes is restarted where it is.
func markStale(before, after []manifest) error {
	changed := changedData(before, after)
	for i, m := range after {
		if m.gk != KindPod {
			continue
		}
		spec, was := podSpec(m.obj, m.gk), containerImages(before[i].obj, m.gk)
		stale := map[string]any{}
		for _, c := range podContainers(spec) {
			if restarts(spec, c) && raw.String(c, "image") != was[raw.String(c, "name")] {
				continue
			}
			maps.Copy(stale, contentOf(changed, containerUses(spec, c)))
		}
		if len(stale) == 0 {
			continue
		}
		var err error
		if after[i].stale, err = json.Marshal([]any{before[i].stale, stale}); err != nil {
			return fmt.Errorf("%s: content that %s uses: %w", m.where, m.id(), err)
		}
	}
	return nil
}

// sameData says whether two maps hold the same.
func sameData(a, b *unstructured.Unstructured) bool {
	for _, field := range []string{"data", "binaryData"} {
		x, _ := a.Object[field].(map[string]any)
		y, _ := b.Object[field].(map[string]any)
		if len(x) != len(y) || len(x) > 0 && !equality.Semantic.DeepEqual(x, y) {
			return false
		}
	}
	return true
}
