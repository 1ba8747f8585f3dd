package driverstest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// changing is an instance that runs one package and is about to run another.
type changing struct {
	Harness
	d             drivers.Driver
	before, after drivers.Source
	was           plan.Observed
	journal       plan.Journal
}

func (h Harness) changing(t *testing.T, strategy string) *changing {
	t.Helper()
	if h.Change == nil {
		t.Skip("this harness has no change of package")
	}
	c := &changing{Harness: h, d: h.Connect(t), journal: plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}}
	c.before, c.after = h.Change(t, h.id(t, 1), strategy)
	h.cleanup(t, c.before)
	c.was = h.converge(t, c.d, c.before, true)
	return c
}

// forward carries the change on until stop returns true, or to its end.
func (c *changing) forward(t *testing.T, stop func(done []plan.Step) bool) plan.Observed {
	t.Helper()
	return c.operate(t, c.d, c.after, true, &c.journal, stop)
}

// back rolls the change back, from another process.
func (c *changing) back(t *testing.T) plan.Observed {
	t.Helper()
	c.d = c.Connect(t)
	c.journal.Rollback, c.journal.Issued = true, nil
	return c.operate(t, c.d, c.before, true, &c.journal, toTheEnd)
}

func toTheEnd([]plan.Step) bool { return false }

// moments are those at which a change is rolled back: each function says whether the batch
// that was done brought the moment about. A change in which it never comes is rolled back at
// its end.
var moments = []struct {
	name string
	come func(done []plan.Step) bool
}{
	{"when the new one comes up", func(done []plan.Step) bool { return has(done, plan.Apply) }},
	{"when traffic was switched", func(done []plan.Step) bool {
		return slices.ContainsFunc(done, func(s plan.Step) bool { return s.Directs })
	}},
	{"when the old one goes", func(done []plan.Step) bool { return has(done, plan.Delete) }},
	{"at the end", toTheEnd},
}

func has(steps []plan.Step, action plan.Action) bool {
	return slices.ContainsFunc(steps, func(s plan.Step) bool { return s.Action == action })
}

// facts are the state of an instance at its VIM, without incarnations.
func facts(o plan.Observed) map[string]string {
	m := map[string]string{}
	for _, x := range o.Objects {
		m[x.Key] = fmt.Sprintf("digest %s, generation %q, count %d %v, %s", x.Digest, x.Generation, x.Count, x.Counts, x.Retention)
	}
	units := map[string]int{}
	for _, u := range o.Units {
		units[fmt.Sprintf("units of %s, of VDU %s and generation %q", u.Owner, u.VDU, u.Generation)]++
	}
	for of, n := range units {
		m[of] = strconv.Itoa(n)
	}
	return m
}

func rollingReaches(t *testing.T, h Harness) {
	c := h.changing(t, desired.Rolling)
	now := c.forward(t, toTheEnd)
	c.arrived(t, now)
	for _, x := range render(t, c.d, c.after).Objects {
		if a, b := incarnations(c.was)[x.Key], incarnations(now)[x.Key]; a != b {
			t.Errorf("a rolling change made %s anew: %s, then %s", x.Key, a, b)
		}
	}
}

func blueGreenReaches(t *testing.T, h Harness) {
	c := h.changing(t, desired.BlueGreen)
	want := render(t, c.d, c.after)
	switched, beside := false, false
	passive := slices.ContainsFunc(c.was.Objects, func(x plan.ObservedObject) bool { return x.Passive })
	c.watchSteps = func(o plan.Observed, next []plan.Step) {
		for _, s := range next {
			switch {
			case s.Directs:
				switched = true
				if err := allReady(want, o); err != nil {
					t.Errorf("%s, although %v", s, err)
				}
			case s.Action == plan.Delete && passive:
				switched = true // the scripts have done it
				if err := allReady(want, o); err != nil {
					t.Errorf("%s, although %v", s, err)
				}
			case s.Action == plan.Delete && !switched:
				t.Errorf("%s before traffic was switched away from it", s)
			}
		}
		ids := sortedIDs(o)
		if !switched && slices.ContainsFunc(sortedIDs(c.was), func(id string) bool { return !slices.Contains(ids, id) }) {
			t.Errorf("a unit of the old generation is gone before traffic was switched away: %v, then %v", sortedIDs(c.was), ids)
		}
		beside = beside || len(ids) >= 2*len(sortedIDs(c.was))
	}
	now := c.forward(t, toTheEnd)
	c.arrived(t, now)
	if !switched || !beside {
		t.Errorf("traffic was switched: %v; two generations stood side by side: %v", switched, beside)
	}
	for _, x := range want.Objects {
		if x.Directs && (incarnations(now)[x.Key] != incarnations(c.was)[x.Key] || kept(now)[x.Key] != kept(c.was)[x.Key]) {
			t.Errorf("%s, which sends traffic, isn't what it was", x.Key)
		}
	}
}

// allReady says whether every unit that is desired is there and ready.
func allReady(want drivers.Rendering, o plan.Observed) error {
	for _, g := range want.Groups {
		ready := 0
		for _, u := range o.Units {
			if u.Owner == g.Owner && (u.VDU == g.VDU || g.Free) && u.Ready && !u.Deleting {
				ready++
			}
		}
		if ready == 0 || !g.Free && ready != g.Count {
			return fmt.Errorf("%s has %d ready units, want %d", g.Owner, ready, g.Count)
		}
	}
	return nil
}

// arrived checks that the second intent is at rest, and that nothing else is left.
func (c *changing) arrived(t *testing.T, now plan.Observed) {
	t.Helper()
	want := render(t, c.d, c.after)
	wanted := map[string]string{}
	for _, x := range want.Objects {
		wanted[x.Key] = x.Digest
	}
	for _, x := range now.Objects {
		switch digest, ok := wanted[x.Key]; {
		case ok && x.Digest != digest:
			t.Errorf("%s has the digest %q after the change, want %q", x.Key, x.Digest, digest)
		case !ok && x.Retention == plan.RetainNot:
			t.Errorf("%s is still there after the change", x.Key)
		case x.Generation != "" && x.Generation != want.Generation && x.Retention == plan.RetainNot:
			t.Errorf("%s of generation %q is still there, want %q alone", x.Key, x.Generation, want.Generation)
		}
		delete(wanted, x.Key)
	}
	if len(wanted) > 0 {
		t.Errorf("missing after the change: %v", wanted)
	}
	if err := allReady(want, now); err != nil {
		t.Error(err)
	}
	for _, u := range now.Units {
		if slices.Contains(sortedIDs(c.was), u.ID) || u.Generation != want.Generation {
			t.Errorf("unit %s (%s) of generation %q is one of before", u.ID, u.Name, u.Generation)
		}
	}
	c.atRest(t, c.after)
}

func (c *changing) atRest(t *testing.T, src drivers.Source) {
	t.Helper()
	want := render(t, c.d, src)
	d := c.Connect(t)
	if steps := plan.Compute(want.Desired, c.observe(t, d, want), plan.Journal{}); len(steps) > 0 {
		t.Errorf("after the operation there is something to do: %+v", steps)
	}
}

// at runs the test at each moment at which a change of the strategy is rolled back.
func (h Harness) at(t *testing.T, strategy string, test func(t *testing.T, come func([]plan.Step) bool)) {
	for _, m := range moments {
		if h.Moments != nil && !slices.Contains(h.Moments[strategy], m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) { test(t, m.come) })
	}
}

func rollingIsRolledBack(t *testing.T, h Harness) {
	h.at(t, desired.Rolling, func(t *testing.T, come func([]plan.Step) bool) {
		c := h.changing(t, desired.Rolling)
		c.forward(t, come)
		now := c.back(t)
		if diff := cmp.Diff(facts(c.was), facts(now)); diff != "" {
			t.Errorf("what stands after the rollback isn't what stood before the change:\n%s", diff)
		}
		c.atRest(t, c.before)
	})
}

func blueGreenIsRolledBack(t *testing.T, h Harness) {
	h.at(t, desired.BlueGreen, func(t *testing.T, come func([]plan.Step) bool) {
		c := h.changing(t, desired.BlueGreen)
		deleted := false
		c.forward(t, func(done []plan.Step) bool {
			deleted = deleted || has(done, plan.Delete)
			return come(done)
		})
		now := c.back(t)
		if diff := cmp.Diff(facts(c.was), facts(now)); diff != "" {
			t.Errorf("what stands after the rollback isn't what stood before the change:\n%s", diff)
		}
		if !deleted && (!cmp.Equal(incarnations(c.was), incarnations(now)) || !slices.Equal(sortedIDs(c.was), sortedIDs(now))) {
			t.Errorf("the old generation was touched: %v %v, then %v %v",
				incarnations(c.was), sortedIDs(c.was), incarnations(now), sortedIDs(now))
		}
		if a, b := kept(c.was), kept(now); !deleted && !cmp.Equal(a, b) {
			t.Errorf("successors should take over %v after the rollback, and would %v", a, b)
		}
		c.atRest(t, c.before)
	})
}

func changeIsRefused(t *testing.T, h Harness) {
	if h.Refusal == nil {
		t.Skip("this harness refuses no change")
	}
	d := h.Connect(t)
	err := d.Change(h.Refusal(t, h.id(t, 1)))
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || refused.Subject() == "" || refused.Reason == "" {
		t.Errorf("Change = %v, want a RefusedError that names object and reason", err)
	}
	if h.Change == nil {
		return
	}
	for _, strategy := range []string{desired.Rolling, desired.BlueGreen} {
		if err := d.Change(h.Change(t, h.id(t, 2), strategy)); err != nil {
			t.Errorf("Change refuses a good %s change: %v", strategy, err)
		}
	}
}
