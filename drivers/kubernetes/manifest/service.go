package manifest

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// The labels that a StatefulSet's controller gives its pods beside those of the template.
const (
	LabelPodName  = "statefulset.kubernetes.io/pod-name"
	LabelPodIndex = "apps.kubernetes.io/pod-index"
)

// Selector is the selector of a Service. It is nil where the Service selects nothing, as
// somebody else says where its traffic goes, and where it is only a name for another host,
// whatever it selects.
func Selector(u *unstructured.Unstructured) map[string]string {
	if raw.String(u.Object, "spec", "type") == "ExternalName" {
		return nil
	}
	selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
	return selector
}

// selectGeneration makes the Service select the pods of the instance's generation alone,
// where it selects a workload of the package: otherwise pods that aren't ready to
// replace others would get traffic. It does so from the first generation on, so
// that a second can be made beside it.
//
// An author may rename a label in the workload and leave it to a script to make
// the Service follow. In a later generation the labels that no workload has are left out,
// if a workload is selected then: the generation says which pods are meant.
//
// A Service that selects one pod of a StatefulSet by its name follows it to the name
// that it has in the generation; sets are those names by the package's.
func selectGeneration(u *unstructured.Unstructured, pods []map[string]string, sets map[string]string, generation string) {
	selector := Selector(u)
	selected := func(s map[string]string) bool {
		s = without(s, func(k, _ string) bool { return k == LabelPodName || k == LabelPodIndex })
		return slices.ContainsFunc(pods, func(labels map[string]string) bool { return Selects(s, labels) })
	}
	if pod, named := selector[LabelPodName]; named {
		at := max(strings.LastIndex(pod, "-"), 0)
		set, known := sets[pod[:at]]
		if !known {
			return
		}
		_ = merge(u.Object, map[string]string{LabelPodName: set + pod[at:]}, "spec", "selector") // it was read as a map
		selector = Selector(u)
	}
	if !selected(selector) && generation != firstGeneration {
		rest := without(selector, func(k, v string) bool {
			return k != LabelPodName && k != LabelPodIndex && !slices.ContainsFunc(pods, func(labels map[string]string) bool { return labels[k] == v })
		})
		if authored(rest) && selected(rest) {
			selector = rest
			// The selector was read as a map of strings, so it can be written.
			_ = unstructured.SetNestedStringMap(u.Object, selector, "spec", "selector")
		}
	}
	if selected(selector) {
		_ = merge(u.Object, map[string]string{LabelGeneration: generation}, "spec", "selector")
	}
}

// authored says whether the selector holds more than that the pods are the instance's.
func authored(selector map[string]string) bool {
	return len(without(selector, func(k, _ string) bool { return k == LabelInstance })) > 0
}

// leftOut are the labels by which the Service that was rendered doesn't select, although its
// author wrote them; none where the object is no Service.
func leftOut(authored, rendered *unstructured.Unstructured) []string {
	if rendered.GetKind() != KindService.Kind {
		return nil
	}
	rest := Selector(rendered)
	return slices.Sorted(maps.Keys(without(Selector(authored), func(k, _ string) bool { _, kept := rest[k]; return kept })))
}
