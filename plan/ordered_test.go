package plan_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/plan"
)

// member is a unit of an owner that makes its units in order, one by one.
type member struct {
	id        int
	template  string // "now", or one that was left
	ready     bool
	leaving   bool
	neverRuns bool
}

// ordered is such an owner, a StatefulSet, with its controller: it waits for each unit that isn't
// ready, in their order, and then replaces those of another template, the highest number first.
type ordered struct {
	units []*member // by number; nil where there is none
	made  int
}

func (o *ordered) reconcile() {
	for i, u := range o.units {
		if u == nil {
			o.made++
			o.units[i] = &member{id: o.made, template: "now"}
			return
		}
		if u.leaving || !u.ready {
			return
		}
	}
	for i := len(o.units) - 1; i >= 0; i-- {
		if u := o.units[i]; u.template != "now" {
			u.leaving = true
			return
		}
	}
}

// live has each unit go, or become ready, that may.
func (o *ordered) live(t *rapid.T) {
	for i, u := range o.units {
		switch {
		case u == nil || !rapid.Bool().Draw(t, "moves"):
		case u.leaving:
			o.units[i] = nil
		case !u.neverRuns:
			u.ready = true
		}
	}
}

func (o *ordered) observe(key string) plan.Observed {
	var seen plan.Observed
	done := true
	for i, u := range o.units {
		if u == nil {
			done = false
			continue
		}
		done = done && u.ready && !u.leaving && u.template == "now"
		x := plan.Unit{
			ID: fmt.Sprint(u.id), Key: fmt.Sprintf("Pod/ns/db-%d", i), Name: fmt.Sprintf("db-%d", i), VDU: "db", Owner: key,
			Ready: u.ready && !u.leaving, Deleting: u.leaving,
		}
		if u.template != "now" && !u.ready && !u.leaving {
			x.Outdated, x.Blocks = "it has a former template", true
		}
		seen.Units = append(seen.Units, x)
	}
	seen.Objects = []plan.ObservedObject{{Key: key, Incarnation: "1", Digest: "now", Count: len(o.units), Ordered: true, Ready: done, Reason: "not all are ready"}}
	return seen
}

// TestAnOrderedOwnerLeavesWhatNeverRunsAtAnyShape has any number of units of left templates, that run or
// never will, with any missing, and the controller, the units and the planner in any order.
func TestAnOrderedOwnerLeavesWhatNeverRunsAtAnyShape(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const key = "StatefulSet/ns/db"
		o := &ordered{made: 100}
		for i := range rapid.IntRange(1, 12).Draw(t, "units") {
			u := &member{id: i, template: rapid.SampledFrom([]string{"now", "before", "abandoned"}).Draw(t, "template")}
			u.neverRuns = u.template == "abandoned"
			u.ready = !u.neverRuns && rapid.Bool().Draw(t, "ready")
			u.leaving = rapid.IntRange(0, 5).Draw(t, "leaving") == 0
			if rapid.IntRange(0, 3).Draw(t, "missing") == 0 {
				u = nil
			}
			o.units = append(o.units, u)
		}
		want := plan.Desired{
			Objects: []plan.Object{{Key: key, Digest: "now"}},
			Groups:  []plan.Group{{VDU: "db", Owner: key, Count: len(o.units)}},
		}
		journal := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true, Rollback: true, Hooks: []string{"change_current_package_rollback_start", "change_current_package_rollback_end"}}

		for range 1000 {
			steps := plan.Compute(want, o.observe(key), journal)
			if len(steps) == 0 {
				return
			}
			for _, s := range plan.Next(steps) {
				journal.Issued = append(journal.Issued, s.Key())
				if s.Action == plan.Wait {
					continue
				}
				o.end(t, s)
			}
			if rapid.Bool().Draw(t, "controller") {
				o.reconcile()
			}
			o.live(t)
		}
		t.Fatalf("it never ends: %+v", plan.Compute(want, o.observe(key), journal))
	})
}

// end carries out the deletion of a unit, which must be one that is of no use.
func (o *ordered) end(t *rapid.T, s plan.Step) {
	if s.Action != plan.DeleteUnit {
		t.Fatalf("nothing but units had to be deleted: %s", s)
	}
	for _, u := range o.units {
		if u == nil || fmt.Sprint(u.id) != s.Incarnation {
			continue
		}
		if u.ready || u.template == "now" {
			t.Fatalf("%s deletes a unit that is of use: %+v", s, *u)
		}
		u.leaving = true
	}
}
