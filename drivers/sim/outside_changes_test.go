package sim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
)

// world is an instance that runs, and what there is to look at it with.
type world struct {
	cloud *sim.Cloud
	d     *sim.Driver
	src   drivers.Source
	want  drivers.Rendering
}

func running(t *testing.T) *world {
	t.Helper()
	w := &world{cloud: sim.NewCloud(), src: source("i1", 2)}
	w.d = sim.New(w.cloud, drivers.VIM{Name: "sim"})
	var err error
	if w.want, err = w.d.Render(w.src); err != nil {
		t.Fatal(err)
	}
	if err := w.d.Do(t.Context(), w.want, plan.Next(w.due(t))...); err != nil {
		t.Fatal(err)
	}
	if left := w.due(t); len(left) > 0 {
		t.Fatalf("left to do: %+v", left)
	}
	return w
}

func (w *world) due(t *testing.T) []plan.Step {
	t.Helper()
	o, err := w.d.Observe(t.Context(), w.want)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Compute(w.want.Desired, o, plan.Journal{})
}

func TestExamineTellsWhatDiffersAndWhoDidIt(t *testing.T) {
	const web, back = "Workload/i1/front", "Workload/i1/back"
	for name, c := range map[string]struct {
		change func(*sim.Cloud)
		expect drivers.Deviation
	}{
		"content":           {func(c *sim.Cloud) { c.DriftBy(web, "person") }, drivers.Deviation{Object: web, Field: "content", Have: `"drifted"`, By: "person"}},
		"content, nameless": {func(c *sim.Cloud) { c.Drift(back) }, drivers.Deviation{Object: back, Field: "content", Have: `"drifted"`}},
		"count":             {func(c *sim.Cloud) { c.Resize(web, 4) }, drivers.Deviation{Object: web, Field: "count", Want: "2", Have: "4"}},
		"lost":              {func(c *sim.Cloud) { c.Lose(web) }, drivers.Deviation{Object: web, Want: "present"}},
		"dead":              {func(c *sim.Cloud) { c.Die(back, "evicted") }, drivers.Deviation{Object: back, Want: "present", Have: "evicted"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t)
			c.change(w.cloud)
			if c.expect.Field == "content" {
				for _, x := range w.want.Objects {
					if x.Key == c.expect.Object {
						c.expect.Want = `"` + x.Digest + `"`
					}
				}
			}
			found, err := w.d.Examine(t.Context(), w.want, w.due(t)...)
			if diff := cmp.Diff([]drivers.Deviation{c.expect}, found, cmpopts.IgnoreFields(drivers.Deviation{}, "At")); err != nil || diff != "" {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
			if (c.expect.Field == "content") != !found[0].At.IsZero() {
				t.Errorf("changed at %v", found[0].At)
			}
			for range 4 { // the dead one goes before it comes again
				if next := plan.Next(w.due(t)); len(next) > 0 && next[0].Action != plan.Wait {
					if err := w.d.Do(t.Context(), w.want, next...); err != nil {
						t.Fatal(err)
					}
				}
			}
			if left := w.due(t); len(left) > 0 {
				t.Errorf("not repaired: %+v", left)
			}
			if found, err := w.d.Examine(t.Context(), w.want, w.due(t)...); err != nil || len(found) > 0 {
				t.Errorf("at rest there is drift: %+v, %v", found, err)
			}
		})
	}
}

func TestExamineOfAVIMThatIsAwayIsUnavailable(t *testing.T) {
	w := running(t)
	w.cloud.SetAway(errors.New("connection refused"))
	if found, err := w.d.Examine(t.Context(), w.want); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("Examine = %+v, %v; want ErrUnavailable", found, err)
	}
}

func TestOneOfSeveralVIMsIsAwayAndHangsUntilItIsBack(t *testing.T) {
	// Time passes only where all wait: neither the context nor the patience with a VIM that hangs ends for a slow machine.
	synctest.Test(t, func(t *testing.T) {
		w := running(t)
		other := sim.New(w.cloud, drivers.VIM{Name: "other"})
		w.cloud.SetVIMAway("other", errors.New("connection refused"), false)
		if _, err := other.Observe(t.Context(), w.want); !errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(err.Error(), "VIM other: ") {
			t.Errorf("Observe = %v; want ErrUnavailable", err)
		}
		if _, err := w.d.Observe(t.Context(), w.want); err != nil {
			t.Errorf("the VIM that isn't away: %v", err)
		}
		w.cloud.SetVIMAway("other", errors.New("no answer"), true)
		waits, end := context.WithTimeout(t.Context(), time.Millisecond)
		defer end()
		if err := other.Verify(waits, w.want, plan.Step{Action: plan.Apply}); !errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("Verify = %v; want ErrUnavailable", err)
		}
		answered := make(chan error, 1)
		go func() {
			_, err := other.Observe(t.Context(), w.want)
			answered <- err
		}()
		synctest.Wait() // it hangs
		w.cloud.SetVIMAway("other", nil, false)
		if err := <-answered; err != nil {
			t.Errorf("what hung when the VIM came back: %v", err)
		}
	})
}

func TestAHeldObjectGoesWhenItIsLetGo(t *testing.T) {
	const web = "Workload/i1/front"
	w := running(t)
	w.cloud.Hold(web, true)
	o, err := w.d.Observe(t.Context(), w.want)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range o.Objects {
		if x.Key == web {
			if err := w.d.Do(t.Context(), w.want, plan.Step{Action: plan.Delete, Object: web, Incarnation: x.Incarnation}); err != nil {
				t.Fatal(err)
			}
		}
	}
	due := w.due(t)
	if len(due) != 1 || due[0].Action != plan.Wait || !strings.Contains(due[0].Reason, "held") {
		t.Errorf("while it is held: %+v", due)
	}
	if said := w.d.Explain(t.Context(), w.want, web); !strings.HasPrefix(said, "Held: ") {
		t.Errorf("Explain = %q", said)
	}
	w.cloud.Hold(web, false)
	if due := plan.Next(w.due(t)); len(due) != 1 || due[0].Action != plan.Apply {
		t.Errorf("after it was let go: %+v", due)
	}
}

func TestExplainTellsOfObjectsAndUnits(t *testing.T) {
	const web = "Workload/i1/front"
	w := running(t)
	w.cloud.Fail(web, "no such image")
	o, err := w.d.Observe(t.Context(), w.want)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range o.Units {
		if said := w.d.Explain(t.Context(), w.want, u.Key); (said == "Failed: no such image") != (u.Owner == web) {
			t.Errorf("%s: %q", u.Key, said)
		}
	}
	if said := w.d.Explain(t.Context(), w.want, web); said != "Failed: no such image" {
		t.Errorf("%s: %q", web, said)
	}
	if said := w.d.Explain(t.Context(), w.want, "Workload/i1/none"); said != "" {
		t.Errorf("what doesn't exist is explained by %q", said)
	}
}
