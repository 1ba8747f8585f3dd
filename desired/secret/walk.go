package secret

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// walk copies v and calls edit on each mapping in it, outermost first.
func walk(v any, edit func(map[string]any)) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		if out != nil {
			edit(out)
		}
		for k, e := range out {
			out[k] = walk(e, edit)
		}
		return out
	case map[string]string:
		if len(v) == 0 {
			return maps.Clone(v)
		}
		wide := make(map[string]any, len(v))
		for k, e := range v {
			wide[k] = e
		}
		edit(wide)
		out := make(map[string]string, len(wide))
		for k, e := range wide {
			out[k], _ = e.(string)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, e := range v {
			out[i] = walk(e, edit)
		}
		return out
	}
	// Other lists and mappings, such as []map[string]any, without which a
	// credential could escape behind a type.
	r := reflect.ValueOf(v)
	switch {
	case !r.IsValid():
		return nil
	case r.Kind() == reflect.Slice && r.Type().Elem().Kind() != reflect.Uint8 && !r.IsNil():
		out := make([]any, r.Len())
		for i := range out {
			out[i] = walk(r.Index(i).Interface(), edit)
		}
		return out
	case r.Kind() == reflect.Map && r.Type().Key().Kind() == reflect.String && !r.IsNil():
		out := make(map[string]any, r.Len())
		for it := r.MapRange(); it.Next(); {
			out[strings.Clone(it.Key().String())] = it.Value().Interface()
		}
		return walk(out, edit)
	}
	return v
}
