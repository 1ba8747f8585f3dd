package driverstest

import (
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// stopped is the source of the same instance, stopped.
func stopped(src drivers.Source) drivers.Source {
	in := *src.Instance
	in.State = desired.Stopped
	src.Instance = &in
	return src
}

func stopsAndStarts(t *testing.T, h Harness) {
	d := h.Connect(t)
	id := h.id(t, 1)
	src := h.instantiate(t, d, id, 2)
	before := h.observe(t, d, render(t, d, src))
	still := stopped(src)
	off := h.converge(t, d, still, true)
	kept := map[string]bool{} // the VIM's ids of units that were turned off
	for _, u := range off.Units {
		if u.Ready || !u.Stopped || u.Dead != "" {
			t.Errorf("a unit of a VNF that is stopped: %+v", u)
		}
		kept[u.Resource()] = true
	}
	if steps := plan.Compute(render(t, d, still).Desired, h.observe(t, h.Connect(t), render(t, d, still)), plan.Journal{}); len(steps) > 0 {
		t.Errorf("a new process finds something to do on what is stopped: %+v", steps)
	}
	after := h.converge(t, d, src, true)
	if n := len(unitsOf(after, h.VDU)); n != 2 {
		t.Errorf("%d units after the start, want 2", n)
	}
	for _, u := range after.Units {
		was := slices.ContainsFunc(before.Units, func(x plan.Unit) bool { return x.ID == u.ID })
		if !u.Ready || u.Stopped || was != kept[u.Resource()] {
			t.Errorf("a unit after the start, that lived before: %v, and was turned off: %v: %+v", was, kept[u.Resource()], u)
		}
	}
	// Scaled while it is stopped, and started with the new number.
	more := h.Source(t, id, 3)
	h.converge(t, d, still, true)
	h.converge(t, d, stopped(more), true)
	if n := len(unitsOf(h.converge(t, d, more, true), h.VDU)); n != 3 {
		t.Errorf("%d units after a start of what was scaled to 3 while it was stopped", n)
	}
}

func stoppedIsChanged(t *testing.T, h Harness) {
	if h.Change == nil {
		t.Skip("the package of what runs can't be changed")
	}
	for n, strategy := range []string{desired.Rolling, desired.BlueGreen} {
		d := h.Connect(t)
		before, after := h.Change(t, h.id(t, n), strategy)
		h.cleanup(t, before)
		was := h.converge(t, d, before, true)
		h.converge(t, d, stopped(before), true)
		journal := plan.Journal{Operation: "CHANGE_VNFPKG", Granted: true}
		off := h.operate(t, d, stopped(after), true, &journal, func([]plan.Step) bool { return false })
		if slices.ContainsFunc(off.Units, func(u plan.Unit) bool { return u.Ready || !u.Stopped }) {
			t.Errorf("%s: units run after the change of what is stopped: %+v", strategy, off.Units)
		}
		is := h.converge(t, d, after, true)
		if len(is.Units) != len(was.Units) {
			t.Errorf("%s: %d units after the start, there were %d", strategy, len(is.Units), len(was.Units))
		}
		for _, u := range is.Units {
			if !u.Ready || slices.ContainsFunc(was.Units, func(x plan.Unit) bool { return x.ID == u.ID }) {
				t.Errorf("%s: a unit after the start: %+v", strategy, u)
			}
		}
	}
}
