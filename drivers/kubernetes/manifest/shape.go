package manifest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Shape identifies what an object is like, whichever instance it is of: two objects that
// instances of one package have of one manifest have the same shape.
type Shape [sha256.Size]byte

// ShapeOf is the shape of an object that a [Renderer] made for the instance: its content
// without its namespace, the instance's id, and the digests that Jibe writes, which depend
// on these. Nothing else is left out, so that objects which differ in anything that their
// package or a person wrote have different shapes. The number of units isn't in a rendered
// object.
func ShapeOf(u *unstructured.Unstructured, instance string) (Shape, error) {
	o := own{instance: instance, namespace: u.GetNamespace()}
	plain, _ := o.without(u.Object).(map[string]any)
	if meta, ok := plain["metadata"].(map[string]any); ok && meta["name"] == InventoryName(instance) {
		meta["name"] = ofInstance
	}
	content, err := json.Marshal(plain) // in the order of the keys
	if err != nil {
		return Shape{}, fmt.Errorf("shape of %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return sha256.Sum256(content), nil
}

// ofInstance stands in a shape for what the instance is called; no manifest can have it
// as the value of a label, a namespace or a name.
const ofInstance = "\x00"

// own is what an object has of its instance alone.
type own struct{ instance, namespace string }

// without is a copy of the value in which marks stand for what is the instance's own.
func (o own) without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		rest := make(map[string]any, len(v))
		for field, x := range v {
			switch {
			case field == AnnotationDigest, field == AnnotationImmutable, field == AnnotationConfig:
			case field == LabelInstance && x == o.instance,
				field == "namespace" && o.namespace != "" && x == o.namespace:
				rest[field] = ofInstance
			default:
				rest[field] = o.without(x)
			}
		}
		return rest
	case []any:
		rest := make([]any, len(v))
		for i, x := range v {
			rest[i] = o.without(x)
		}
		return rest
	}
	return value
}
