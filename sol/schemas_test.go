package sol

import (
	"errors"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/test/published"
)

// attributes are the paths of all attributes of a published schema.
func attributes(s *openapi3.Schema, at string, found map[string]bool) {
	for s.Items != nil {
		s = s.Items.Value
	}
	for _, part := range append(append(append(openapi3.SchemaRefs{}, s.AllOf...), s.OneOf...), s.AnyOf...) {
		attributes(part.Value, at, found)
	}
	for name, p := range s.Properties {
		path := strings.TrimPrefix(at+"/"+name, "/")
		if !found[path] {
			found[path] = true
			attributes(p.Value, path, found)
		}
	}
}

func TestEveryAttributeOfTheStandardMayBeNamedInAListAndNoOther(t *testing.T) {
	published.Need(t)
	editions, err := published.Lifecycle.Editions()
	if err != nil {
		t.Fatal(err)
	}
	all := newSchemas()
	for path, schema := range map[string]*filter.Schema{"/vnf_instances": all.instance, "/vnf_lcm_op_occs": all.operation, "/subscriptions": all.subscription} {
		found := map[string]bool{}
		attributes(editions[0].Paths.Find(path).Get.Responses.Status(200).Value.Content.Get("application/json").Schema.Value, "", found)
		if len(found) < 10 {
			t.Fatalf("%s: only %v was found", path, found)
		}
		for attr := range found {
			// The file has another name for it: see package published.
			if strings.Contains(attr, "/virtualLinkResourceInfo") {
				continue
			}
			if err := schema.Check(strings.Split(attr, "/")); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		for _, bad := range []string{"nothing", "id/below", "_links/self/nothing"} {
			if err := schema.Check(strings.Split(bad, "/")); !errors.Is(err, filter.ErrStructure) {
				t.Errorf("%s: %s: %v", path, bad, err)
			}
		}
	}
}
