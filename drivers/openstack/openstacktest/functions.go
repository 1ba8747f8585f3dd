package openstacktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unknown stands for a value that only a resource yet to be made will have. Functions of
// it are unknown, and so not validated.
type unknown struct{}

// scope is what functions of a template are resolved in.
type scope struct {
	parameters object
	reference  func(resource string) any             // get_resource
	attribute  func(resource string, path []any) any // get_attr
}

// resolve is the value with its functions replaced by what they say.
func (s *scope) resolve(value any) (any, error) {
	switch v := value.(type) {
	case object:
		if len(v) == 1 {
			for name, args := range v {
				if f := function(name); f != nil {
					return f(s, args)
				}
			}
		}
		out := object{}
		for k, x := range v {
			r, err := s.resolve(x)
			if err != nil {
				return nil, err
			}
			out[k] = r
		}
		return out, nil
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			r, err := s.resolve(x)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		return out, nil
	}
	return value, nil
}

// function is what the template's function of this name does; nil where there is none.
func function(name string) func(*scope, any) (any, error) {
	switch name {
	case "get_param":
		return getParam
	case "get_resource":
		return getResource
	case "get_attr":
		return getAttr
	case "list_join":
		return listJoin
	}
	if slices.Contains(absent, name) {
		return func(*scope, any) (any, error) {
			return nil, invalid("the function %s of templates isn't played here", name)
		}
	}
	return nil
}

// absent are functions of Heat's that no test has in a template for this cloud.
var absent = []string{
	"get_file", "str_replace", "str_replace_strict", "str_replace_vstrict", "list_concat", "list_concat_unique", "map_merge", "map_replace",
	"str_split", "repeat", "digest", "yaql", "make_url", "filter", "contains", "resource_facade", "if", "equals", "not", "and", "or",
}

func getParam(s *scope, args any) (any, error) {
	path, ok := args.([]any)
	if !ok {
		path = []any{args}
	}
	if len(path) == 0 {
		return nil, invalid(`Function "get_param" must have arguments`)
	}
	resolved, err := s.resolve(path[1:])
	if err != nil {
		return nil, err
	}
	name := asText(path[0])
	value, ok := s.parameters[name]
	if !ok {
		return nil, invalid("The Parameter (%s) was not provided.", name)
	}
	found := dig(value, resolved.([]any))
	if found == nil && len(path) > 1 {
		return "", nil // as Heat does
	}
	return found, nil
}

// dig follows a path into a value; nil where it leads nowhere.
func dig(value any, path []any) any {
	for _, step := range path {
		switch v := value.(type) {
		case object:
			value = v[asText(step)]
		case []any:
			i, err := strconv.Atoi(asText(step))
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		case unknown:
			return v
		default:
			return nil
		}
	}
	return value
}

func getResource(s *scope, args any) (any, error) { return s.reference(asText(args)), nil }

func getAttr(s *scope, args any) (any, error) {
	list, ok := args.([]any)
	if !ok || len(list) == 0 {
		return nil, invalid(`Arguments to "get_attr" must be of the form [resource_name, attribute, (path), ...]`)
	}
	path, err := s.resolve(list[1:])
	if err != nil {
		return nil, err
	}
	return s.attribute(asText(list[0]), path.([]any)), nil
}

func listJoin(s *scope, args any) (any, error) {
	r, err := s.resolve(args)
	list, ok := r.([]any)
	if err != nil {
		return nil, err
	}
	if !ok || len(list) < 2 {
		return nil, invalid(`Incorrect arguments to "list_join"`)
	}
	if hasUnknown(list) {
		return unknown{}, nil
	}
	var parts []string
	for _, l := range list[1:] {
		items, _ := l.([]any)
		for _, x := range items {
			parts = append(parts, asText(x))
		}
	}
	return strings.Join(parts, asText(list[0])), nil
}

func hasUnknown(value any) bool {
	switch v := value.(type) {
	case unknown:
		return true
	case object:
		for _, x := range v {
			if hasUnknown(x) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasUnknown)
	}
	return false
}

// asText is a value where a string is wanted.
func asText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "True"
		}
		return "False"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int:
		return strconv.Itoa(v)
	case object, []any:
		data, err := json.Marshal(v)
		if err == nil {
			return string(data)
		}
	}
	return fmt.Sprint(value)
}
