package kubernetes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/plan"
)

// inNamespaces is a driver of a VIM that is used in these alone, and that nothing can be connected to.
func inNamespaces(t *testing.T, inCluster bool, namespaces ...string) *kubernetes.Driver {
	t.Helper()
	d, err := kubernetes.New(drivers.VIM{Name: "edge", Type: kubernetes.Type, Endpoint: "https://127.0.0.1:1", InCluster: inCluster, Namespaces: namespaces},
		kubernetes.Options{Egress: egress.Anywhere()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestAnInstanceInAnotherNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	free := &drivers.Bounds{Project: "core"}
	for name, c := range map[string]struct {
		inCluster  bool
		namespaces []string
		says       string // "" where it isn't refused
	}{
		"in all":                   {},
		"in its own":               {namespaces: []string{"amf", "other"}},
		"in others":                {namespaces: []string{"other"}, says: "is in namespace amf, and VIM edge is used in namespace other alone: give params.namespace one of these, or have an administrator add it to namespaces in vims/edge.yaml and"},
		"in others of the cluster": {inCluster: true, namespaces: []string{"other", "vnfs"}, says: "namespaces.names of the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := inNamespaces(t, c.inCluster, c.namespaces...)
			src := sample.Source("i1", "amf", sample.FrontAndBack, sample.TwoVDUs(), nil)
			src.Bounds = free
			made, err := d.Render(src)
			if err != nil {
				t.Fatal(err)
			}

			found := d.Confine(made)

			switch {
			case c.says == "" && len(found) > 0:
				t.Errorf("refused: %v", found)
			case c.says != "" && (len(found) != 1 || found[0].Rule != drivers.RuleVIM || found[0].Object == "" || !strings.Contains(found[0].Detail, c.says)):
				t.Errorf("%v, want %q", found, c.says)
			}
			if c.says == "" {
				return
			}
			err = d.Do(t.Context(), made, plan.Step{Action: plan.Apply, Object: found[0].Object})
			if !errors.Is(err, drivers.ErrUnavailable) { // its kind is looked up first
				var refused *drivers.RefusedError
				if !errors.As(err, &refused) {
					t.Errorf("the driver writes there: %v", err)
				}
			}
		})
	}
}

func TestWhatIsInAnotherNamespaceIsOutOfSight(t *testing.T) {
	t.Parallel()
	d := inNamespaces(t, false, "other")
	src := sample.Source("i1", "amf", sample.FrontAndBack, sample.TwoVDUs(), nil)
	made, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	ended := drivers.Absent(&desired.Instance{ID: "i1"})
	ended.Former = &made
	unknown := drivers.Absent(&desired.Instance{ID: "i1", Params: map[string]any{"namespace": "amf"}})

	for name, r := range map[string]drivers.Rendering{
		"what should stand": made, "what ends": ended, "what ends, of which nothing else is known": unknown,
	} {
		_, err := d.Observe(t.Context(), r)

		var unlisted *drivers.UnlistedError
		if !errors.As(err, &unlisted) || unlisted.VIM != "edge" || !errors.Is(err, drivers.ErrUnavailable) ||
			!strings.Contains(err.Error(), "namespace amf isn't watched, as VIM edge is used in namespace other alone: have an administrator") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
