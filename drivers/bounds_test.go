package drivers_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
)

func TestANamespaceIsUsedOnlyWherePatternsPermitAndNoneForbids(t *testing.T) {
	for _, c := range []struct {
		why    string
		bounds drivers.Bounds
		name   string
		may    bool
	}{
		{"nothing is said", drivers.Bounds{}, "amf", true},
		{"a pattern permits it", drivers.Bounds{Namespaces: []string{"core-*", "amf"}}, "core-smf", true},
		{"no pattern permits it", drivers.Bounds{Namespaces: []string{"core-*"}}, "amf", false},
		{"no namespace is permitted", drivers.Bounds{Namespaces: []string{}}, "amf", false},
		{"it is forbidden", drivers.Bounds{Namespaces: []string{"*"}, Forbidden: []string{"kube-system"}}, "kube-system", false},
		{"a pattern forbids it", drivers.Bounds{Forbidden: []string{"kube-*"}}, "kube-public", false},
		{"a malformed pattern permits nothing", drivers.Bounds{Namespaces: []string{"[a"}}, "a", false},
		{"a malformed pattern forbids everything", drivers.Bounds{Forbidden: []string{"[a"}}, "b", false},
	} {
		if may := c.bounds.MayUseNamespace(c.name); may != c.may {
			t.Errorf("%s: %s may be used: %v, want %v", c.why, c.name, may, c.may)
		}
	}
}
