package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds that the API server takes and doesn't keep, and of which more is to be known than the
// table has.
var (
	// KindEviction and KindBinding are about the Pod of their name.
	KindEviction = schema.GroupKind{Group: policy, Kind: "Eviction"}
	KindBinding  = schema.GroupKind{Group: GroupCore, Kind: "Binding"}
	kindLocal    = schema.GroupKind{Group: authorization, Kind: "LocalSubjectAccessReview"}
)

// posted is what the instance sends of a manifest of a posted kind: as it stands, since the
// API server refuses reviews that have labels or annotations, but in the instance's namespace.
func (mk *maker) posted(m manifest) *unstructured.Unstructured {
	obj := m.obj.DeepCopy()
	written := obj.GetNamespace()
	place := placeOf(m.gk, mk.scopes, mk.namespace)
	if obj.SetNamespace(place); m.gk != kindLocal {
		return obj
	}
	// Such a review is refused unless it asks about its own namespace.
	spec, _ := obj.Object["spec"].(map[string]any)
	if about, ok := spec["resourceAttributes"].(map[string]any); ok && about["namespace"] == namespaceOrDefault(written) {
		about["namespace"] = place
	}
	return obj
}

// namespaceOrDefault is the namespace that the API server takes for one that isn't given.
func namespaceOrDefault(given string) string {
	if given == "" {
		return "default"
	}
	return given
}
