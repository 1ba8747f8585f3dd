package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Equal says whether two instances have the same intent. Comments, order, and
// whether a default is written don't matter; an empty mapping is an absent one.
func Equal(a, b *Instance) bool { return len(Changed(a, b)) == 0 }

// Changed names the top-level keys of vnf.yaml in which the two differ, in the file's order.
// nil stands for an unknown instance, which differs in every key that the other gives.
func Changed(before, after *Instance) []string {
	var out []string
	b, a := withDefaults(before), withDefaults(after)
	was, is := reflect.ValueOf(&b).Elem(), reflect.ValueOf(&a).Elem()
	for i := range was.NumField() {
		// Most keys are the very same, and plain values cost far more than to see that.
		if reflect.DeepEqual(was.Field(i).Addr().Interface(), is.Field(i).Addr().Interface()) {
			continue
		}
		key, _, _ := strings.Cut(was.Type().Field(i).Tag.Get("json"), ",")
		x, y := plain(was.Field(i)), plain(is.Field(i))
		if key != "-" && !sameAny(x, y) && !(empty(x) && empty(y)) {
			out = append(out, key)
		}
	}
	return out
}

// keyed is a field of Instance by its key in vnf.yaml.
type keyed struct {
	key   string
	index int
}

// instanceFields are the keys of vnf.yaml, in the order in which they are written.
func instanceFields() []keyed {
	t := reflect.TypeFor[Instance]()
	out := make([]keyed, 0, t.NumField())
	for i := range t.NumField() {
		if key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); key != "-" {
			out = append(out, keyed{key, i})
		}
	}
	return out
}

// withDefaults returns a copy in which absent values are written out as their defaults.
func withDefaults(in *Instance) Instance {
	if in == nil {
		return Instance{}
	}
	out := *in
	out.State = cmp.Or(out.State, Instantiated)
	out.Update.Strategy = cmp.Or(out.Update.Strategy, Rolling)
	out.Drift = cmp.Or(out.Drift, DriftCorrect)
	return out
}

// sameAny compares plain values; see plain.
func sameAny(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !sameAny(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameAny)
	}
	return a == b
}

// plain turns a value into what JSON has, with struct fields under their keys,
// empty ones left out, and every whole number as int64. It shares nothing with v.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if f := plain(v.Field(i)); !empty(f) {
				out[key] = f
			}
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = plain(it.Value())
		}
		return out
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u <= math.MaxInt64 {
			return int64(u)
		}
		return float64(v.Uint())
	case reflect.Float32, reflect.Float64:
		// 2^53: beyond it a float64 no longer is one whole number.
		if f := v.Float(); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f)
		}
		return v.Float()
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		if n, ok := v.Interface().(json.Number); ok {
			return number(n)
		}
		return v.String()
	}
	return fmt.Sprint(v)
}

func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return plain(reflect.ValueOf(f))
}

// empty says whether a field has the value that it has when it isn't given.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
