package watched

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// Reselection is another selector for a Service that selects the same pods.
type Reselection struct {
	// Version is the resourceVersion of the Service for which it was made.
	Version uint64
	// Labels are the entries to set; nil takes one out.
	Labels map[string]any
}

// madeByControllers are the labels that controllers give pods beside those of their templates.
// They differ from pod to pod, or from instance to instance.
var madeByControllers = []string{
	manifest.LabelPodName, manifest.LabelPodIndex, "pod-template-hash", "controller-revision-hash", "pod-template-generation",
	"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index",
}

// ownLabels are the package's own among the labels by which pods are selected: of a pod, of the
// pods that the object makes, or in the selector of a Service. Instances of one package share
// them. A Service that selects by more than these has none.
func ownLabels(gk schema.GroupKind, u *unstructured.Unstructured, pods map[string]string) unique.Handle[string] {
	labels := pods
	if gk == manifest.KindService {
		labels = manifest.Selector(u)
		for _, k := range madeByControllers {
			if labels[k] != "" {
				return unique.Make("")
			}
		}
		if labels[manifest.LabelInstance] != u.GetLabels()[manifest.LabelInstance] {
			return unique.Make("") // it selects others' pods
		}
	}
	var all strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k != manifest.LabelInstance && k != manifest.LabelInstallation && k != manifest.LabelGeneration && !slices.Contains(madeByControllers, k) {
			all.WriteString(k + "=" + labels[k] + "\n") // neither may hold a line's end
		}
	}
	return unique.Make(all.String())
}

// ownMap is what ownLabels made, as a map.
func (f *Fact) ownMap() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(f.own.Value()) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[k] = v
	}
	return all
}

// Reselection is how the Service is to select the same pods by other labels, where it should be
// the desired generation's ([plan.ObservedObject.Marked], Blurred); false where it needn't.
func (c *Cache) Reselection(instance, key string, want plan.Desired, r *manifest.Form) (Reselection, bool) {
	f := c.Get(manifest.KindService, key)
	if !c.Owns(f, instance) || f.Deleting || r == nil {
		return Reselection{}, false
	}
	v := newView(c.of(instance))
	labels := v.unmarked(r, want.Generation, f)
	if labels == nil {
		labels = v.held(r, want.Generation, f)
	}
	return Reselection{Version: f.version, Labels: labels}, labels != nil
}

// unmarked is how the Service, which directs traffic to another generation than the one that
// should stand, selects the same pods by the package's own labels alone; nil where it selects by
// them already, or where they don't tell these pods from all others. Those of the selector
// do, or with them one that the author's selector has and the Service hasn't.
func (v *view) unmarked(r *manifest.Form, generation string, service *Fact) map[string]any {
	now := service.traffic.generation
	own := service.ownMap()
	if now == "" || generation == "" || now == generation || len(own) == 0 {
		return nil
	}
	change := map[string]any{manifest.LabelGeneration: nil}
	if v.selectsSame(r, service, own) {
		return change
	}
	authored := maps.Clone(manifest.Selector(r.Objects[service.Key]))
	for _, k := range r.LeftOut[service.Key] {
		authored[k] = ""
	}
	var found map[string]any
	for k := range authored {
		if _, has := own[k]; has || k == manifest.LabelInstance || k == manifest.LabelGeneration {
			continue
		}
		value, same := v.shared(service, own, k)
		more := maps.Clone(own)
		more[k] = value
		if !same || !v.selectsSame(r, service, more) {
			continue
		}
		if found != nil {
			return nil // nobody knows which of them the script would set
		}
		found = maps.Clone(change)
		found[k] = value
	}
	return found
}

// selectsSame says whether the selector alone selects the pods that the Service does, those
// that their workloads are still to make too, and no others of the instance, those that are
// still to come too.
func (v *view) selectsSame(r *manifest.Form, service *Fact, selector map[string]string) bool {
	some := false
	for _, f := range v.facts {
		if !makesOrIsPod(service, f) {
			continue
		}
		selected := selects(service, f)
		if manifest.Selects(selector, f.ownMap()) != selected {
			return false
		}
		some = some || selected
	}
	return some && !rendersSelected(r, service, selector)
}

// shared is the value that all pods that the Service selects, and those that their workloads
// are still to make, have for the label; false where they have several, or some have none.
func (v *view) shared(service *Fact, own map[string]string, label string) (value string, same bool) {
	for _, f := range v.facts {
		if !makesOrIsPod(service, f) || !selects(service, f) {
			continue
		}
		is, has := f.ownMap()[label]
		if !has || value != "" && value != is {
			return "", false
		}
		value = is
	}
	return value, value != ""
}

// makesOrIsPod says whether the fact is of a pod that may get traffic, or of something that makes such.
func makesOrIsPod(service, f *Fact) bool {
	switch {
	case f.namespace != service.namespace, f.GroupKind == manifest.KindService:
		return false
	case f.pod != nil:
		return !f.pod.finished
	}
	return f.TopLevel() && f.own.Value() != ""
}

// selects says whether the Service selects the pod, or those that the object makes.
func selects(service, f *Fact) bool {
	return f.makesOf == service.traffic.generation && manifest.Selects(service.ownMap(), f.ownMap())
}

// rendersSelected says whether the selector would select pods of the rendering.
func rendersSelected(r *manifest.Form, service *Fact, selector map[string]string) bool {
	for _, u := range r.Objects {
		if gk := u.GroupVersionKind().GroupKind(); u.GetNamespace() == service.namespace && manifest.Selects(selector, manifest.PodLabels(u, gk)) {
			return true
		}
	}
	return false
}

// held is how the Service, which selects by no mark of a generation, selects the same pods by
// that of the one generation of which they are, before there is anything of the generation
// that should stand; nil where it would select none of that generation's pods anyway.
func (v *view) held(r *manifest.Form, generation string, service *Fact) map[string]any {
	own := service.ownMap()
	if service.traffic.generation != "" || generation == "" || len(own) == 0 || !rendersSelected(r, service, own) {
		return nil
	}
	now := ""
	for _, f := range v.facts {
		if f.pod == nil || f.pod.finished || f.namespace != service.namespace || !manifest.Selects(own, f.ownMap()) {
			continue
		}
		if f.labelled == "" || f.labelled == generation || now != "" && now != f.labelled {
			return nil
		}
		now = f.labelled
	}
	if now == "" {
		return nil
	}
	return map[string]any{manifest.LabelGeneration: now}
}
