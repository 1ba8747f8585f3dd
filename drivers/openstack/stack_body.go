package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// liveBody is what a stack was made of.
type liveBody struct {
	Template   map[string]any
	Files      map[string]string
	Parameters map[string]any
}

// body reads what the stack was created or last updated with. The typed
// packages know neither a stack's files nor its environment, and give its template as text
// that would have to be read again.
func (c *cloud) body(ctx context.Context, s stackID) (*liveBody, error) {
	b := &liveBody{}
	var environment struct {
		Parameters map[string]any `json:"parameters"`
	}
	err := together(
		func() error { return c.get(ctx, heat, &b.Template, "", s.path("template")...) },
		func() error { return c.get(ctx, heat, &b.Files, "", s.path("files")...) },
		func() error { return c.get(ctx, heat, &environment, "", s.path("environment")...) },
	)
	if err != nil {
		return nil, fmt.Errorf("template of stack %s: %w", s.name, err)
	}
	b.Parameters = environment.Parameters
	return b, nil
}

// hash identifies what a stack is made of, as it stands in its tag. It leaves
// hidden parameters out: Heat doesn't show them, and a hash would give them away.
func (b *liveBody) hash() (string, error) {
	parameters := nonNil(maps.Clone(b.Parameters))
	declared, _ := b.Template["parameters"].(map[string]any)
	for name := range parameters {
		if schema, _ := declared[name].(map[string]any); schema["hidden"] == true {
			delete(parameters, name)
		}
	}
	same, err := plain([]any{b.Template, nonNil(b.Files), parameters})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(same) // map keys in order
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), err
}

// plain is the value as JSON has it. So what is sent can be compared with what Heat answers.
func plain(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var same any
	return same, json.Unmarshal(text, &same)
}

// capacity is how many VNFCs of the VDU the stack asks for, which may be others than Heat has
// made yet.
func (b *liveBody) capacity(def *hot.Definition) int {
	resources, _ := b.Template["resources"].(map[string]any)
	if def.Shape == hot.Grouped {
		group, _ := resources[def.Resource].(map[string]any)
		properties, _ := group["properties"].(map[string]any)
		n, _ := number(b.resolve(properties["desired_capacity"]))
		return n
	}
	n := 0
	for name := range resources {
		if base, _, ok := hot.Split(name); ok && base == def.Resource {
			n++
		}
	}
	return n
}

// resolve is the value itself, or the value of the parameter that it gets.
func (b *liveBody) resolve(v any) any {
	call, ok := v.(map[string]any)
	if !ok {
		return v
	}
	var path []any
	switch p := call["get_param"].(type) {
	case string:
		path = []any{p}
	case []any:
		path = p
	}
	if len(call) != 1 || len(path) == 0 {
		return nil
	}
	name := fmt.Sprint(path[0])
	found, ok := b.Parameters[name]
	if !ok {
		declared, _ := b.Template["parameters"].(map[string]any)
		parameter, _ := declared[name].(map[string]any)
		found = parameter["default"]
	}
	for _, key := range path[1:] {
		if text, ok := found.(string); ok { // clients send JSON as a string, too
			found = nil
			_ = json.Unmarshal([]byte(text), &found) // what is no JSON has no keys
		}
		m, _ := found.(map[string]any)
		found = m[fmt.Sprint(key)]
	}
	return found
}

func number(v any) (int, bool) {
	n, err := strconv.Atoi(fmt.Sprint(v))
	if f, ok := v.(float64); ok {
		return int(f), true
	}
	return n, err == nil
}

// vdu is the VDU whose servers the resource of the top stack makes, as the marks in the
// template and in nested files say; "" where there are none.
func (b *liveBody) vdu(name string) string {
	resources, _ := b.Template["resources"].(map[string]any)
	return b.markIn(resources[name], map[string]bool{})
}

// markIn is the VDU of a mark in the value, or in a nested file that it names, "" for none.
func (b *liveBody) markIn(v any, seen map[string]bool) string {
	switch v := v.(type) {
	case map[string]any:
		if vdu, ok := v[hot.MetaVDU].(string); ok {
			return vdu
		}
		for _, inner := range v {
			if vdu := b.markIn(inner, seen); vdu != "" {
				return vdu
			}
		}
	case []any:
		for _, inner := range v {
			if vdu := b.markIn(inner, seen); vdu != "" {
				return vdu
			}
		}
	case string:
		file, ok := b.Files[v]
		if !ok || seen[v] {
			return ""
		}
		seen[v] = true
		var nested map[string]any
		if yaml.Unmarshal([]byte(file), &nested) != nil {
			return ""
		}
		return b.markIn(nested["resources"], seen)
	}
	return ""
}
