package openstacktest

import (
	"encoding/json"
	"fmt"
	"maps"
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
	files      map[string]string
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
	case "get_file":
		return getFile
	case "str_replace", "str_replace_strict":
		return strReplace
	case "list_join":
		return listJoin
	case "list_concat":
		return listConcat
	case "map_merge":
		return mapMerge
	case "str_split":
		return strSplit
	case "repeat":
		return repeat
	}
	return nil
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

func getFile(s *scope, args any) (any, error) {
	content, ok := s.files[asText(args)]
	if !ok {
		return nil, invalid(`No content found in the "files" section for get_file path: %v`, args)
	}
	return content, nil
}

// mapping is the resolved arguments of a function that takes a map; false where they
// are unknown.
func mapping(s *scope, args any) (object, bool, error) {
	r, err := s.resolve(args)
	if err != nil {
		return nil, false, err
	}
	m, ok := r.(object)
	return m, ok && !hasUnknown(m), nil
}

func strReplace(s *scope, args any) (any, error) {
	m, known, err := mapping(s, args)
	if err != nil || !known {
		return unknown{}, err
	}
	params, _ := m["params"].(object)
	keys := slices.SortedFunc(maps.Keys(params), func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, k := range keys {
		pairs = append(pairs, k, asText(params[k]))
	}
	return strings.NewReplacer(pairs...).Replace(asText(m["template"])), nil
}

func listJoin(s *scope, args any) (any, error) {
	r, err := s.resolve(args)
	list, ok := r.([]any)
	if err != nil || !ok || len(list) < 2 {
		return nil, orInvalid(err, "list_join")
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

func listConcat(s *scope, args any) (any, error) {
	r, err := s.resolve(args)
	lists, ok := r.([]any)
	if err != nil || !ok {
		return nil, orInvalid(err, "list_concat")
	}
	out := []any{}
	for _, l := range lists {
		items, _ := l.([]any)
		out = append(out, items...)
	}
	return out, nil
}

func mapMerge(s *scope, args any) (any, error) {
	r, err := s.resolve(args)
	list, ok := r.([]any)
	if err != nil || !ok {
		return nil, orInvalid(err, "map_merge")
	}
	out := object{}
	for _, m := range list {
		switch m := m.(type) {
		case object:
			maps.Copy(out, m)
		case nil:
		case unknown:
			return m, nil
		default:
			return nil, invalid("Incorrect arguments: to \"map_merge\", arguments must be a list of maps. Example: %v", list)
		}
	}
	return out, nil
}

func strSplit(s *scope, args any) (any, error) {
	r, err := s.resolve(args)
	list, ok := r.([]any)
	if err != nil || !ok || len(list) < 2 {
		return nil, orInvalid(err, "str_split")
	}
	parts := []any{}
	for _, p := range strings.Split(asText(list[1]), asText(list[0])) {
		parts = append(parts, p)
	}
	return dig(parts, list[2:]), nil
}

func repeat(s *scope, args any) (any, error) {
	m, _ := args.(object)
	each, err := s.resolve(m["for_each"])
	over, ok := each.(object)
	if err != nil || !ok || len(over) != 1 {
		return nil, orInvalid(err, "repeat")
	}
	out := []any{}
	for name, values := range over {
		list, _ := values.([]any)
		for _, v := range list {
			x, err := s.resolve(replaced(m["template"], name, v))
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
	}
	return out, nil
}

// replaced is the value with the placeholder replaced in its strings.
func replaced(value any, placeholder string, by any) any {
	switch v := value.(type) {
	case string:
		if v == placeholder {
			return by
		}
		return strings.ReplaceAll(v, placeholder, asText(by))
	case object:
		out := object{}
		for k, x := range v {
			out[strings.ReplaceAll(k, placeholder, asText(by))] = replaced(x, placeholder, by)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = replaced(x, placeholder, by)
		}
		return out
	}
	return value
}

func orInvalid(err error, function string) error {
	if err != nil {
		return err
	}
	return invalid(`Incorrect arguments to "%s"`, function)
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
