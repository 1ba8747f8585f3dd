package driverstest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// condemned is the source with tombstones for the incarnations.
func condemned(src drivers.Source, incarnations map[string]string) drivers.Source {
	in := *src.Instance
	in.Condemned = incarnations
	src.Instance = &in
	return src
}

func healOfUnit(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 3)
	before := h.observe(t, d, render(t, d, src))
	victim := unitsOf(before, h.VDU)[0]
	src = condemned(src, map[string]string{victim.Key: victim.ID})
	after := h.converge(t, d, src, true)
	if n := len(unitsOf(after, h.VDU)); n != 3 || slices.Contains(sortedIDs(after), victim.ID) {
		t.Errorf("%d units after %s was healed, want 3 others: %v", n, victim.ID, sortedIDs(after))
	}
	for _, u := range before.Units {
		if u.ID != victim.ID && !slices.Contains(sortedIDs(after), u.ID) {
			t.Errorf("healing %s also lost %s", victim.Name, u.Name)
		}
	}
	if !cmp.Equal(incarnations(before), incarnations(after)) {
		t.Errorf("healing a unit replaced objects: %v, then %v", incarnations(before), incarnations(after))
	}
	// A process that was cut short does it again: under the unit's key there may be a successor.
	again := plan.Step{Action: plan.DeleteUnit, Object: victim.Key, Incarnation: victim.ID, Owner: victim.Owner}
	h.do(t, d, src, again, again)
	h.do(t, h.Connect(t), src, again)
	if now := h.converge(t, d, src, true); !slices.Equal(sortedIDs(after), sortedIDs(now)) {
		t.Errorf("a repeated delete hit a successor: %v, then %v", sortedIDs(after), sortedIDs(now))
	}
}

func healOfObjects(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 2)
	before := h.observe(t, d, render(t, d, src))
	all := map[string]string{}
	var deletes []plan.Step
	passive := slices.ContainsFunc(before.Objects, func(x plan.ObservedObject) bool { return x.Passive })
	for _, x := range before.Objects {
		// A heal leaves an object that holds the data of its units, unless the object is condemned.
		if x.Retention == plan.RetainNot || passive && x.Retention != plan.RetainAlways {
			all[x.Key] = x.Incarnation
			deletes = append(deletes, plan.Step{Action: plan.Delete, Object: x.Key, Incarnation: x.Incarnation})
		}
	}
	if len(all) < 2 && !passive {
		t.Fatalf("the suite needs two objects that may be made anew, not %v", all)
	}
	src = condemned(src, all)
	// Nothing is made anew before all that goes is gone.
	h.watchSteps = func(o plan.Observed, next []plan.Step) {
		if slices.ContainsFunc(next, func(s plan.Step) bool { return s.Action == plan.Apply }) && len(o.Unspent(all)) > 0 {
			t.Errorf("%+v, while there still is %v", next, o.Unspent(all))
		}
	}
	after := h.converge(t, d, src, true)
	h.watchSteps = nil
	now := incarnations(after)
	for key, was := range incarnations(before) {
		if (all[key] != "") != (now[key] != was) {
			t.Errorf("%s was to be healed: %v, its incarnations: %s, then %s", key, all[key] != "", was, now[key])
		}
	}
	for _, id := range sortedIDs(after) {
		if slices.Contains(sortedIDs(before), id) {
			t.Errorf("unit %s outlived its owner", id)
		}
	}
	if a, b := kept(before), kept(after); !maps.Equal(a, b) {
		t.Errorf("successors should have taken over %v, and have %v", a, b)
	}
	h.do(t, d, src, deletes...)
	h.do(t, h.Connect(t), src, deletes...)
	again := h.converge(t, d, src, true)
	if !cmp.Equal(now, incarnations(again)) || !slices.Equal(sortedIDs(after), sortedIDs(again)) {
		t.Errorf("repeated deletes hit successors: %v, then %v", now, incarnations(again))
	}
	if steps := plan.Compute(render(t, d, src).Desired, h.observe(t, h.Connect(t), render(t, d, src)), plan.Journal{}); len(steps) > 0 {
		t.Errorf("a healed instance drifts: %+v", steps)
	}
}

// kept is what each object leaves to its successor.
func kept(o plan.Observed) map[string]string {
	m := map[string]string{}
	for _, x := range o.Objects {
		if x.Keep != "" {
			m[x.Key] = x.Keep
		}
	}
	return m
}

func deadIsReplaced(t *testing.T, h Harness) {
	if h.Mortal == nil {
		t.Skip("this harness can't make an object die")
	}
	d := h.Connect(t)
	src, die := h.Mortal(t, h.id(t, 1))
	h.cleanup(t, src)
	before := h.converge(t, d, src, true)
	key := die(t, before)
	was := incarnations(before)[key]
	if was == "" {
		t.Fatalf("%q, which is to die, isn't among %v", key, incarnations(before))
	}
	h.until(t, func() error {
		for _, x := range h.observe(t, d, render(t, d, src)).Objects {
			if x.Key == key && (x.Incarnation != was || x.Dead != "" && x.Failure != "" && !x.Ready) {
				return nil
			}
		}
		return fmt.Errorf("%s isn't seen to be dead", key)
	})
	after := incarnations(h.converge(t, d, src, true))
	for k, incarnation := range incarnations(before) {
		if (k == key) != (after[k] != incarnation) {
			t.Errorf("%s died; of %s the incarnations are %s, then %s", key, k, incarnation, after[k])
		}
	}
}

func mayPassIsSaid(t *testing.T, h Harness) {
	if h.MayPass == nil {
		t.Skip("nobody else refuses anything at this VIM")
	}
	d := h.Connect(t)
	src := h.MayPass(t, h.id(t, 1))
	h.cleanup(t, src)
	want := render(t, d, src)
	steps := doable(plan.Next(plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{})))
	for name, err := range map[string]error{"Verify": d.Verify(t.Context(), rendering(t, d, src), steps...), "Do": d.Do(t.Context(), rendering(t, d, src), steps...)} {
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || !refused.MayPass || refused.Subject() == "" {
			t.Errorf("%s = %v, want a RefusedError that may pass", name, err)
		}
	}
}

func examineAtRest(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 1)
	want := render(t, d, src)
	if found, err := d.Examine(t.Context(), want, plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{})...); err != nil || len(found) > 0 {
		t.Errorf("at rest Examine = %+v, %v", found, err)
	}
	// Somebody else deletes an object.
	var victim plan.ObservedObject
	for _, x := range h.observe(t, d, want).Objects {
		if slices.ContainsFunc(want.Objects, func(w plan.Object) bool { return w.Key == x.Key }) {
			victim = x
		}
	}
	h.do(t, d, src, plan.Step{Action: plan.Delete, Object: victim.Key, Incarnation: victim.Incarnation})
	h.until(t, func() error {
		steps := plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{})
		if len(steps) == 0 || steps[0].Action != plan.Apply {
			return fmt.Errorf("the loss of %s isn't seen: %+v", victim.Key, steps)
		}
		found, err := d.Examine(t.Context(), want, steps...)
		if err != nil {
			t.Fatalf("Examine: %v", err)
		}
		if !slices.ContainsFunc(found, func(v drivers.Deviation) bool {
			return v.Object == victim.Key && v.Field == "" && v.Have == "" && v.Want != ""
		}) {
			t.Fatalf("Examine doesn't report that %s is missing: %+v", victim.Key, found)
		}
		return nil
	})
	h.converge(t, d, src, true)
}
