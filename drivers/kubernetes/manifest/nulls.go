package manifest

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// settleNulls gives each null of the object the meaning that the API server gives it: an
// entry of a map, such as of labels or of a ConfigMap's data, has the empty value, and so has
// an item of a list of strings; a field that is null is absent. Of a kind that isn't built in
// only the metadata is known.
func settleNulls(object map[string]any, gvk schema.GroupVersionKind) {
	if !hasNull(object) {
		return
	}
	t := reflect.TypeFor[metav1.PartialObjectMetadata]()
	if typed, err := scheme.Scheme.New(gvk); err == nil {
		t = reflect.TypeOf(typed).Elem()
	}
	settle(object, t)
}

func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, x := range v {
			if hasNull(x) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if hasNull(x) {
				return true
			}
		}
	}
	return false
}

// settle settles the nulls below a value of the type; nil is an unknown one.
func settle(v any, t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			if x != nil {
				settle(x, typeOf(t, key))
			} else if empty := emptyEntry(t); empty != nil {
				v[key] = empty
			} else {
				delete(v, key)
			}
		}
	case []any:
		var item reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			item = t.Elem()
		}
		for i, x := range v {
			if x == nil && item != nil && item.Kind() == reflect.String {
				v[i] = ""
			}
			settle(x, item)
		}
	}
}

// emptyEntry is what the API server makes of a null in a map of the type; nil if it isn't a
// map, or one of values that have no empty form.
func emptyEntry(t reflect.Type) any {
	switch {
	case t == nil || t.Kind() != reflect.Map:
		return nil
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		return "0"
	case t.Elem().Kind() == reflect.String, t.Elem() == reflect.TypeFor[[]byte]():
		return ""
	}
	return nil
}

// typeOf is the type of what stands under the key in a value of the type; nil if unknown.
func typeOf(t reflect.Type, key string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() != reflect.Struct:
		return nil
	}
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == key:
			return field.Type
		case name == "" && (field.Anonymous || options == "inline"):
			if x := typeOf(field.Type, key); x != nil {
				return x
			}
		}
	}
	return nil
}
