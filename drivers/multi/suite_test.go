package multi_test

import (
	"errors"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/driverstest"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func descriptor() *vnfd.VNFD {
	return &vnfd.VNFD{ID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177", DefaultFlavour: "simple", Flavours: []vnfd.Flavour{{
		ID: "simple",
		VDUs: []vnfd.VDU{
			{ID: "VDU1", Name: "front", Initial: 1, Deltas: map[string]int{"front_aspect": 1}, Max: 5},
			{ID: "VDU2", Name: "back", Initial: 1, Max: 1},
		},
		Aspects: []vnfd.Aspect{{ID: "front_aspect", MaxLevel: 4}},
	}}}
}

func spreadSource(id string, units int) drivers.Source {
	return drivers.Source{
		Instance: &desired.Instance{ID: id, State: desired.Instantiated, Flavour: "simple", Levels: map[string]int{"front_aspect": units - 1},
			Placement: map[string]string{"VDU1": "edge"}},
		Package: &vnfd.Package{Tree: "9f31c2", VNFD: descriptor()},
	}
}

func TestSeveralVIMsKeepTheDriverContractAsOne(t *testing.T) {
	core, edge, away := sim.NewCloud(), sim.NewCloud(), sim.NewCloud()
	away.SetAway(errors.New("connection refused"))
	both := func(main, other *sim.Cloud) drivers.Driver {
		return multi.New(multi.Part{Name: "core", Driver: sim.New(main, drivers.VIM{Name: "core"})},
			multi.Part{Name: "edge", Driver: sim.New(other, drivers.VIM{Name: "edge"})})
	}
	apart(t, edge)
	place := map[string]string{}
	driverstest.Run(t, driverstest.Harness{
		Connect:     func(*testing.T) drivers.Driver { return both(core, edge) },
		ConnectAway: func(*testing.T) drivers.Driver { return both(core, away) },
		VDU:         "VDU1",
		Source: func(t *testing.T, id string, units int) drivers.Source {
			place[t.Name()] = id
			return spreadSource(id, units)
		},
		Rival: func(t *testing.T, id string) drivers.Source {
			src := spreadSource(id, 1)
			src.Instance.Params = map[string]any{"namespace": place[t.Name()]}
			return src
		},
		Refused: func(_ *testing.T, id string) drivers.Source {
			edge.Refuse("Workload/"+id+"/front", "no such image")
			return spreadSource(id, 1)
		},
		Mortal: func(_ *testing.T, id string) (drivers.Source, func(*testing.T, plan.Observed) string) {
			return spreadSource(id, 2), func(*testing.T, plan.Observed) string {
				edge.Die("Workload/"+id+"/front", "its host burnt down")
				return "Workload/edge:" + id + "/front"
			}
		},
		MayPass: func(_ *testing.T, id string) drivers.Source {
			edge.Deny("Workload/"+id+"/front", "not today")
			return spreadSource(id, 1)
		},
		Change: func(_ *testing.T, id, strategy string) (before, after drivers.Source) {
			before, after = spreadSource(id, 2), spreadSource(id, 2)
			before.Instance.Params = map[string]any{"router": true}
			after.Instance.Params = before.Instance.Params
			after.Package = &vnfd.Package{Tree: "1a2b3c", VNFD: descriptor()}
			after.Instance.Update.Strategy = strategy
			if strategy == desired.BlueGreen {
				after.Instance.Generation = "1"
			}
			return before, after
		},
		Refusal: func(_ *testing.T, id string) (before, after drivers.Source) {
			before, after = spreadSource(id, 1), spreadSource(id, 1)
			after.Instance.Params = map[string]any{"refuseChange": "not on this day"}
			return before, after
		},
		Unrenderable: func(_ *testing.T, id string) drivers.Source { return spreadSource(id, 9) },
	})
}

// apart makes the numbers of incarnations at the cloud others than those at a new one: a
// real VIM never gives what another one gave.
func apart(t *testing.T, c *sim.Cloud) {
	t.Helper()
	d := sim.New(c, drivers.VIM{})
	src := spreadSource("filler", 1)
	src.Package.VNFD.Flavours[0].VDUs = []vnfd.VDU{{ID: "VDU1", Name: "front", Initial: 5000, Max: -1}}
	src.Instance.Levels = nil
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Do(t.Context(), want, plan.Compute(want.Desired, plan.Observed{}, plan.Journal{})[0]); err != nil {
		t.Fatal(err)
	}
}
