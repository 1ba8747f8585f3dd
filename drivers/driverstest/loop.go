package driverstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// pause between two looks at a VIM that is at work.
const pause = 10 * time.Millisecond

// id is that of the n-th instance of a test. It is the same in every call of one run and new in
// every run, so that nothing that an earlier run left can be mistaken for this run's.
func (h Harness) id(t *testing.T, n int) string {
	return uuid.NewSHA1(run, fmt.Appendf(nil, "%s %d", t.Name(), n)).String()
}

// run identifies this run of the suite.
var run = uuid.New()

// instantiate brings an instance up, to be taken down at the end of the test.
func (h Harness) instantiate(t *testing.T, d drivers.Driver, id string, units int) drivers.Source {
	t.Helper()
	src := h.Source(t, id, units)
	h.cleanup(t, src)
	h.converge(t, d, src, true)
	return src
}

// cleanup takes the instance down at the end of the test. The context of the test has ended
// then, and so has what waits with it.
func (h Harness) cleanup(t *testing.T, src drivers.Source) {
	t.Cleanup(func() {
		d := h.Connect(t)
		ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
		defer cancel()
		src.Package = nil
		for {
			o, err := d.Observe(ctx, drivers.Rendering{Source: src})
			if err != nil {
				t.Logf("clean up: %v", err)
				return
			}
			steps := plan.Next(plan.Compute(plan.Desired{}, o, plan.Journal{}))
			if len(steps) == 0 {
				return
			}
			if err := d.Do(ctx, drivers.Rendering{Source: src}, doable(steps)...); err != nil {
				t.Logf("clean up: %v", err)
			}
			time.Sleep(pause)
		}
	})
}

// terminate takes an instance down, without its package, which the reconciler doesn't have then.
func (h Harness) terminate(t *testing.T, d drivers.Driver, src drivers.Source) {
	t.Helper()
	src.Package = nil
	h.converge(t, d, src, false)
}

// converge is the reconciler's loop without an operation, and so without grant and record.
func (h Harness) converge(t *testing.T, d drivers.Driver, src drivers.Source, exists bool) plan.Observed {
	t.Helper()
	var journal plan.Journal
	return h.operate(t, d, src, exists, &journal, func([]plan.Step) bool { return false })
}

// operate converges with the journal until stop returns true for a batch that was done. It
// only notes hooks and drains as done.
func (h Harness) operate(t *testing.T, d drivers.Driver, src drivers.Source, exists bool, journal *plan.Journal, stop func(done []plan.Step) bool) plan.Observed {
	t.Helper()
	var o plan.Observed
	h.until(t, func() error {
		want := drivers.Rendering{Source: src}
		if exists {
			want = render(t, d, src)
		}
		o = h.observe(t, d, want)
		steps := plan.Compute(want.Desired, o, *journal)
		if len(steps) == 0 {
			return nil
		}
		next := plan.Next(steps)
		for _, s := range next {
			if s.Failure != "" {
				t.Fatalf("%s will not become ready: %s", s.Object, s.Failure)
			}
		}
		if h.watchSteps != nil {
			h.watchSteps(o, next)
		}
		for _, s := range next {
			if s.Action == plan.Hook || s.Action == plan.Drain {
				journal.Hooks = append(journal.Hooks, s.Object)
			}
		}
		*journal, _ = journal.Issue(next)
		if err := d.Do(t.Context(), want, doable(next)...); err != nil {
			if isRefused(err) {
				t.Fatalf("do %+v: %v", next, err)
			}
			return fmt.Errorf("do %+v: %w", next, err)
		}
		if stop(next) {
			return nil
		}
		return fmt.Errorf("left to do: %+v", steps)
	})
	return o
}

// until polls: a VIM moves by itself, and not every driver notifies of it.
func (h Harness) until(t *testing.T, done func() error) {
	t.Helper()
	kit.EventuallyWithin(t, h.Patience, done)
}

func (h Harness) observe(t *testing.T, d drivers.Driver, want drivers.Rendering) plan.Observed {
	t.Helper()
	var o plan.Observed
	h.until(t, func() (err error) {
		o, err = d.Observe(t.Context(), want)
		if err != nil && !errors.Is(err, drivers.ErrUnavailable) {
			t.Fatalf("Observe: %v", err)
		}
		return err
	})
	return o
}

func (h Harness) do(t *testing.T, d drivers.Driver, src drivers.Source, steps ...plan.Step) {
	t.Helper()
	if err := d.Do(t.Context(), rendering(t, d, src), steps...); err != nil {
		t.Fatalf("Do %+v: %v", steps, err)
	}
}

// rendering is the rendering of the source, also where nothing should exist.
func rendering(t *testing.T, d drivers.Driver, src drivers.Source) drivers.Rendering {
	t.Helper()
	if src.Package == nil {
		return drivers.Rendering{Source: src}
	}
	return render(t, d, src)
}

func render(t *testing.T, d drivers.Driver, src drivers.Source) drivers.Rendering {
	t.Helper()
	want, err := d.Render(src)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return want
}

// doable are the steps that are a driver's.
func doable(steps []plan.Step) []plan.Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s plan.Step) bool {
		return s.Action == plan.Wait || s.Action == plan.Grant || s.Action == plan.Hook || s.Action == plan.Drain
	})
}

func unitsOf(o plan.Observed, vdu string) []plan.Unit {
	var units []plan.Unit
	for _, u := range o.Units {
		if u.VDU == vdu && !u.Deleting {
			units = append(units, u)
		}
	}
	return units
}

func sortedIDs(o plan.Observed) []string {
	ids := map[string]bool{}
	for _, u := range o.Units {
		if !u.Deleting {
			ids[u.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

func incarnations(o plan.Observed) map[string]string {
	m := map[string]string{}
	for _, x := range o.Objects {
		m[x.Key] = x.Incarnation
	}
	return m
}

func isRefused(err error) bool {
	var refused *drivers.RefusedError
	return errors.As(err, &refused)
}

func withCancel(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
