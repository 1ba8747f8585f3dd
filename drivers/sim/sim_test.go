package sim_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/driverstest"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func descriptor() *vnfd.VNFD {
	return &vnfd.VNFD{
		ID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177", DefaultFlavour: "simple",
		Flavours: []vnfd.Flavour{{
			ID: "simple",
			VDUs: []vnfd.VDU{
				{ID: "VDU1", Name: "front", Initial: 1, Deltas: map[string]int{"front_aspect": 1}, Max: 5},
				{ID: "VDU2", Name: "back", Initial: 1, Max: 1},
			},
			Aspects: []vnfd.Aspect{{ID: "front_aspect", MaxLevel: 4}},
		}},
	}
}

func source(id string, units int) drivers.Source {
	return drivers.Source{
		Instance: &desired.Instance{ID: id, Flavour: "simple", Levels: map[string]int{"front_aspect": units - 1}},
		Package:  &vnfd.Package{Tree: "9f31c2", VNFD: descriptor()},
	}
}

func TestSimulatorKeepsTheDriverContract(t *testing.T) {
	for _, latency := range []time.Duration{0, 15 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			cloud, away := sim.NewCloud(), sim.NewCloud()
			cloud.SetLatency(latency)
			away.SetAway(errors.New("connection refused"))
			place := map[string]string{}
			driverstest.Run(t, driverstest.Harness{
				Connect:     func(*testing.T) drivers.Driver { return sim.New(cloud, drivers.VIM{Name: "sim"}) },
				ConnectAway: func(*testing.T) drivers.Driver { return sim.New(away, drivers.VIM{Name: "away"}) },
				VDU:         "VDU1",
				Source: func(t *testing.T, id string, units int) drivers.Source {
					place[t.Name()] = id
					return source(id, units)
				},
				Rival: func(t *testing.T, id string) drivers.Source {
					src := source(id, 1)
					src.Instance.Params = map[string]any{"namespace": place[t.Name()]}
					return src
				},
				Refused: func(_ *testing.T, id string) drivers.Source {
					cloud.Refuse("Workload/"+id+"/front", "no such image")
					return source(id, 1)
				},
				Mortal: func(_ *testing.T, id string) (drivers.Source, func(*testing.T, plan.Observed) string) {
					return source(id, 2), func(*testing.T, plan.Observed) string {
						cloud.Die("Workload/"+id+"/back", "its host burnt down")
						return "Workload/" + id + "/back"
					}
				},
				MayPass: func(_ *testing.T, id string) drivers.Source {
					cloud.Deny("Workload/"+id+"/front", "not today")
					return source(id, 1)
				},
				Change: func(_ *testing.T, id, strategy string) (before, after drivers.Source) {
					before, after = source(id, 2), source(id, 2)
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
					before, after = source(id, 1), source(id, 1)
					after.Instance.Params = map[string]any{"refuseChange": "not on this day"}
					return before, after
				},
				Unrenderable: func(_ *testing.T, id string) drivers.Source { return source(id, 9) },
			})
		})
	}
}

func TestFailureNamesTheUnitUntilItIsEnded(t *testing.T) {
	cloud := sim.NewCloud()
	d := sim.New(cloud, drivers.VIM{})
	src := source("i1", 1)
	cloud.Fail("Workload/i1/front", "image not found")
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	steps := plan.Next(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))
	if err := d.Do(t.Context(), want, steps...); err != nil {
		t.Fatal(err)
	}
	failures := func() (n int) {
		o, err := d.Observe(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range o.Units {
			if u.Failure == "image not found" && !u.Ready {
				n++
			}
		}
		return n
	}
	if n := failures(); n != 1 {
		t.Errorf("%d failed units, want 1", n)
	}
	cloud.Fail("Workload/i1/front", "")
	if n := failures(); n != 0 {
		t.Errorf("%d failed units after that was ended, want 0", n)
	}
}

func TestAnInterruptedBatchIsTakenUpAgain(t *testing.T) {
	cloud := sim.NewCloud()
	d := sim.New(cloud, drivers.VIM{})
	src := source("i1", 2)
	crash := errors.New("crash")
	done := 0
	cloud.BeforeStep(func(string, plan.Step) error {
		if done++; done == 2 {
			return crash
		}
		return nil
	})
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Do(t.Context(), want, plan.Next(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))...); !errors.Is(err, crash) {
		t.Fatalf("Do = %v, want the crash", err)
	}
	d = sim.New(cloud, drivers.VIM{})
	for range 10 {
		o, err := d.Observe(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		steps := plan.Compute(want.Desired, o, plan.Journal{})
		if len(steps) == 0 {
			return
		}
		if next := plan.Next(steps); next[0].Action != plan.Wait {
			if err := d.Do(t.Context(), want, next...); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Error("the interrupted instance never converged")
}

func TestObservingAtRestCallsNoVIM(t *testing.T) {
	cloud := sim.NewCloud()
	d := sim.New(cloud, drivers.VIM{})
	const instances = 1000
	sources := make([]drivers.Source, instances)
	wants := make([]drivers.Rendering, instances)
	for i := range sources {
		sources[i] = source(fmt.Sprint("i", i), 1)
		var err error
		if wants[i], err = d.Render(sources[i]); err != nil {
			t.Fatal(err)
		}
		if err := d.Do(t.Context(), wants[i], plan.Next(plan.Compute(wants[i].Desired, plan.Observed{}, plan.Journal{}))...); err != nil {
			t.Fatal(err)
		}
	}
	calls := cloud.Calls().VIM()
	for i := range sources {
		o, err := d.Observe(t.Context(), wants[i])
		if err != nil {
			t.Fatal(err)
		}
		if steps := plan.Compute(wants[i].Desired, o, plan.Journal{}); len(steps) != 0 {
			t.Fatalf("at rest there is something to do: %+v", steps)
		}
	}
	if now := cloud.Calls(); now.VIM() != calls || now.Observes < instances {
		t.Errorf("a resync of %d instances made %d calls to the VIM and %d observations", instances, now.VIM()-calls, now.Observes)
	}
	if n := len(cloud.Instances()); n != instances {
		t.Errorf("%d instances run, want %d", n, instances)
	}
}

func BenchmarkObserveAtRest(b *testing.B) {
	cloud := sim.NewCloud()
	d := sim.New(cloud, drivers.VIM{})
	src := source("i1", 2)
	want, err := d.Render(src)
	if err != nil {
		b.Fatal(err)
	}
	if err := d.Do(b.Context(), want, plan.Next(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := d.Observe(b.Context(), want); err != nil {
			b.Fatal(err)
		}
	}
}
