package confine

import (
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// marks refuses labels by which what a controller makes of the object would count as another VNF
// instance's, or another installation's, and annotations that only Jibe's own objects have. What
// Jibe labels itself has its own value here already: these are labels elsewhere in the object, as
// in the template of a CronJob's Jobs or of a custom resource's pods.
func (o object) marks() []drivers.Violation {
	if o.file == "" { // the inventory, which is Jibe's
		return nil
	}
	var all []drivers.Violation
	own := o.content.GetLabels()
	eachLabels(nil, o.content.Object, func(path []string, labels map[string]any) {
		for _, label := range []string{manifest.LabelInstance, manifest.LabelInstallation} {
			if value, given := labels[label]; given && value != own[label] {
				all = append(all, o.violates(drivers.RuleOwner, "has the label %s: %v at %s, as if it were another VNF's: leave it out, Jibe labels what it makes",
					label, value, strings.Join(path, ".")))
			}
		}
	})

	for _, name := range []string{manifest.AnnotationKinds, manifest.AnnotationKey} {
		if raw.Map(o.content.Object, "metadata", "annotations")[name] != nil {
			all = append(all, o.violates(drivers.RuleOwner, "has the annotation %s, which only Jibe writes: leave it out", name))
		}
	}
	return all
}

// eachLabels calls fn with each mapping of labels in the value, but for those that select
// (matchLabels): a NetworkPolicy may name the pods of another VNF.
func eachLabels(path []string, value any, fn func(path []string, labels map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := slices.Concat(path, []string{key})
			if labels, ok := v[key].(map[string]any); ok && key != "matchLabels" && strings.HasSuffix(strings.ToLower(key), "labels") {
				fn(at, labels)
			}
			eachLabels(at, v[key], fn)
		}
	case []any:
		for _, item := range v {
			eachLabels(path, item, fn)
		}
	}
}
