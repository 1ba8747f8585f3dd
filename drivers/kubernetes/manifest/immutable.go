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
	// AnnotationImmutable, on Pods and Jobs, identifies what can't be changed in one that
	// exists: one whose mould differs from that of its render must be made anew. One
	// without it is of a Jibe that knew no moulds.
	AnnotationImmutable = Domain + "/mould"
)

// adjustable are the fields of a Job's spec that can be changed while it exists.
var adjustable = []string{"parallelism", "suspend", "activeDeadlineSeconds", "backoffLimit"}

// immutableOf identifies what can't be changed in the object once it exists: a Pod but
// for the images of containers that are restarted with another, with the content
// that wouldn't reach them; a Job's template. It is "" for other kinds: what their
// owners make anew is their owners' business.
func immutableOf(key []byte, instance string, u *unstructured.Unstructured, gk schema.GroupKind, stale []byte) (string, error) {
	var cast any
	switch gk {
	case KindPod:
		u = u.DeepCopy()
		spec := podSpec(u, gk)
		for _, c := range podContainers(spec) {
			if restarts(spec, c) {
				delete(c, "image")
			}
		}
		cast = []any{spec, stale}
	case KindJob:
		cast = u.Object["spec"]
		if m, ok := cast.(map[string]any); ok {
			cast = without(m, func(field string, _ any) bool { return slices.Contains(adjustable, field) })
		}
	default:
		return "", nil
	}
	content, err := json.Marshal(cast)
	if err != nil {
		return "", err
	}
	return seal(key, instance, content), nil
}
