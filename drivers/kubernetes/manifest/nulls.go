package manifest

import (
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtIn has the types of the kinds that every API server has.
var builtIn = types()

func types() *runtime.Scheme {
	all := runtime.NewScheme()
	add := runtime.NewSchemeBuilder(admissionv1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme,
		nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme)
	if err := add.AddToScheme(all); err != nil {
		panic(err) // two types of one name: a mistake of this list
	}
	return all
}

// settleNulls gives each null of the object the meaning that the API server gives it: an
// entry of a map, such as of labels or of a ConfigMap's data, has the empty value, and so has
// an item of a list of strings; a field that is null is absent. Of a custom resource only the
// metadata is known here: what its other nulls mean, its definition says ([SettleCustom]).
func settleNulls(object map[string]any, gvk schema.GroupVersionKind) {
	if !hasNull(object) {
		return
	}

	if IsCustom(gvk.GroupKind()) {
		settleMetadata(object)
		return
	}
	t := reflect.TypeFor[metav1.PartialObjectMetadata]()
	if typed, err := builtIn.New(gvk); err == nil {
		t = reflect.TypeOf(typed).Elem()
	}
	settle(object, t)
}

// settleMetadata settles the nulls of an object's metadata alone.
func settleMetadata(object map[string]any) {
	if metadata, found := object["metadata"]; found && metadata == nil {
		delete(object, "metadata")
	}
	settle(object["metadata"], reflect.TypeFor[metav1.ObjectMeta]())
}

// hasNull reports whether a null stands in the value, or is it.
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
