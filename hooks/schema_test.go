//go:build linux

package hooks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/hooks"
)

// schema is the part of JSON Schema that the contract is written in.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Defs        map[string]*schema `json:"$defs,omitempty"`
}

func readSchema(t *testing.T, name string) *schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "docs", "schema", name))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(s); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// follow is the schema that s refers to, or s.
func (s *schema) follow(root *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return root.Defs[name]
	}
	return s
}

// types compares the schema with the Go type that is written and read by it.
func (s *schema) types(at string, root *schema, t reflect.Type) (wrong []string) {
	if s = s.follow(root); s == nil {
		return []string{at + " refers to nothing"}
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		if s.Type != "" {
			return []string{at + " may be anything"}
		}
		return nil
	}
	kinds := map[reflect.Kind]string{
		reflect.Bool: "boolean", reflect.Int: "integer", reflect.String: "string", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if want := kinds[t.Kind()]; s.Type != want {
		return []string{fmt.Sprintf("%s is of type %q, and in Go of %q", at, s.Type, want)}
	}
	switch t.Kind() {
	case reflect.Slice:
		return s.Items.types(at+"[]", root, t.Elem())
	case reflect.Struct:
		var required []string
		unknown := maps.Clone(s.Properties)
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if options == "" {
				required = append(required, name)
			}
			property := s.Properties[name]
			if property == nil {
				wrong = append(wrong, at+"."+name+" isn't in the schema")
				continue
			}
			delete(unknown, name)
			wrong = append(wrong, property.types(at+"."+name, root, t.Field(i).Type)...)
		}
		for name := range unknown {
			wrong = append(wrong, at+"."+name+" isn't in Go")
		}
		slices.Sort(required)
		if diff := cmp.Diff(required, slices.Sorted(slices.Values(s.Required))); diff != "" {
			wrong = append(wrong, at+" requires others than Go always writes: "+diff)
		}
	}
	return wrong
}

// valid says what is wrong with a value, as a validator of programs would.
func (s *schema) valid(at string, root *schema, v any) (wrong []string) {
	s = s.follow(root)
	is := map[string]bool{"": true}
	switch v := v.(type) {
	case bool:
		is["boolean"] = true
	case string:
		is["string"] = true
	case float64:
		is["integer"] = v == float64(int(v))
	case []any:
		is["array"] = true
		for i, e := range v {
			if s.Items != nil {
				wrong = append(wrong, s.Items.valid(fmt.Sprintf("%s[%d]", at, i), root, e)...)
			}
		}
	case map[string]any:
		is["object"] = true
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				wrong = append(wrong, at+"."+name+" is missing")
			}
		}
		for name, e := range v {
			if property := s.Properties[name]; property != nil {
				wrong = append(wrong, property.valid(at+"."+name, root, e)...)
			}
		}
	}
	if !is[s.Type] {
		wrong = append(wrong, fmt.Sprintf("%s isn't of type %s: %v", at, s.Type, v))
	}
	return wrong
}

func TestTheSchemasSayWhatTheGoTypesDo(t *testing.T) {
	for name, of := range map[string]reflect.Type{
		"program-input.schema.json":  reflect.TypeFor[hooks.Input](),
		"program-output.schema.json": reflect.TypeFor[hooks.Output](),
	} {
		s := readSchema(t, name)
		for _, wrong := range s.types(strings.TrimSuffix(name, ".schema.json"), s, of) {
			t.Error(wrong)
		}
	}
}

func TestTheGuidesExamplesFitTheContract(t *testing.T) {
	const input, output = "program-input.schema.json", "program-output.schema.json"
	for guide, schemas := range map[string][]string{"coordination.md": {input, output}, "management-drivers.md": {output}} {
		text, err := os.ReadFile(filepath.Join("..", "docs", "guide", guide))
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(text), "```json\n")[1:]
		if len(parts) != len(schemas) {
			t.Fatalf("%s has %d examples in JSON, want %q", guide, len(parts), schemas)
		}
		for i, schema := range schemas {
			example, _, _ := strings.Cut(parts[i], "```")
			strict := json.NewDecoder(strings.NewReader(example))
			strict.DisallowUnknownFields()
			var into any = &hooks.Input{}
			if schema == output {
				into = &hooks.Output{}
			}
			if err := strict.Decode(into); err != nil {
				t.Errorf("%s, %s: %v", guide, schema, err)
			}
			var v any
			if err := json.Unmarshal([]byte(example), &v); err != nil {
				t.Fatal(err)
			}
			s := readSchema(t, schema)
			for _, wrong := range s.valid(guide, s, v) {
				t.Error(wrong)
			}
		}
	}
}

func TestEmptyInputFitsTheSchema(t *testing.T) {
	t.Parallel()
	s := readSchema(t, "program-input.schema.json")
	c := shell(`cat >&2; exit 1`)
	c.Input = hooks.Input{VDUs: []hooks.VDU{{ID: "vdu1"}}, Before: &hooks.Package{}}
	var v any
	if err := json.Unmarshal([]byte(fails(t, newRunner(t), c).Stderr), &v); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range s.valid("input", s, v) {
		t.Error(wrong)
	}
	if wrong := s.valid("input", s, map[string]any{"hook": 1.0}); len(wrong) < 5 {
		t.Errorf("what isn't valid: %v", wrong)
	}
}
