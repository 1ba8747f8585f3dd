package filter

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Level int `json:"level"`
}

type embedded struct {
	Kind string `json:"kind"`
}

type example struct {
	*embedded
	ID       string            `json:"id"`
	When     time.Time         `json:"when"`
	Free     json.RawMessage   `json:"free"`
	Any      any               `json:"any"`
	Keys     map[string]*inner `json:"keys,omitempty"`
	Texts    []string          `json:"texts"`
	Inner    []inner           `json:"inner"`
	Hidden   string            `json:"-"`
	internal string
}

func TestAFilterOrSelectorThatNamesWhatCanNotBeThereIsRefused(t *testing.T) {
	schema := SchemaOf(example{internal: "x"}, More{reflect.TypeFor[inner](): {"zone"}})
	for path, says := range map[string]string{
		"id": "", "kind": "", "when": "", "texts": "", "free/a/b": "", "any/a": "", "any": "", "keys/k/level": "", "keys/@key": "", "inner/level": "", "inner/zone": "", "inner/zone/x": "",
		"no": `no attribute "no"`, "internal": "no attribute", "Hidden": "no attribute", "id/x": "below a simple value", "when/x": "below a simple value",
		"keys/k/no": `no attribute "keys/k/no"`, "inner/no": `no attribute "inner/no"`, "texts/x": "below", "id/@key": "below",
	} {
		f, err := Parse("(eq," + path + ",1)")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSelector(url.Values{"fields": {path}}, Shape{})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{f.Fits(schema), s.Fits(schema)} {
			if says == "" && err != nil || says != "" && (!errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s: %v, want %q", path, err, says)
			}
		}
	}
	for _, structure := range []string{"keys", "keys/k", "inner"} {
		f, err := Parse("(eq," + structure + ",1)")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Fits(schema); !errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), "is a structure") {
			t.Errorf("%s: %v", structure, err)
		}
		if s, err := ParseSelector(url.Values{"exclude_fields": {structure}}, Shape{}); err != nil || s.Fits(schema) != nil {
			t.Errorf("%s can't be excluded: %v", structure, err)
		}
	}
	if err := schema.Top().Check([]string{"inner", "no"}); err != nil {
		t.Error(err)
	}
	if schema.Top().Check([]string{"no"}) == nil {
		t.Error("an attribute that isn't there passed")
	}
}
