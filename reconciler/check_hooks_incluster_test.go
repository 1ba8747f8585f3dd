package reconciler_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestHooksAtJibesOwnClusterNeedAProjectsAccount(t *testing.T) {
	t.Parallel()
	account := desired.ServiceAccount{Namespace: "jibe-tenants", Name: "core"}
	for name, c := range map[string]struct {
		inCluster bool
		hooks     []string
		account   desired.ServiceAccount
		change    func(*desired.Instance)
		refused   bool
	}{
		"without an account":            {inCluster: true, hooks: []string{"instantiate_end"}, refused: true},
		"with one":                      {inCluster: true, hooks: []string{"instantiate_end"}, account: account},
		"at another cluster":            {hooks: []string{"instantiate_end"}},
		"a package that needs no hooks": {inCluster: true},
		"hooks that are left out":       {inCluster: true, hooks: []string{"instantiate_end"}, change: func(in *desired.Instance) { in.Hooks = desired.HooksSkip }},
		"a VDU that is placed there": {inCluster: true, hooks: []string{"instantiate_end"}, refused: true, change: func(in *desired.Instance) {
			in.VIM, in.Placement = "elsewhere", map[string]string{"web": "lab"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := &desired.Settings{VIMs: map[string]*desired.VIM{
				"lab":       {Name: "lab", Type: desired.VIMSim, Default: true, InCluster: c.inCluster},
				"elsewhere": {Name: "elsewhere", Type: desired.VIMSim},
			}}
			settings.Projects = map[string]*desired.Project{desired.DefaultProject: {Name: desired.DefaultProject, Hooks: true, Impersonate: c.account}}
			checker := reconciler.NewChecker(newVendor(true, c.hooks...), func(v drivers.VIM) (drivers.Driver, error) { return sim.New(sim.NewCloud(), v), nil }, nil)

			err := checker.Check(t.Context(), settings, nil, intended(c.change))

			if !c.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if _, field, ok := reconciler.Refused(err); !ok || field == "" {
				t.Fatalf("it isn't refused: %v", err)
			}
			for _, part := range []string{"INSTANTIATE needs hooks", "VIM lab", "project default", "impersonate", "hooks: skip"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it doesn't say %q: %v", part, err)
				}
			}
		})
	}
}
