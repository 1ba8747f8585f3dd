package sim_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// routed is an instance with a router, and what it may be changed to.
func routed(t *testing.T, latency time.Duration) (w *world, after drivers.Source) {
	t.Helper()
	w = &world{cloud: sim.NewCloud(), src: source("i1", 2)}
	w.d = sim.New(w.cloud, drivers.VIM{Name: "sim"})
	w.src.Instance.Params = map[string]any{"router": true}
	w.cloud.SetLatency(latency)
	w.operate(t, w.src, &plan.Journal{})
	after = source("i1", 2)
	after.Instance.Params = w.src.Instance.Params
	after.Instance.Update.Strategy = desired.BlueGreen
	after.Instance.Generation = "1"
	after.Package = &vnfd.Package{Tree: "1a2b3c", VNFD: descriptor()}
	return w, after
}

// operate works towards the source until nothing is left to do, or until waiting is in vain, and
// returns why. From the first endpoint on there must always be one.
func (w *world) operate(t *testing.T, src drivers.Source, j *plan.Journal) (failure string) {
	t.Helper()
	served := false
	for range 2000 {
		want, err := w.d.Render(src)
		if err != nil {
			t.Fatal(err)
		}
		o, err := w.d.Observe(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		ids, routed := w.cloud.Endpoints(src.Instance.ID)
		if served = served || len(ids) > 0; served && (len(ids) == 0 || !routed) {
			t.Fatalf("nobody serves while this is observed: %+v", o)
		}
		next := plan.Next(plan.Compute(want.Desired, o, *j))
		if len(next) == 0 {
			return ""
		}
		*j, _ = j.Issue(next)
		switch next[0].Action {
		case plan.Wait:
			if next[0].Failure != "" {
				return next[0].Failure
			}
			time.Sleep(time.Millisecond) // the cloud of this test works by the machine's time
		case plan.Hook, plan.Drain:
			j.Hooks = append(j.Hooks, next[0].Object)
		default:
			if err := w.d.Do(t.Context(), want, next...); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("no end of it")
	return ""
}

func TestTrafficNeverStopsWhileAPackageIsChanged(t *testing.T) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		for _, strategy := range []string{desired.Rolling, desired.BlueGreen} {
			t.Run(strategy+" "+latency.String(), func(t *testing.T) {
				w, after := routed(t, latency)
				if strategy == desired.Rolling {
					after.Instance.Generation = ""
				}
				before, _ := w.cloud.Endpoints("i1")
				w.operate(t, after, &plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true})
				now, _ := w.cloud.Endpoints("i1")
				if len(now) != len(before) || now[0] == before[0] {
					t.Errorf("traffic goes to %v, after %v", now, before)
				}
			})
		}
	}
}

func TestAFailureIsOfOneGenerationAlone(t *testing.T) {
	w, after := routed(t, time.Millisecond)
	before, _ := w.cloud.Endpoints("i1")
	w.cloud.Fail("Workload/i1/front-1", "image not found")
	j := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	if why := w.operate(t, after, &j); !strings.Contains(why, "image not found") {
		t.Errorf("the change failed with %q", why)
	}
	j.Rollback, j.Issued = true, nil
	if why := w.operate(t, w.src, &j); why != "" {
		t.Errorf("the rollback failed with %q", why)
	}
	now, _ := w.cloud.Endpoints("i1")
	if strings.Join(now, " ") != strings.Join(before, " ") {
		t.Errorf("traffic goes to %v, after %v", now, before)
	}
	o, err := w.d.Observe(t.Context(), drivers.Rendering{Source: w.src})
	if err != nil || len(o.Objects) != 3 {
		t.Errorf("after the rollback there is %+v, %v", o.Objects, err)
	}
}

func TestARouterThatAScriptSwitchedIsBroughtToItsRendering(t *testing.T) {
	w, after := routed(t, 0)
	j := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
	want, err := w.d.Render(after)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.d.Do(t.Context(), want, plan.Step{Action: plan.Apply, Object: "Workload/i1/front-1", To: 2}); err != nil {
		t.Fatal(err)
	}
	w.cloud.SwitchTraffic("Router/i1/router", "1")
	w.operate(t, after, &j)
	o, err := w.d.Observe(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range o.Objects {
		if x.Generation == "0" || strings.HasPrefix(x.Digest, "switched") {
			t.Errorf("after the change there is %+v", x)
		}
	}
	if !j.Redirected {
		t.Error("the router that a script had switched wasn't brought to its rendering")
	}
}

func TestAChangeIsRefusedOnlyIfItAsksForThat(t *testing.T) {
	w, after := routed(t, 0)
	if err := w.d.Change(w.src, after); err != nil {
		t.Errorf("Change = %v", err)
	}
	after.Instance.Params = map[string]any{"refuseChange": "not on this day"}
	var refused *drivers.RefusedError
	if err := w.d.Change(w.src, after); !errors.As(err, &refused) || refused.Reason != "not on this day" {
		t.Errorf("Change = %v", err)
	}
	if files, err := w.d.Definitions(w.src, after, []string{"a.yaml"}); files != nil || err != nil {
		t.Errorf("Definitions = %v, %v", files, err)
	}
	if files, err := w.d.Access(); len(files) > 0 || err != nil {
		t.Errorf("Access = %v, %v", files, err)
	}
}
