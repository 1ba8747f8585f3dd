// Package raw reads the content of objects whose types aren't known, leniently: what isn't
// there, or is of another type, is the zero value.
package raw

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Maps is the list of maps at the path; what isn't one is left out.
func Maps(object map[string]any, path ...string) []map[string]any {
	v, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	list, _ := v.([]any)
	all := make([]map[string]any, 0, len(list))
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// Map is the map at the path; nil where there is none.
func Map(object map[string]any, path ...string) map[string]any {
	v, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	m, _ := v.(map[string]any)
	return m
}

// String is the text at the path.
func String(object map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(object, path...)
	return s
}

// Int reads a whole number as JSON or YAML gave it; 0 where there is none.
func Int(v any) int64 {
	n, _ := Seconds(v)
	return n
}

// Strings is the list of texts in the field; nil where an item is anything else.
func Strings(object map[string]any, field string) []string {
	list, _, _ := unstructured.NestedStringSlice(object, field)
	return list
}

// List is the list as objects hold it.
func List(values []string) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// Seconds reads a number of seconds, which isn't negative, as YAML or JSON gives it. ok is
// false where it is none.
func Seconds(v any) (n int64, ok bool) {
	switch n := v.(type) {
	case int:
		return int64(n), n >= 0
	case int64:
		return n, n >= 0
	case float64:
		return int64(n), n >= 0
	}
	return 0, false
}

// JSON is the value as JSON on one line, without what would only matter in a web page.
func JSON(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "?"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
