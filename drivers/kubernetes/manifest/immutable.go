package manifest

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// AnnotationConfig, on pods, identifies the content of the ConfigMaps and Secrets
	// that they use and that a container update changed: it makes their owners
	// replace them. Pods that use none of those don't have it.
	AnnotationConfig = Domain + "/config"
	// AnnotationImmutable, on Pods and Jobs, identifies the content of their immutable
	// fields: an object in which it differs from its render must be made anew. One without
	// it was made by a Jibe that didn't write it.
	AnnotationImmutable = Domain + "/mould"
)

// adjustable are the fields of a Job's spec that can be changed while it exists.
var adjustable = []string{"parallelism", "suspend", "activeDeadlineSeconds", "backoffLimit"}

// immutableOf identifies what can't be changed in the object once it exists: a Pod but
// for the images of containers that are restarted with another, with the content
// that wouldn't reach them; a Job's template. It is "" for other kinds: what their
// owners make anew is their owners' business.
func immutableOf(key []byte, instance string, u *unstructured.Unstructured, gk schema.GroupKind, stale []byte) (string, error) {
	var fields any
	switch gk {
	case KindPod:
		u = u.DeepCopy()
		spec := podSpec(u, gk)
		for _, c := range podContainers(spec) {
			if restarts(spec, c) {
				delete(c, "image")
			}
		}
		fields = []any{spec, stale}
	case KindJob:
		fields = u.Object["spec"]
		if m, ok := fields.(map[string]any); ok {
			fields = without(m, func(field string, _ any) bool { return slices.Contains(adjustable, field) })
		}
	default:
		return "", nil
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	return seal(key, instance, content), nil
}
