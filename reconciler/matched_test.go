package reconciler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// lacking is a driver that finds nothing to run for a VDU, unless the instance maps it.
type lacking struct {
	drivers.Driver
	vdu      string
	external bool
}

func (d lacking) Render(src drivers.Source) (drivers.Rendering, error) {
	made, err := d.Driver.Render(src)
	if _, mapped := src.Instance.Params["vdu_mapping"]; err != nil || mapped {
		return made, err
	}
	made.Groups = slices.DeleteFunc(slices.Clone(made.Groups), func(g plan.Group) bool { return g.VDU == d.vdu })
	made.Unmatched = []drivers.UnmatchedVDU{{VDU: d.vdu, Reason: "nothing would run of VDU " + d.vdu, External: d.external}}
	return made, nil
}

func TestWhatWouldDoNothingIsRefused(t *testing.T) {
	t.Parallel()

	stopped := func(in *desired.Instance) { in.State = desired.NotInstantiated }
	scaled := func(in *desired.Instance) { in.Levels = map[string]int{"web": 1} }
	for name, c := range map[string]struct {
		vdu           string
		external      bool
		before, after func(*desired.Instance)
		refused       bool
	}{
		"an instantiation":                        {"VDU1", false, stopped, nil, true},
		"one whose workload is named":             {"VDU1", false, stopped, func(in *desired.Instance) { in.Params = map[string]any{"vdu_mapping": map[string]any{}} }, false},
		"one whose pods another object makes":     {"VDU1", true, stopped, nil, false},
		"a scaling":                               {"VDU1", false, nil, scaled, true},
		"one of what another object counts":       {"VDU1", true, nil, scaled, true},
		"one of another VDU":                      {"VDU2", false, nil, scaled, false},
		"one that names the workload":             {"VDU1", false, nil, func(in *desired.Instance) { scaled(in); in.Params = map[string]any{"vdu_mapping": map[string]any{}} }, false},
		"a change of what runs so":                {"VDU1", false, nil, func(in *desired.Instance) { in.Metadata = map[string]any{"note": "seen"} }, false},
		"a change of package that has it no more": {"VDU1", false, func(in *desired.Instance) { in.Params = map[string]any{"vdu_mapping": map[string]any{}} }, func(in *desired.Instance) { in.VnfdID, in.Package = vnfd2, "" }, true},
		"an end": {"VDU1", false, nil, stopped, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checker := reconciler.NewChecker(catalogue{}, func(v drivers.VIM) (drivers.Driver, error) {
				return lacking{sim.New(sim.NewCloud(), v), c.vdu, c.external}, nil
			}, nil)
			before, after := intended(c.before), intended(c.after)

			err := checker.Check(t.Context(), lab(desired.VIMSim), before, after)

			if refused := err != nil && strings.Contains(err.Error(), "nothing would run of VDU "+c.vdu); refused != c.refused || !refused && err != nil {
				t.Errorf("refused: %t (%v), want %t", refused, err, c.refused)
			}
		})
	}
}
