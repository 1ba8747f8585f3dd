// Package driverstest proves that a driver keeps the contract of package drivers.
//
// [Run] works a driver as the reconciler does: render, observe, plan.Compute, do,
// and again until nothing is left. It knows nothing of any VIM, and it never
// looks behind the interface. A new driver passes it before anything else.
package driverstest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Harness is what the suite needs to know of a driver and its VIM.
type Harness struct {
	// Connect makes a driver as a process that has just started does. All drivers
	// of one harness speak for one VIM.
	Connect func(t *testing.T) drivers.Driver
	// ConnectAway makes a driver for a VIM that doesn't answer.
	ConnectAway func(t *testing.T) drivers.Driver
	// Source is the intent for an instance. Its package has at least two VDUs, one
	// of which, VDU, has as many units as units says (1 to 4).
	Source func(t *testing.T, id string, units int) drivers.Source
	// VDU is the id of the VDU that scales.
	VDU string
	// Rival, if not nil, is the intent for a second instance whose objects have the keys
	// of those that Source makes for another id: it can't run beside it.
	Rival func(t *testing.T, id string) drivers.Source
	// Refused is intent that renders well and that the VIM never accepts.
	Refused func(t *testing.T, id string) drivers.Source
	// Unrenderable is intent that this driver can never honour.
	Unrenderable func(t *testing.T, id string) drivers.Source
	// Mortal, if not nil, is intent with an object that die can bring to an end for
	// good once it runs; die returns its key.
	Mortal func(t *testing.T, id string) (src drivers.Source, die func(t *testing.T, o plan.Observed) (key string))
	// MayPass, if not nil, is intent that renders well and that somebody else's webhook
	// refuses at the VIM, not the VIM itself.
	MayPass func(t *testing.T, id string) drivers.Source
	// Change, if not nil, are two intents for the instance, the second of another
	// package, which it comes to by the strategy (desired.Rolling or desired.BlueGreen;
	// then the generation is another, too). All VDUs have other units then, and as many.
	// The objects of a rolling change have the same keys in both, and none of them has to
	// be made anew. In a blue-green change at least one object that both have sends traffic
	// to the units (plan.Object.Directs), in the second to others; at a VIM without such
	// objects (Passive) there is none.
	Change func(t *testing.T, id, strategy string) (before, after drivers.Source)
	// Refusal, if not nil, are two intents between which the driver refuses to change.
	Refusal func(t *testing.T, id string) (before, after drivers.Source)
	// Only names the cases to run, for a VIM where each takes minutes; nil is all.
	Only []string
	// Moments are the names of those, by strategy, at which a change is rolled back, for a
	// driver where other moments of the suite never come; nil is all.
	Moments map[string][]string
	// Patience is how long a VIM may take for one change; 0 is 2 minutes. It bounds
	// a hang and measures nothing.
	Patience time.Duration

	// watchSteps, if not nil, sees each batch before it is done.
	watchSteps func(o plan.Observed, next []plan.Step)
}

// Run runs the whole suite. Cases don't share instances, so one VIM serves all.
func Run(t *testing.T, h Harness) {
	if h.Patience == 0 {
		h.Patience = 2 * time.Minute
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"RenderIsDeterministic", renderIsDeterministic},
		{"RenderRefusesWhatItCannotHonour", renderRefuses},
		{"UnknownInstanceObservesEmpty", unknownObservesEmpty},
		{"InstantiateConvergesToReadyUnits", instantiateConverges},
		{"DoTwiceIsDoOnce", doTwiceIsDoOnce},
		{"AtRestNothingIsToDo", atRestNothingIsToDo},
		{"ScaleOutAddsAndKeepsUnits", scaleOutKeepsUnits},
		{"ScaleInRemovesUnitsOnly", scaleInRemovesUnits},
		{"WhatIsStoppedRunsNoUnitAndStartsAgain", stopsAndStarts},
		{"AChangeOfWhatIsStoppedShowsAtItsStart", stoppedIsChanged},
		{"ARestartedProcessSeesTheSame", restartSeesTheSame},
		{"ADeletedUnitIsReplaced", deletedUnitIsReplaced},
		{"DeleteNeverHitsASuccessor", deleteSparesSuccessor},
		{"HealReplacesAUnitOnce", healOfUnit},
		{"HealReplacesObjectsWhichTakeOverWhatIsKept", healOfObjects},
		{"ADeadObjectIsReplaced", deadIsReplaced},
		{"WhatIsMissingIsFoundByExamine", examineAtRest},
		{"RivalIsRefusedAndClaimsNothing", rivalIsRefused},
		{"InstancesNeverClaimEachOthersUnits", instancesAreApart},
		{"VerifyChangesNothing", verifyChangesNothing},
		{"RefusalIsTyped", refusalIsTyped},
		{"ARefusalThatMayPassSaysSo", mayPassIsSaid},
		{"ARollingChangeReachesTheNewPackage", rollingReaches},
		{"ARollingChangeIsRolledBack", rollingIsRolledBack},
		{"ABlueGreenChangeEndsWithTheNewGeneration", blueGreenReaches},
		{"ABlueGreenChangeIsRolledBack", blueGreenIsRolledBack},
		{"AChangeThatCannotBeMadeIsRefused", changeIsRefused},
		{"TerminateLeavesNothing", terminateLeavesNothing},
		{"ASurveyNamesWhatIsThere", surveyNamesWhatIsThere},
		{"AnAbsentVIMIsAnErrorNotEmptiness", awayIsAnError},
		{"WatchTellsOfChanges", watchTells},
	} {
		if h.Only == nil || slices.Contains(h.Only, c.name) {
			t.Run(c.name, func(t *testing.T) { c.run(t, h) })
		}
	}
}

func renderIsDeterministic(t *testing.T, h Harness) {
	src := h.Source(t, h.id(t, 1), 2)
	a := render(t, h.Connect(t), src)
	b := render(t, h.Connect(t), src)
	if diff := cmp.Diff(a.Desired, b.Desired); diff != "" {
		t.Errorf("two renders of one source differ:\n%s", diff)
	}
	more := render(t, h.Connect(t), h.Source(t, h.id(t, 1), 3))
	if diff := cmp.Diff(a.Objects, more.Objects); diff != "" {
		t.Errorf("the number of units must not be part of an object's digest:\n%s", diff)
	}
	seen := map[string]bool{}
	for _, x := range a.Objects {
		if x.Key == "" || x.Digest == "" || seen[x.Key] {
			t.Errorf("object without key or digest, or twice: %+v", x)
		}
		seen[x.Key] = true
	}
	vdus := map[string]bool{}
	for _, g := range a.Groups {
		if !seen[g.Owner] {
			t.Errorf("group %q is owned by %q, which isn't rendered", g.VDU, g.Owner)
		}
		vdus[g.VDU] = true
	}
	if len(vdus) < 2 || !vdus[h.VDU] {
		t.Errorf("the suite needs two VDUs, one of them %q; rendered groups %+v", h.VDU, a.Groups)
	}
}

func renderRefuses(t *testing.T, h Harness) {
	_, err := h.Connect(t).Render(h.Unrenderable(t, h.id(t, 1)))
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || refused.Subject() == "" || refused.Reason == "" {
		t.Errorf("Render = %v, want a RefusedError that names object and reason", err)
	}
}

func unknownObservesEmpty(t *testing.T, h Harness) {
	src := h.Source(t, h.id(t, 1), 1)
	src.Package = nil
	o := h.observe(t, h.Connect(t), drivers.Rendering{Source: src})
	if len(o.Objects)+len(o.Units) != 0 {
		t.Errorf("an instance that never was shows %+v", o)
	}
}

func instantiateConverges(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 2)
	want := render(t, d, src)
	o := h.observe(t, d, want)
	ids := map[string]bool{}
	for _, u := range o.Units {
		if u.ID == "" || u.Name == "" || u.Key == "" || u.Kind == "" || u.VDU == "" {
			t.Errorf("unit with a gap: %+v", u)
		}
		if !u.Ready || u.Deleting || u.Failure != "" {
			t.Errorf("unit isn't well after convergence: %+v", u)
		}
		if ids[u.ID] {
			t.Errorf("unit id %s is given twice", u.ID)
		}
		ids[u.ID] = true
	}
	for _, g := range want.Groups {
		if n := len(unitsOf(o, g.VDU)); !g.Free && n != g.Count {
			t.Errorf("VDU %s has %d units, want %d", g.VDU, n, g.Count)
		}
	}
	digests := map[string]string{}
	for _, x := range o.Objects {
		digests[x.Key] = x.Digest
		if x.Incarnation == "" || !x.Ready || x.Failure != "" {
			t.Errorf("object isn't well after convergence: %+v", x)
		}
	}
	for _, x := range want.Objects {
		if digests[x.Key] != x.Digest {
			t.Errorf("%s is observed with digest %q, rendered with %q", x.Key, digests[x.Key], x.Digest)
		}
	}
}

func doTwiceIsDoOnce(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.Source(t, h.id(t, 1), 2)
	h.cleanup(t, src)
	want := render(t, d, src)
	steps := doable(plan.Next(plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{})))
	if len(steps) == 0 {
		t.Fatal("nothing to do for a new instance")
	}
	h.do(t, d, src, steps...)
	h.do(t, d, src, steps...)
	o := h.converge(t, d, src, true)
	h.do(t, d, src, steps...)
	if again := h.converge(t, d, src, true); !slices.Equal(sortedIDs(o), sortedIDs(again)) {
		t.Errorf("doing the steps again replaced units: %v, then %v", sortedIDs(o), sortedIDs(again))
	}
}

func atRestNothingIsToDo(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 1)
	for range 20 {
		want := render(t, d, src)
		if steps := plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{}); len(steps) > 0 {
			t.Fatalf("a converged instance still has %+v", steps)
		}
	}
}

func scaleOutKeepsUnits(t *testing.T, h Harness) {
	d := h.Connect(t)
	id := h.id(t, 1)
	src := h.instantiate(t, d, id, 1)
	before := h.observe(t, d, render(t, d, src))
	src = h.Source(t, id, 3)
	after := h.converge(t, d, src, true)
	if n := len(unitsOf(after, h.VDU)); n != 3 {
		t.Errorf("%d units after scaling out to 3", n)
	}
	for _, u := range before.Units {
		if !slices.Contains(sortedIDs(after), u.ID) {
			t.Errorf("scaling out lost unit %s (%s)", u.ID, u.Name)
		}
	}
}

func scaleInRemovesUnits(t *testing.T, h Harness) {
	d := h.Connect(t)
	id := h.id(t, 1)
	src := h.instantiate(t, d, id, 3)
	before := h.observe(t, d, render(t, d, src))
	src = h.Source(t, id, 1)
	after := h.converge(t, d, src, true)
	if n := len(unitsOf(after, h.VDU)); n != 1 {
		t.Errorf("%d units after scaling in to 1", n)
	}
	for _, u := range after.Units {
		if !slices.Contains(sortedIDs(before), u.ID) {
			t.Errorf("scaling in made a new unit %s (%s)", u.ID, u.Name)
		}
	}
	if a, b := incarnations(before), incarnations(after); !cmp.Equal(a, b) {
		t.Errorf("scaling in changed objects: %v, then %v", a, b)
	}
}

func restartSeesTheSame(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 2)
	want := render(t, d, src)
	before := h.observe(t, d, want)
	after := h.observe(t, h.Connect(t), want)
	if diff := cmp.Diff(incarnations(before), incarnations(after)); diff != "" {
		t.Errorf("a new process sees other objects:\n%s", diff)
	}
	if a, b := sortedIDs(before), sortedIDs(after); !slices.Equal(a, b) {
		t.Errorf("a new process sees other units: %v, then %v", a, b)
	}
	if steps := plan.Compute(want.Desired, after, plan.Journal{}); len(steps) > 0 {
		t.Errorf("a new process finds something to do: %+v", steps)
	}
	unrendered := src
	unrendered.Package = nil
	blind := h.observe(t, h.Connect(t), drivers.Rendering{Source: unrendered})
	if diff := cmp.Diff(incarnations(before), incarnations(blind)); diff != "" {
		t.Errorf("without package and render a new process sees other objects:\n%s", diff)
	}
}

func deletedUnitIsReplaced(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 2)
	before := h.observe(t, d, render(t, d, src))
	victim := unitsOf(before, h.VDU)[0]
	h.do(t, d, src, plan.Step{Action: plan.DeleteUnit, Object: victim.Key, Incarnation: victim.ID, Owner: victim.Owner})
	h.until(t, func() error {
		o := h.observe(t, d, render(t, d, src))
		if slices.ContainsFunc(o.Units, func(u plan.Unit) bool { return u.ID == victim.ID }) {
			return fmt.Errorf("unit %s is still there", victim.ID)
		}
		return nil
	})
	after := h.converge(t, d, src, true)
	if n := len(unitsOf(after, h.VDU)); n != 2 {
		t.Errorf("%d units after one was deleted, want 2", n)
	}
	for _, u := range before.Units {
		if u.ID != victim.ID && !slices.Contains(sortedIDs(after), u.ID) {
			t.Errorf("deleting %s also lost %s", victim.Name, u.Name)
		}
	}
}

func deleteSparesSuccessor(t *testing.T, h Harness) {
	d := h.Connect(t)
	id := h.id(t, 1)
	src := h.instantiate(t, d, id, 1)
	old := h.observe(t, d, render(t, d, src))
	h.terminate(t, d, src)
	src = h.instantiate(t, d, id, 1)
	now := h.observe(t, d, render(t, d, src))
	var steps []plan.Step
	for _, x := range old.Objects {
		if x.Retention != plan.RetainAlways {
			steps = append(steps, plan.Step{Action: plan.Delete, Object: x.Key, Incarnation: x.Incarnation})
		}
	}
	for _, u := range old.Units {
		steps = append(steps, plan.Step{Action: plan.DeleteUnit, Object: u.Key, Incarnation: u.ID, Owner: u.Owner})
	}
	h.do(t, d, src, steps...)
	after := h.converge(t, d, src, true)
	if !cmp.Equal(incarnations(now), incarnations(after)) || !slices.Equal(sortedIDs(now), sortedIDs(after)) {
		t.Errorf("deletes of the old incarnations hit their successors: %v %v, then %v %v",
			incarnations(now), sortedIDs(now), incarnations(after), sortedIDs(after))
	}
}

func rivalIsRefused(t *testing.T, h Harness) {
	if h.Rival == nil {
		t.Skip("at this VIM the objects of two instances never have the same keys")
	}
	d := h.Connect(t)
	first, second := h.id(t, 1), h.id(t, 2)
	src := h.instantiate(t, d, first, 2)
	before := h.observe(t, d, render(t, d, src))

	rival := h.Rival(t, second)
	want := render(t, d, rival)
	if o := h.observe(t, d, want); len(o.Units) != 0 {
		t.Errorf("an instance that never ran claims units %+v", o.Units)
	}
	steps := doable(plan.Next(plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{})))
	if err := d.Verify(t.Context(), rendering(t, d, rival), steps...); !isRefused(err) {
		t.Errorf("Verify of objects that another instance owns = %v, want a RefusedError", err)
	}
	if err := d.Do(t.Context(), rendering(t, d, rival), steps...); !isRefused(err) {
		t.Errorf("Do on objects that another instance owns = %v, want a RefusedError", err)
	}
	after := h.converge(t, d, src, true)
	if !cmp.Equal(incarnations(before), incarnations(after)) || !slices.Equal(sortedIDs(before), sortedIDs(after)) {
		t.Error("a refused rival changed the instance that was there first")
	}
	h.terminate(t, d, rival)
	if o := h.converge(t, d, src, true); !slices.Equal(sortedIDs(before), sortedIDs(o)) {
		t.Error("terminating the refused rival took units of the instance that was there first")
	}
}

func instancesAreApart(t *testing.T, h Harness) {
	d := h.Connect(t)
	a := h.instantiate(t, d, h.id(t, 1), 2)
	b := h.instantiate(t, d, h.id(t, 2), 1)
	of := func(src drivers.Source) []string { return sortedIDs(h.observe(t, d, render(t, d, src))) }
	idsA, idsB := of(a), of(b)
	for _, id := range idsA {
		if slices.Contains(idsB, id) {
			t.Errorf("unit %s is claimed by two instances", id)
		}
	}
	h.terminate(t, d, b)
	if now := of(a); !slices.Equal(idsA, now) {
		t.Errorf("terminating one instance changed the other's units: %v, then %v", idsA, now)
	}
}

func verifyChangesNothing(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.Source(t, h.id(t, 1), 1)
	h.cleanup(t, src)
	want := render(t, d, src)
	steps := doable(plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{}))
	if err := d.Verify(t.Context(), rendering(t, d, src), steps...); err != nil {
		t.Fatalf("Verify of a good instance: %v", err)
	}
	if o := h.observe(t, h.Connect(t), want); len(o.Objects)+len(o.Units) != 0 {
		t.Errorf("Verify made %+v", o)
	}
}

func refusalIsTyped(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.Refused(t, h.id(t, 1))
	h.cleanup(t, src)
	want := render(t, d, src)
	steps := doable(plan.Next(plan.Compute(want.Desired, h.observe(t, d, want), plan.Journal{})))
	for name, call := range map[string]func() error{
		"Verify": func() error { return d.Verify(t.Context(), rendering(t, d, src), steps...) },
		"Do":     func() error { return d.Do(t.Context(), rendering(t, d, src), steps...) },
	} {
		err := call()
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || refused.Subject() == "" || refused.Reason == "" {
			t.Errorf("%s = %v, want a RefusedError that names object and reason", name, err)
		}
		if refused != nil && refused.MayPass {
			t.Errorf("%s = %v is the VIM's own refusal and can't pass", name, err)
		}
		if errors.Is(err, drivers.ErrUnavailable) {
			t.Errorf("%s = %v is both refused and unavailable", name, err)
		}
	}
}

func terminateLeavesNothing(t *testing.T, h Harness) {
	d := h.Connect(t)
	src := h.instantiate(t, d, h.id(t, 1), 2)
	// The process that terminates is another than the one that made the instance.
	d = h.Connect(t)
	h.terminate(t, d, src)
	o := h.observe(t, h.Connect(t), drivers.Rendering{Source: src})
	for _, x := range o.Objects {
		if x.Retention != plan.RetainAlways {
			t.Errorf("terminating left %s", x.Key)
		}
	}
	if len(o.Units) != 0 {
		t.Errorf("terminating left units %+v", o.Units)
	}
}

func awayIsAnError(t *testing.T, h Harness) {
	d := h.ConnectAway(t)
	src := h.Source(t, h.id(t, 1), 1)
	want := render(t, d, src)
	if o, err := d.Observe(t.Context(), want); !errors.Is(err, drivers.ErrUnavailable) {
		t.Errorf("Observe = %+v, %v; want ErrUnavailable", o, err)
	}
	steps := doable(plan.Compute(want.Desired, plan.Observed{}, plan.Journal{}))
	if err := d.Do(t.Context(), rendering(t, d, src), steps...); !errors.Is(err, drivers.ErrUnavailable) || isRefused(err) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
	if err := d.Verify(t.Context(), rendering(t, d, src), steps...); !errors.Is(err, drivers.ErrUnavailable) || isRefused(err) {
		t.Errorf("Verify = %v, want ErrUnavailable", err)
	}
}

func watchTells(t *testing.T, h Harness) {
	d := h.Connect(t)
	w, ok := d.(drivers.Watcher)
	if !ok {
		t.Skip("this driver doesn't watch")
	}
	var mu sync.Mutex
	seen := map[string]int{}
	count := func(id string) int { mu.Lock(); defer mu.Unlock(); return seen[id] }
	done := make(chan error, 1)
	ctx, cancel := withCancel(t)
	go func() {
		done <- w.Watch(ctx, func(id string) { mu.Lock(); seen[id]++; mu.Unlock() })
	}()
	id := h.id(t, 1)
	src := h.instantiate(t, d, id, 1)
	// Watch may have begun after the instance was made, so keep it moving.
	units := 1
	h.until(t, func() error {
		units = 3 - units
		src = h.Source(t, id, units)
		h.converge(t, d, src, true)
		if count(id) == 0 {
			return errors.New("no word of an instance that moves")
		}
		return nil
	})
	n := count(id)
	h.terminate(t, d, src)
	h.until(t, func() error {
		if count(id) == n {
			return errors.New("no word of an instance that went")
		}
		return nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Watch = %v after its context ended, want nil", err)
	}
}
