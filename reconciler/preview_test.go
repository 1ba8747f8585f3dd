package reconciler_test

import (
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestAPreviewShowsTheUserDataHookWhereAnOperationWouldRunIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) {
		c.Packages = catalogue{}
		c.Driver = func(drivers.VIM) (drivers.Driver, error) { return newRack(), nil }
	})
	for vimType, want := range map[string][]string{desired.VIMOpenStack: {plan.UserData}, desired.VIMSim: nil} {
		settings := &desired.Settings{VIMs: map[string]*desired.VIM{"proposed": {Name: "proposed", Type: vimType, Default: true}}}
		text := file("instantiated", "params: {lcm-operation-user-data: Scripts/new.sh, lcm-operation-user-data-class: C}\n")
		after, err := desired.ParseInstance(dir+"/vnf.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		after.VIM = ""
		p := w.recon.View().Plan(t.Context(), settings, desired.Revision{Instance: id, Dir: dir}, after)
		var hooks []string
		for _, s := range p.Steps {
			if s.Action == plan.Hook {
				hooks = append(hooks, s.Object)
			}
		}
		if p.Error != "" || !slices.Equal(hooks, want) {
			t.Errorf("at %s: hooks %q, want %q (%s)", vimType, hooks, want, p.Error)
		}
	}
}
