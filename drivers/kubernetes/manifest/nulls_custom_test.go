package manifest_test

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

// What a real API server makes of a creation with these nulls, of this schema: TestNullsOfCustomResourcesMeanWhatTheySay
// asks one.
func TestNullsOfACustomResourceAreSettledByItsSchema(t *testing.T) {
	t.Parallel()
	const gauge = "apiVersion: example.com/v1\nkind: Gauge\nmetadata: {name: g}\nspec: "
	schema := map[string]any{}
	if err := yaml.Unmarshal([]byte(`
type: object
properties:
  spec:
    type: object
    properties:
      nullable: {type: string, nullable: true, default: X}
      plain: {type: string, default: Z}
      map: {type: object, additionalProperties: {type: string}}
      nullableMap: {type: object, additionalProperties: {type: string, nullable: true}}
      anything: {type: object, additionalProperties: true}
      list: {type: array, items: {type: string, nullable: true}}
      items: {type: array, items: {type: object, properties: {name: {type: string}, value: {type: string, nullable: true}, other: {type: string}}}}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}, closed: {type: object, properties: {a: {type: string}}}}}
      embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
`), &schema); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, spec, want string }{
		{"a field that may be null", `{nullable: null}`, `{"nullable":null}`},
		{"a field that may not be null has its default", `{plain: null}`, `{}`},
		{"a field that isn't in the schema", `{unknown: null, nullable: a}`, `{"nullable":"a"}`},
		{"entries of a map", `{map: {a: null, b: x}, nullableMap: {a: null}, anything: {a: null, b: {c: null}}}`,
			`{"anything":{"a":null,"b":{"c":null}},"map":{"b":"x"},"nullableMap":{"a":null}}`},
		{"an item", `{list: [null, a]}`, `{"list":[null,"a"]}`},
		{"fields of an item", `{items: [{name: a, value: null, other: null}]}`, `{"items":[{"name":"a","value":null}]}`},
		{"what the schema leaves free", `{free: {a: null, b: {c: null}, d: [{e: null}], known: null, closed: {a: null, b: null}}}`,
			`{"free":{"a":null,"b":{"c":null},"closed":{},"d":[{"e":null}]}}`},
		{"an object in the object", `{embedded: {apiVersion: v1, kind: Pod, metadata: {creationTimestamp: null, labels: {a: null}}, spec: {x: null}}}`,
			`{"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":""}},"spec":{"x":null}}}`},
	} {
		u := sample.Object(t, gauge+c.spec)
		if !manifest.HasNulls(u) {
			t.Errorf("%s: no null is found", c.name)
		}

		manifest.SettleCustom(u, schema)

		if got, _ := json.Marshal(u.Object["spec"]); string(got) != c.want || u.GetName() != "g" {
			t.Errorf("%s: %s becomes %s, want %s", c.name, c.spec, got, c.want)
		}
	}

	unknown := sample.Object(t, gauge+`{a: null, b: {c: null, d: e}}`)
	manifest.SettleCustom(unknown, nil)
	if got, _ := json.Marshal(unknown.Object["spec"]); string(got) != `{"b":{"d":"e"}}` {
		t.Errorf("without a schema: %s", got)
	}
	if manifest.HasNulls(unknown) {
		t.Error("nulls are left")
	}
}
