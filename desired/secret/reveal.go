package secret

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reveal returns a deep copy of params in which each reference is what it stands for;
// all other values are as they were. An error names the entry.
func (s Scoped) Reveal(params map[string]any) (map[string]any, error) {
	if params == nil {
		return nil, nil
	}
	out, err := s.reveal("", walk(params, func(map[string]any) {}))
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// reveal changes v, which is nobody else's, in place where it can.
func (s Scoped) reveal(at string, v any) (any, error) {
	switch v := v.(type) {
	case string:
		if !IsRef(v) {
			return v, nil
		}
		clear, err := s.Resolve(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		return clear, nil
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e, err := s.reveal(strings.TrimPrefix(at+"."+key, "."), v[key])
			if err != nil {
				return nil, err
			}
			v[key] = e
		}
	case map[string]string:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e, err := s.reveal(strings.TrimPrefix(at+"."+key, "."), v[key])
			if err != nil {
				return nil, err
			}
			v[key] = e.(string)
		}
	case []any:
		for i := range v {
			e, err := s.reveal(fmt.Sprintf("%s[%d]", at, i), v[i])
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
	}
	return v, nil
}
