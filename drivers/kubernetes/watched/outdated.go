package watched

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/plan"
)

// manualOwner is what makes units that their owner doesn't bring up to date.
type manualOwner struct {
	owner      *Fact
	atRender   bool // the owner stands at its render
	images     map[string]string
	config     string
	generation string
}

// manualOwners are the owners, by key, whose units must be deleted to be brought up to
// date: a ReplicaSet that no Deployment owns, and what has the strategy OnDelete.
func (v *view) manualOwners(r *manifest.Form, digests map[string]plan.Object) map[string]*manualOwner {
	var all map[string]*manualOwner
	for _, f := range v.facts {
		want, isWanted := digests[f.Key]
		if !f.manual || !isWanted || !f.TopLevel() || f.Deleting || r.Objects[f.Key] == nil {
			continue
		}
		pod := manifest.Template(r.Objects[f.Key], f.GroupKind)
		if all == nil {
			all = map[string]*manualOwner{}
		}
		all[f.Key] = &manualOwner{
			owner: f, atRender: f.Digest == want.Digest, images: readImages(imagesOf(pod, "spec")),
			config: raw.String(pod, "metadata", "annotations", manifest.AnnotationConfig), generation: raw.String(pod, "metadata", "labels", manifest.LabelGeneration),
		}
	}
	return all
}

// outdated says in what the pod differs from those that its owner makes now.
func (m *manualOwner) outdated(f *Fact) string {
	if m.generation != "" && f.labelled != m.generation {
		return fmt.Sprintf("it is of generation %s, not %s", f.labelled, m.generation)
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
		for _, c := range raw.Maps(object, spec, list) {
			// Neither a name nor an image can hold a line's end.
			all.WriteString(list[:1] + ":" + raw.String(c, "name") + "\n" + raw.String(c, "image") + "\n")
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

// image is what the containers run, as people read it.
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
	return raw.String(u.Object, "spec", "updateStrategy", "type") == "OnDelete"
}

// writtenAt is when Jibe last changed the object, in seconds since 1970.
func writtenAt(i manifest.Installation, u *unstructured.Unstructured) int64 {
	for _, m := range u.GetManagedFields() {
		if fields.IsOurs(i, m) && m.Time != nil {
			return m.Time.Unix()
		}
	}
	return 0
}
