package manifest

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// HasNulls reports whether a custom resource has nulls outside of its metadata, so that its
// definition has to be asked what they mean.
func HasNulls(u *unstructured.Unstructured) bool {
	if !IsCustom(u.GroupVersionKind().GroupKind()) {
		return false
	}
	for field, x := range u.Object {
		if field != "metadata" && hasNull(x) {
			return true
		}
	}

	return false
}

// SettleCustom gives each null of a custom resource the meaning that the API server gives it at
// a creation, by the schema (openAPIV3Schema) of its version: a null is kept where the schema
// says "nullable", or where the resource may have fields that the schema doesn't know; elsewhere
// the field is absent, and gets its default. It is done before the object is applied, as the API
// server refuses such a null in an apply where it prunes it from a creation. Without a schema all
// nulls are absent fields.
func SettleCustom(u *unstructured.Unstructured, schema map[string]any) {
	metadata := u.Object["metadata"]
	delete(u.Object, "metadata")
	crdSchema{schema}.settle(u.Object, false)
	if metadata != nil {
		u.Object["metadata"] = metadata
	}
}

// crdSchema is a part of a structural schema; nil is that of a field which isn't in it.
type crdSchema struct{ at map[string]any }

func (s crdSchema) is(flag string) bool { return s.at[flag] == true }

// settle settles the nulls in the value. free says that it is, or is part of, what may have
// fields which the schema doesn't know.
func (s crdSchema) settle(v any, free bool) {
	switch v := v.(type) {
	case map[string]any:
		if s.is("x-kubernetes-embedded-resource") {
			settleMetadata(v)
		}
		for field, x := range v {
			part, known := s.part(field)
			isFree := part.is(preserve) || !known && (free || s.is(preserve) || s.at["additionalProperties"] == true)
			switch {
			case x != nil:
				part.settle(x, isFree)
			case known && !part.is("nullable"), !known && !isFree:
				delete(v, field)
			}
		}
	case []any:
		items, known := s.at["items"].(map[string]any)
		for _, x := range v {
			crdSchema{items}.settle(x, crdSchema{items}.is(preserve) || !known && free)
		}
	}
}

// preserve marks what may have fields that the schema doesn't know.
const preserve = "x-kubernetes-preserve-unknown-fields"

// part is the schema of the field, if it has one.
func (s crdSchema) part(field string) (part crdSchema, known bool) {
	properties, _ := s.at["properties"].(map[string]any)
	if at, ok := properties[field].(map[string]any); ok {
		return crdSchema{at}, true
	}
	at, ok := s.at["additionalProperties"].(map[string]any)

	return crdSchema{at}, ok
}
