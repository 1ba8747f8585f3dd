package reconciler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
)

// stuck has an instance whose scale-out to level 3 waits for units that don't become ready.
func stuck(t *testing.T) (w *world, op *lcm.Operation, settled desired.Revision) {
	t.Helper()
	w = newWorld(t, nil)
	settled = w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	return w, w.waits(lcm.Scale), settled
}

// waits waits until an operation of the type has issued its steps and waits for the VIM.
func (w *world) waits(typ lcm.Type) *lcm.Operation {
	w.t.Helper()
	w.until("the steps are issued", func() bool { return len(w.last(typ, lcm.Processing).Journal.Issued) > 0 })
	return w.last(typ, lcm.Processing)
}

// operation is a record.
func (w *world) operation(op string) *lcm.Operation {
	w.t.Helper()
	x, err := w.log.Operation(w.t.Context(), op)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// superseded makes sure that the operation has failed for its successor, and says so.
func (w *world) superseded(old, by *lcm.Operation) {
	w.t.Helper()
	was := w.operation(old.ID)
	if was.State != lcm.Failed || was.SupersededBy != by.ID {
		w.t.Errorf("the operation before is %s, superseded by %q, want FAILED by %s", was.State, was.SupersededBy, by.ID)
	}
	if was.Error == nil || !strings.Contains(was.Error.Detail, "gives way to the newer commit ") {
		w.t.Errorf("it says %+v", was.Error)
	}
}

func TestANewerCommitTakesThePlaceOfAnOperationThatOnlyWaits(t *testing.T) {
	t.Parallel()

	w, old, settled := stuck(t)
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	w.until("another operation is under way", func() bool { return w.operation(old.ID).State == lcm.Failed })
	next := w.waits(lcm.Scale)
	w.superseded(old, next)
	if next.Before.Tree != settled.Tree || next.NoRollback != "" {
		t.Errorf("it begins at %s (no rollback: %q), want what was settled last, %s", next.Before, next.NoRollback, settled)
	}
	w.cloud.Hasten()
	w.last(lcm.Scale, lcm.Completed)
	if n := w.units("VDU1"); n != 2 {
		t.Errorf("%d units run, want the 2 of level 1", n)
	}
}

func TestACommitOfWhatWasBeforeRollsAnOperationThatWaitsBack(t *testing.T) {
	t.Parallel()

	w, old, _ := stuck(t)
	w.commit(file("instantiated", ""))
	w.until("it is being rolled back", func() bool {
		state := w.operation(old.ID).State
		return state == lcm.RollingBack || state == lcm.RolledBack
	})
	w.cloud.Hasten()
	if op := w.last(lcm.Scale, lcm.RolledBack); op.ID != old.ID || w.begun() != 2 {
		t.Errorf("%s was rolled back, and there were %d operations; want %s, and 2", op.ID, w.begun(), old.ID)
	}
}

func TestWhatAsksForNothingElseOrMayNotBeginLeavesAnOperationAlone(t *testing.T) {
	t.Parallel()

	const three = "levels: {web: 3}\n"
	for name, c := range map[string]struct {
		more   string
		before func(*world)
	}{
		"nothing that matters":   {more: three + "drift: report\n"},
		"a comment":              {more: three + "# the busy season\n"},
		"a suspension":           {more: "levels: {web: 1}\nsuspend: true\n"},
		"one that is to wait":    {more: "levels: {web: 1}\nsupersede: never\n"},
		"one that can't be":      {more: "levels: {web: 99}\n"},
		"one of another VNFD":    {more: "levels: {web: 1}\nflavour: none\n"},
		"one in a closed window": {more: "levels: {web: 1}\n", before: func(w *world) { w.rule(frozen(time.Hour)) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, old, _ := stuck(t)
			if c.before != nil {
				c.before(w)
			}
			text := file("instantiated", c.more)
			if strings.Contains(c.more, "flavour: ") {
				text = strings.Replace(text, "flavour: simple\n", "", 1)
			}
			w.commit(text)
			w.looks()
			if now := w.operation(old.ID); now.State != lcm.Processing || now.Attempt != 1 || w.begun() != 2 {
				t.Errorf("the operation is %s in attempt %d, and %d were begun", now.State, now.Attempt, w.begun())
			}
			w.cloud.Hasten()
			w.until("it is completed", func() bool {
				w.recon.Enqueue(id)
				return w.operation(old.ID).State == lcm.Completed || strings.Contains(c.more, "suspend")
			})
		})
	}
}

func TestOneThatIsToWaitFollowsInItsTurn(t *testing.T) {
	t.Parallel()

	w, old, _ := stuck(t)
	w.commit(file("instantiated", "levels: {web: 1}\nsupersede: never\n"))
	w.looks()
	w.cloud.Hasten()
	w.recon.Enqueue(id)
	w.until("both are completed", func() bool { return w.begun() == 3 && w.operation(old.ID).State == lcm.Completed })
	if op := w.last(lcm.Scale, lcm.Completed); op.Before.Tree != old.After.Tree {
		t.Errorf("it began at %s, want what was completed before, %s", op.Before, old.After)
	}
}

func TestAnInstantiationThatWaitsIsSupersededByOne(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	old := w.waits(lcm.Instantiate)
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.until("another is under way", func() bool { return w.operation(old.ID).State == lcm.Failed })
	next := w.waits(lcm.Instantiate)
	w.superseded(old, next)
	w.commit("")
	w.until("the VNF is being taken away", func() bool { return w.operation(next.ID).State == lcm.Failed })
	w.cloud.Hasten()
	w.until("it has gone", func() bool { w.recon.Enqueue(id); return len(w.cloud.Instances()) == 0 })
}

func TestATerminationThatWaitsIsSupersededByAnInstantiation(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.cloud.SetLatency(time.Hour)
	w.commit(file("notInstantiated", ""))
	old := w.waits(lcm.Terminate)
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	w.until("it is superseded", func() bool { return w.operation(old.ID).State == lcm.Failed })
	w.cloud.Hasten()
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.Completed)
	if n := w.units("VDU1"); n != 2 {
		t.Errorf("%d units run, want 2", n)
	}
}

func TestABlueGreenChangeThatWaitsIsSupersededAndNothingOfItStays(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, nil)
	w.cloud.SetLatency(time.Hour)
	w.commit(upgraded(blueGreen))
	old := w.waits(lcm.ChangePackage)
	w.commit(upgraded(blueGreen + "levels: {web: 1}\n"))
	w.until("another is under way", func() bool { return w.operation(old.ID).State == lcm.Failed })
	next := w.last(lcm.ChangePackage, lcm.Processing)
	w.superseded(old, next)
	if settled := w.operation(old.ID).Before; next.Before.Tree != settled.Tree {
		t.Errorf("it begins at %s, want %s", next.Before, settled)
	}
	w.cloud.Hasten()
	w.recon.Enqueue(id)
	w.last(lcm.ChangePackage, lcm.Completed)
	if got, want := w.generations(), []string{w.head().Generation}; !slices.Equal(got, want) || want[0] == "" {
		t.Errorf("units of generations %q run, want those of %q alone", got, want)
	}
	if got, want := s.told(), []string{"coordinate_new", "coordinate_old"}; !slices.Equal(got, want) {
		t.Errorf("hooks %q were run, want %q", got, want)
	}
	if n := w.units("VDU1"); n != 2 {
		t.Errorf("%d units run, want 2", n)
	}
}

func TestNothingIsSupersededOnceAHookHasPreparedTheVNF(t *testing.T) {
	t.Parallel()

	w, s := upgradable(t, nil)
	s.then(func(_ context.Context, c hooks.Call) error {
		if c.Input.Hook == "coordinate_new" {
			w.cloud.SetLatency(time.Hour) // what follows waits: the traffic to be switched
		}
		return nil
	})
	w.commit(upgraded(blueGreen))
	w.until("the new side is coordinated", func() bool { return slices.Contains(s.told(), "coordinate_new") })
	old := w.last(lcm.ChangePackage, lcm.Processing)
	w.until("that is recorded", func() bool { return len(w.operation(old.ID).Journal.Hooks) > 0 })
	w.commit(upgraded(blueGreen + "levels: {web: 1}\n"))
	w.looks()
	if now := w.operation(old.ID); now.State != lcm.Processing {
		t.Errorf("the operation is %s: %+v", now.State, now.Error)
	}
	w.cloud.Hasten()
	w.recon.Enqueue(id)
	w.until("the next one is completed too", func() bool {
		return w.operation(old.ID).State == lcm.Completed && w.begun() == 3
	})
	w.last(lcm.Scale, lcm.Completed)
}

func TestAnOperationThatGaveWayToACommitThatHasGoneIsCarriedOn(t *testing.T) {
	t.Parallel()

	w, old, _ := stuck(t)
	// As it stands where the newer commit was taken back before its operation was born.
	if _, err := w.log.Record(t.Context(), old.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.GaveWay = true
		return op.Advance(lcm.Broke, time.Now(), &lcm.ProblemDetails{Status: 409, Detail: "gives way"})
	}); err != nil {
		t.Fatal(err)
	}
	w.cloud.Hasten()
	w.recon.Enqueue(id)
	if op := w.last(lcm.Scale, lcm.Completed); op.ID != old.ID || op.Attempt != 2 {
		t.Errorf("%s was completed in attempt %d, want %s in its second", op.ID, op.Attempt, old.ID)
	}
}

func TestNoOperationGivesWayToOneThatHasToWaitForItsWindow(t *testing.T) {
	t.Parallel()

	w, _ := upgradable(t, nil)
	w.cloud.SetLatency(time.Hour)
	w.commit(upgraded("params: {router: true}\n"))
	old := w.waits(lcm.ChangePackage)
	w.rule(frozen(time.Hour) + "binds: [CHANGE_VNFPKG]\n")
	// Beside what is under way it only scales. Its successor would have to change the package as well.
	w.commit(upgraded("params: {router: true}\nlevels: {web: 1}\n"))
	w.looks()
	if now := w.operation(old.ID); now.State != lcm.Processing || now.Attempt != 1 {
		t.Errorf("the operation is %s in attempt %d", now.State, now.Attempt)
	}
	w.cloud.Hasten()
	w.recon.Enqueue(id)
	w.until("the change of package is completed", func() bool { return w.operation(old.ID).State == lcm.Completed })
	w.last(lcm.Scale, lcm.Completed)
}
