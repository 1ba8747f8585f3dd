package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
)

func TestWhatIsRenderedKnowsTheNamespacesOfItsVIM(t *testing.T) {
	t.Parallel()
	var made []string
	r := newRenderers(func(v drivers.VIM) (drivers.Driver, error) {
		made = append(made, fmt.Sprintf("%s %t %v", v.Name, v.InCluster, v.Namespaces))
		return sim.New(sim.NewCloud(), v), nil
	})
	r.inCluster = []string{"vnfs"}
	file := func(inCluster bool, namespaces ...string) *desired.VIM {
		return &desired.VIM{Type: desired.VIMKubernetes, InCluster: inCluster, Namespaces: namespaces}
	}

	for range 2 { // each is made once
		for _, at := range []desired.Place{
			{Name: "all", File: file(false)}, {Name: "edge", File: file(false, "a", "b")}, {Name: "here", File: file(true)}, {Name: "here", File: file(true, "a")},
			{Name: "own", Connection: &desired.VIMConnection{VimType: desired.VIMKubernetes}},
		} {
			if _, err := r.at(at); err != nil {
				t.Fatal(err)
			}
		}
	}

	if want := []string{"none false []", "edge false [a b]", "here true [vnfs]", "here true [a]"}; !slices.Equal(made, want) {
		t.Errorf("made are %q, want %q", made, want)
	}
	for i := range 3 * maxConfined { // as proposed settings may name any
		if _, err := r.at(desired.Place{Name: fmt.Sprint("v", i), File: file(false, "a")}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.confined) > maxConfined {
		t.Errorf("%d drivers are kept", len(r.confined))
	}
}

func TestARefusalByTheVIMIsntTheProjects(t *testing.T) {
	t.Parallel()
	err := outOfBounds([]drivers.Violation{
		{Object: "Pod/x/a", Rule: drivers.RulePodSecurity, Detail: "asks for the host's network"},
		{Object: "Pod/x/a", Rule: drivers.RuleVIM, Detail: "is in namespace x, and VIM edge is used in namespace a alone"},
	}, "core")

	refused, ok := err.(*drivers.RefusedError) //nolint:errorlint // it isn't wrapped
	if !ok || refused.Field != "vim" || !strings.HasPrefix(refused.Reason, "Pod/x/a is in namespace x") || strings.Contains(refused.Reason, "project") {
		t.Errorf("%v", err)
	}
}
