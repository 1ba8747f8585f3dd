package hot

import (
	"maps"
	"slices"
	"strings"
)

// functions are the intrinsic functions of HOT: a mapping whose only key is one of them stands
// for the function's value.
var functions = map[string]bool{
	"get_attr": true, "get_file": true, "get_param": true, "get_resource": true, "list_join": true, "digest": true,
	"repeat": true, "resource_facade": true, "str_replace": true, "str_replace_strict": true, "str_replace_vstrict": true,
	"str_split": true, "map_merge": true, "map_replace": true, "yaql": true, "equals": true, "if": true, "not": true,
	"and": true, "or": true, "filter": true, "make_url": true, "list_concat": true, "list_concat_unique": true, "contains": true,
}

// call takes a function's use apart: {get_param: x} is "get_param" and x.
func call(v any) (function string, arg any, ok bool) {
	m, isMap := v.(map[string]any)
	if !isMap || len(m) != 1 {
		return "", nil, false
	}
	for k, x := range m {
		if functions[k] || strings.HasPrefix(k, "Fn::") {
			return k, x, true
		}
	}
	return "", nil, false
}

// rewrite copies v. It calls f with each use of a function, whose argument is copied already;
// where f returns true, its value takes the place of the function.
func rewrite(v any, f func(function string, arg any) (any, bool)) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = rewrite(e, f)
		}
		if function, arg, ok := call(out); ok {
			if put, replace := f(function, arg); replace {
				return put
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = rewrite(e, f)
		}
		return out
	}
	return v
}

// clone is a copy of v that shares nothing.
func clone(v any) any {
	return rewrite(v, func(string, any) (any, bool) { return nil, false })
}

func cloneMap(m map[string]any) map[string]any { return clone(m).(map[string]any) }

// visit calls f for every use of a function in v, in an order that is always the same.
func visit(v any, f func(function string, arg any)) {
	switch x := v.(type) {
	case map[string]any:
		if function, arg, ok := call(x); ok {
			f(function, arg)
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			visit(x[k], f)
		}
	case []any:
		for _, e := range x {
			visit(e, f)
		}
	}
}

// first takes the name that a function's argument begins with, that of a parameter or of a
// resource, from the rest.
func first(arg any) (name string, rest []any) {
	switch x := arg.(type) {
	case string:
		return x, nil
	case []any:
		if len(x) > 0 {
			if s, ok := x[0].(string); ok {
				return s, x[1:]
			}
		}
	}
	return "", nil
}

// uses are the resources to which v refers, by name.
func uses(v any) map[string]bool {
	found := map[string]bool{}
	visit(v, func(function string, arg any) {
		if function == "get_resource" || function == "get_attr" {
			if name, _ := first(arg); name != "" {
				found[name] = true
			}
		}
	})
	return found
}

// dependsOn are the names in a resource's depends_on.
func dependsOn(resource map[string]any) []string {
	var names []string
	switch x := resource["depends_on"].(type) {
	case string:
		names = append(names, x)
	case []any:
		for _, e := range x {
			if s, ok := e.(string); ok {
				names = append(names, s)
			}
		}
	}
	return names
}

// rename makes references to resources refer to others: to returns the new names for each name.
// It may return none for a resource that goes: only depends_on can do without.
func rename(resource map[string]any, to func(name string) []string) map[string]any {
	out := rewrite(resource, func(function string, arg any) (any, bool) {
		if function != "get_resource" && function != "get_attr" {
			return nil, false
		}
		name, rest := first(arg)
		names := to(name)
		if len(names) != 1 || names[0] == name {
			return nil, false
		}
		if _, isList := arg.([]any); isList {
			return map[string]any{function: append([]any{names[0]}, rest...)}, true
		}
		return map[string]any{function: names[0]}, true
	}).(map[string]any)
	if _, has := out["depends_on"]; has {
		var all []any
		for _, name := range dependsOn(resource) {
			for _, s := range to(name) {
				all = append(all, s)
			}
		}
		delete(out, "depends_on")
		if len(all) > 0 {
			out["depends_on"] = all
		}
	}
	return out
}

// section is a mapping in a template, nil where there is none.
func section(m map[string]any, key string) map[string]any {
	s, _ := m[key].(map[string]any)
	return s
}

// resourceOf is one resource of a section.
func resourceOf(resources map[string]any, name string) map[string]any {
	return section(resources, name)
}

func typeOf(resource map[string]any) string {
	s, _ := resource["type"].(string)
	return s
}
