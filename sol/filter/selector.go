package filter

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Shape says what selectors may leave out of a resource type.
type Shape struct {
	// Optional are the paths that the exclude_fields and exclude_default
	// parameters may remove and that "fields" alone does not return by itself:
	// every top-level attribute that isn't mandatory.
	Optional []string
	// Default are the attributes that are left out unless a selector asks for them.
	Default []string
}

// Selector says which attributes a list shows (SOL013 clause 5.3).
type Selector struct {
	shape   Shape
	all     bool
	fields  [][]string
	exclude [][]string
	// onlyFields: "fields" without exclude_default returns mandatory attributes
	// and what it names.
	onlyFields bool
}

// ParseSelector reads all_fields, fields, exclude_fields and exclude_default. Without any of
// them the selector is exclude_default.
func ParseSelector(q url.Values, shape Shape) (Selector, error) {
	s := Selector{shape: shape}
	all, def := q.Has("all_fields"), q.Has("exclude_default")
	fields, exclude := q.Has("fields"), q.Has("exclude_fields")
	switch {
	case all && (def || fields || exclude):
		return s, fmt.Errorf("%w: all_fields can't be combined with another selector", ErrSyntax)
	case fields && exclude:
		return s, fmt.Errorf("%w: fields can't be combined with exclude_fields", ErrSyntax)
	case exclude && def:
		return s, fmt.Errorf("%w: exclude_fields can't be combined with exclude_default", ErrSyntax)
	}
	var err error
	if s.fields, err = parseFields(q, "fields"); err != nil {
		return s, err
	}
	if s.exclude, err = parseFields(q, "exclude_fields"); err != nil {
		return s, err
	}
	s.all = all || exclude
	s.onlyFields = fields && !def
	return s, nil
}

func parseFields(q url.Values, name string) ([][]string, error) {
	if !q.Has(name) {
		return nil, nil
	}
	var paths [][]string
	for _, v := range q[name] {
		for p := range strings.SplitSeq(v, ",") {
			path, err := parsePath(p)
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrSyntax, name, err)
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// Shows says whether anything of the top-level attribute would be shown. Callers need not
// compute other attributes.
func (s Selector) Shows(attr string) bool {
	for _, p := range s.fields {
		if p[0] == attr {
			return true
		}
	}
	if slices.ContainsFunc(s.exclude, func(p []string) bool { return len(p) == 1 && p[0] == attr && slices.Contains(s.shape.Optional, attr) }) {
		return false
	}
	switch {
	case s.all:
		return true
	case s.onlyFields:
		return !slices.Contains(s.shape.Optional, attr)
	}
	return !slices.Contains(s.shape.Default, attr)
}

// Names says whether the selector asks for the attribute by name.
func (s Selector) Names(attr string) bool {
	return slices.ContainsFunc(s.fields, func(p []string) bool { return p[0] == attr })
}

// InParts says whether the selector shows only a part of an attribute; if not, Shows says
// everything.
func (s Selector) InParts() bool {
	deep := func(p []string) bool { return len(p) > 1 }
	return slices.ContainsFunc(s.fields, deep) || slices.ContainsFunc(s.exclude, deep)
}

// Apply returns v with the attributes that the selector shows. v isn't altered.
// A mandatory attribute can't be excluded.
func (s Selector) Apply(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for k, val := range v {
		if s.Shows(k) {
			out[k] = val
		}
	}
	if s.onlyFields || len(s.fields) > 0 {
		s.narrow(out, v)
	}
	for _, p := range s.exclude {
		if len(p) > 1 && slices.Contains(s.shape.Optional, p[0]) {
			if val, ok := out[p[0]]; ok {
				out[p[0]] = without(val, p[1:])
			}
		}
	}
	return out
}

// narrow reduces attributes that were shown only because "fields" names a part
// of them to that part.
func (s Selector) narrow(out, v map[string]any) {
	byTop := map[string][][]string{}
	for _, p := range s.fields {
		byTop[p[0]] = append(byTop[p[0]], p[1:])
	}
	for top, paths := range byTop {
		val, ok := v[top]
		hidden := slices.Contains(s.shape.Default, top) || s.onlyFields && slices.Contains(s.shape.Optional, top)
		if !ok || !hidden || slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 }) {
			continue
		}
		if part, ok := only(val, paths); ok {
			out[top] = part
		} else {
			delete(out, top)
		}
	}
}

func only(v any, paths [][]string) (any, bool) {
	if slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 }) {
		return v, true
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, el := range v {
			if part, ok := only(el, paths); ok {
				out = append(out, part)
			}
		}
		return out, len(out) > 0
	case map[string]any:
		byKey := map[string][][]string{}
		for _, p := range paths {
			byKey[p[0]] = append(byKey[p[0]], p[1:])
		}
		out := map[string]any{}
		for k, ps := range byKey {
			if el, ok := v[k]; ok {
				if part, ok := only(el, ps); ok {
					out[k] = part
				}
			}
		}
		return out, len(out) > 0
	}
	return nil, false
}

func without(v any, path []string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, el := range v {
			out[i] = without(el, path)
		}
		return out
	case map[string]any:
		el, ok := v[path[0]]
		if !ok {
			return v
		}
		out := maps.Clone(v)
		if len(path) == 1 {
			delete(out, path[0])
		} else {
			out[path[0]] = without(el, path[1:])
		}
		return out
	}
	return v
}
