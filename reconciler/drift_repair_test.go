package reconciler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// running starts a world in which the instance runs.
func running(t *testing.T, extra string, conf func(*reconciler.Config)) *world {
	t.Helper()
	w := newWorld(t, conf)
	w.commit(file("instantiated", extra))
	w.last(lcm.Instantiate, lcm.Completed)
	return w
}

func soon(c *reconciler.Config) { c.RepairPause = 20 * time.Millisecond }

// operations are those of a type, oldest first.
func (w *world) operations(typ lcm.Type) []*lcm.Operation {
	w.t.Helper()
	ops, err := w.log.Operations(w.t.Context(), "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	ops = slices.DeleteFunc(ops, func(op *lcm.Operation) bool { return op.Type != typ })
	slices.SortFunc(ops, func(a, b *lcm.Operation) int { return a.Started.Compare(b.Started) })
	return ops
}

// drift is the instance's, once it is in this state.
func (w *world) drift(state reconciler.DriftState) (d reconciler.Drift) {
	w.t.Helper()
	w.until(fmt.Sprintf("the drift is %s", state), func() bool {
		list := w.recon.View().Drift()
		if len(list) != 1 || list[0].State != state {
			return false
		}
		d = list[0]
		return true
	})
	return d
}

func (w *world) unit(vdu string) plan.Unit {
	w.t.Helper()
	units, _ := w.live()
	i := slices.IndexFunc(units, func(u plan.Unit) bool { return u.VDU == vdu })
	if i < 0 {
		w.t.Fatalf("no unit of %s among %v", vdu, units)
	}
	return units[i]
}

func TestADriftIsRepairedByAnAutomaticHeal(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	w.cloud.Drift(web)
	op := w.last(lcm.Heal, lcm.Completed)
	if !op.Automatic || op.Before != op.After {
		t.Errorf("automatic %v, from %v to %v", op.Automatic, op.Before, op.After)
	}
	var params struct{ Cause string }
	if err := json.Unmarshal(op.Params, &params); err != nil || !strings.Contains(params.Cause, web) {
		t.Errorf("the cause is %q (%v), and doesn't name %s", params.Cause, err, web)
	}
	w.until("nothing has drifted", func() bool { return len(w.recon.View().Drift()) == 0 })
	if n := len(w.operations(lcm.Heal)); n != 1 {
		t.Errorf("%d repairs, want one", n)
	}
}

func TestADriftIsOnlyShownWhereThatIsWanted(t *testing.T) {
	t.Parallel()

	w := running(t, "drift: report\n", nil)
	w.cloud.Drift(web)
	if d := w.drift(reconciler.DriftReported); d.Instance != id || d.Since.IsZero() || len(d.Deviations) == 0 || d.Deviations[0].Object != web {
		t.Errorf("got %+v", d)
	}
	if got := w.recon.View().Drifted(id); !slices.Equal(got, []string{web}) {
		t.Errorf("drifted are %v", got)
	}
	if n := len(w.operations(lcm.Heal)); n != 0 {
		t.Errorf("%d repairs", n)
	}
	w.commit(file("instantiated", "drift: correct\n"))
	w.last(lcm.Heal, lcm.Completed)
}

func TestASuspendedInstanceIsLeftAloneAndShowsItsDrift(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	w.commit(file("instantiated", "suspend: true\nlevels: {web: 3}\n"))
	w.cloud.Drift(web)
	w.drift(reconciler.DriftSuspended)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units, want 1", n)
	}
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	w.last(lcm.Scale, lcm.Completed)
	w.until("nothing has drifted", func() bool { return len(w.recon.View().Drift()) == 0 })
}

func TestSuspendStopsAnOperationUnderWayAndItsClock(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = 10 * time.Minute })
	w.cloud.SetLatency(time.Hour) // it doesn't end before anybody has looked
	var held atomic.Bool
	w.cloud.BeforeStep(func(string, plan.Step) error {
		if held.Load() {
			return errors.New("no step may be started now")
		}
		return nil
	})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Processing)
	w.commit(file("instantiated", "suspend: true\n"))
	held.Store(true)
	w.wait(time.Hour) // longer than the operation may take
	op := w.last(lcm.Instantiate, lcm.Processing)
	if op.Error != nil {
		t.Errorf("the operation failed while it was suspended: %+v", op.Error)
	}
	held.Store(false)
	w.cloud.Hasten()
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
}

func TestAHeldInstanceShowsItsDriftAndIsLeftAlone(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	if _, err := w.log.Fail(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Failed)
	w.drift(reconciler.DriftHeld) // three units run, and git says one
	if n := len(w.operations(lcm.Heal)); n != 0 {
		t.Errorf("%d repairs", n)
	}
}

func TestAContendedRepairIsOneOperationThatNamesTheObjectAndGivesWayToRequests(t *testing.T) {
	t.Parallel()

	w := running(t, "", soon)
	contending := atomic.Bool{}
	contending.Store(true)
	go func() {
		for contending.Load() {
			w.cloud.Drift(web)
			kit.Pause(t.Context(), time.Millisecond)
		}
	}()
	var contended *lcm.Operation
	w.until("the repair is contended", func() bool {
		for _, op := range w.operations(lcm.Heal) {
			if op.Contended && op.State == lcm.FailedTemp && op.Attempt > 2 {
				contended = op
			}
		}
		return contended != nil
	})
	if !strings.Contains(contended.Error.Detail, web) || !strings.Contains(contended.Error.Detail, "drift: report") {
		t.Errorf("the error is %q", contended.Error.Detail)
	}
	if n := len(w.operations(lcm.Heal)); n > 8 {
		t.Errorf("%d operations for one contended repair", n)
	}
	w.commit(file("instantiated", "levels: {db: 1}\n"))
	w.until("the request is carried out", func() bool { return w.units("VDU2") == 4 })
	contending.Store(false)
	w.until("everything is at rest", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Open == "" && inst.LastState == lcm.Completed && len(w.recon.View().Drift()) == 0
	})
}

// TestWhatIsUndoneEveryQuarterMinuteIsContended has an autoscaler's period in mind. The records show it, so
// that a restart in between changes nothing.
func TestWhatIsUndoneEveryQuarterMinuteIsContended(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	last := func() *lcm.Operation {
		ops := w.operations(lcm.Heal)
		if len(ops) == 0 {
			return nil
		}
		return ops[len(ops)-1]
	}
	for i := range 6 {
		if i == 3 {
			w.stop()
			w.start()
		}
		w.elapsed.Add(int64(15 * time.Second))
		w.cloud.Drift(web)
		w.until("it is repaired", func() bool {
			ops := w.operations(lcm.Heal) // read once: the next one may begin between two looks
			return len(ops) == i+1 && (ops[i].State == lcm.Completed || ops[i].State == lcm.FailedTemp)
		})
	}
	op := last()
	if !op.Contended || op.State != lcm.FailedTemp || op.Period < 15*time.Second || !strings.Contains(op.Error.Detail, web) {
		t.Errorf("contended %v in %s, with period %v: %+v", op.Contended, op.State, op.Period, op.Error)
	}

	w.cloud.Drift(web)
	w.drift(reconciler.DriftContended)
	if n := len(w.operations(lcm.Heal)); n != 6 {
		t.Errorf("%d operations", n)
	}
}

// TestWhatIsDeletedAgainAndAgainIsSoonMade loses an object every five minutes. What lacks it isn't left so for twice that
// time, as an edited object is.
func TestWhatIsDeletedAgainAndAgainIsSoonMade(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	for i := range 6 {
		w.elapsed.Add(int64(5 * time.Minute))
		w.cloud.Lose(web)
		w.until("it is repaired", func() bool {
			ops := w.operations(lcm.Heal)
			return len(ops) == i+1 && (ops[i].State == lcm.Completed || ops[i].State == lcm.FailedTemp)
		})
	}
	last := func() *lcm.Operation { return w.operations(lcm.Heal)[5] }
	if op := last(); !op.Contended || !strings.Contains(op.Error.Detail, web) {
		t.Fatalf("contended %v: %+v", op.Contended, op.Error)
	}

	w.cloud.Lose(web)
	w.drift(reconciler.DriftContended)
	w.elapsed.Add(int64(31 * time.Second))
	w.recon.Enqueue(id)
	w.until("it is made again", func() bool { return last().Attempt == 2 && last().State == lcm.FailedTemp })

	w.elapsed.Add(int64(11 * time.Minute))
	w.recon.Enqueue(id)
	w.until("it has stood for a whole pause", func() bool { return last().State == lcm.Completed })
	if n := len(w.operations(lcm.Heal)); n != 6 {
		t.Errorf("%d operations", n)
	}
}

func TestARepairThatFailsIsTriedAgainByItself(t *testing.T) {
	t.Parallel()

	w := running(t, "", soon)
	w.cloud.Refuse(web, "quota exceeded")
	w.cloud.Drift(web)
	op := w.last(lcm.Heal, lcm.FailedTemp)
	w.drift(reconciler.DriftFailing)
	w.until("tried again", func() bool {
		now, err := w.log.Operation(t.Context(), op.ID)
		return err == nil && now.Attempt > 2
	})
	w.cloud.Refuse(web, "")
	if done := w.last(lcm.Heal, lcm.Completed); done.ID != op.ID {
		t.Errorf("operation %s completed, not %s", done.ID, op.ID)
	}
}

func TestARepairThatFailsIsSupersededByACommit(t *testing.T) {
	t.Parallel()

	w := running(t, "", func(c *reconciler.Config) { c.RepairPause = time.Hour })
	// A VIM that refused it, and takes it from here on, would have it go on by itself before the commit is there.
	w.cloud.BeforeStep(func(_ string, s plan.Step) error {
		return &drivers.RefusedError{Object: s.Object, Reason: "quota exceeded"}
	})
	w.cloud.Drift(web)
	op := w.last(lcm.Heal, lcm.FailedTemp)
	w.cloud.BeforeStep(nil)
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	done := w.last(lcm.Scale, lcm.Completed)
	if old, err := w.log.Operation(t.Context(), op.ID); err != nil || old.State != lcm.Failed || old.SupersededBy != done.ID {
		t.Errorf("the repair is %+v (%v)", old, err)
	}
}

func TestARepairThatOnlyWaitsGivesWayToACommit(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	w.cloud.SetLatency(time.Hour)
	w.cloud.Lose(web)
	repair := w.last(lcm.Heal, lcm.Processing)
	w.until("it is made again", func() bool { return w.units("VDU1") == 1 })
	rev := w.commit(file("instantiated", "# a remark\n")) // of which nothing comes
	w.until("adopted", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Operated.Tree == rev.Tree && inst.Open == repair.ID
	})
	if op := w.last(lcm.Heal, lcm.Processing); op.Attempt > 3 {
		t.Errorf("the repair was begun %d times", op.Attempt)
	}
	w.commit(file("instantiated", "levels: {db: 1}\n"))
	scaled := w.last(lcm.Scale, lcm.Processing)
	if op, err := w.log.Operation(t.Context(), repair.ID); err != nil || op.State != lcm.Failed || op.SupersededBy != scaled.ID {
		t.Errorf("the repair is %+v (%v)", op, err)
	}
}

func TestTheTimeForWhichTheVIMIsAwayDoesNotCount(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = 10 * time.Minute })
	w.cloud.SetLatency(time.Hour) // it doesn't end before anybody has looked
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Processing)
	w.cloud.SetAway(errors.New("no route to host"))
	w.wait(time.Hour) // longer than the operation may take
	op := w.last(lcm.Instantiate, lcm.Processing)
	if op.Error != nil {
		t.Errorf("failed while the VIM was away: %+v", op.Error)
	}
	if now, waits := op.Waiting(); !waits || now.For != "VIM lab, which can't be seen" {
		t.Errorf("it waits (%t) for %q", waits, now.For)
	}
	w.cloud.Hasten()
	w.cloud.SetAway(nil)
	done := w.last(lcm.Instantiate, lcm.Completed)
	told := 0
	for _, line := range done.Story {
		if strings.Contains(line.Text, "can't be seen") || line.Text == "the VIM can be seen again" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("an outage and its end are told in %d lines: %v", told, done.Story)
	}
}

func TestADriftThatHappenedWhileTheVIMWasAwayIsRepaired(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	w.cloud.SetAway(errors.New("no route to host"))
	w.cloud.Drift(web)
	w.recon.Enqueue(id)
	w.until("not fresh", func() bool { return w.units("VDU1") == -1 })
	w.cloud.SetAway(nil)
	w.last(lcm.Heal, lcm.Completed)
}

func TestAVIMIsKnownToBeAwayFromALookThatFailsUntilOneThatDoesNot(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	away := func() string { return w.recon.View().Away("lab") }
	if why := away(); why != "" {
		t.Errorf("a VIM at which an instance runs is away: %s", why)
	}
	w.cloud.SetAway(errors.New("no route to host"))
	w.recon.Enqueue(id)
	w.until("it is known to be away", func() bool { return strings.Contains(away(), "no route to host") })
	if why := w.recon.View().Away("other"); why != "" {
		t.Errorf("another VIM is away, too: %s", why)
	}
	w.cloud.SetAway(nil)
	w.recon.Enqueue(id)
	w.until("it is known to be back", func() bool { return away() == "" })
}

func TestATombstoneInGitHealsOnce(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	old := w.unit("VDU1")
	stone := fmt.Sprintf("condemned: {%q: %s}\n", old.Key, old.ID)
	w.commit(file("instantiated", stone))
	op := w.last(lcm.Heal, lcm.Completed)
	if op.Automatic {
		t.Error("a heal that a person pushed is called automatic")
	}
	successor := w.unit("VDU1")
	if successor.ID == old.ID {
		t.Fatalf("%s still runs", old.ID)
	}
	w.commit(file("instantiated", "")) // taken back
	w.commit(file("instantiated", stone))
	w.last(lcm.Heal, lcm.Completed)
	w.stop()
	w.start()
	w.until("looked at", func() bool { return w.units("VDU1") == 1 })
	if now := w.unit("VDU1"); now.ID != successor.ID {
		t.Errorf("%s was healed, though it was never condemned", successor.ID)
	}
}

func TestAHealWhoseTargetTheVIMReplacedNamesTheSuccessor(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	old := w.unit("VDU1")
	w.cloud.SetAway(errors.New("no route to host"))
	w.recon.Enqueue(id)
	op := lcm.Operation{ID: "11111111-0000-4000-8000-000000000001", Instance: id, Type: lcm.Heal, UnitsBefore: []plan.Unit{old}}
	op.Journal.Targets = []plan.Target{plan.TargetOf(old.Key, old.ID)}
	inst, err := w.log.Instance(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	op.Before = inst.Operated
	if err := w.log.Prepare(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	rev := w.commit(file("instantiated", fmt.Sprintf("condemned: {%q: %s}\n", old.Key, old.ID)))
	if _, err := w.log.Commit(t.Context(), op.ID, rev); err != nil {
		t.Fatal(err)
	}
	w.cloud.Kill(old.ID) // before anything was issued against it
	w.cloud.SetAway(nil)
	failed := w.last(lcm.Heal, lcm.FailedTemp)
	successor := w.unit("VDU1")
	if !strings.Contains(failed.Error.Detail, successor.ID) || !strings.Contains(failed.Error.Detail, old.ID) {
		t.Errorf("the error %q names neither %s nor %s", failed.Error.Detail, old.ID, successor.ID)
	}
	if _, err := w.log.Fail(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Heal, lcm.Failed)
	w.commit(file("instantiated", fmt.Sprintf("condemned: {%q: %s}\n", successor.Key, successor.ID)))
	w.last(lcm.Heal, lcm.Completed)
	if w.unit("VDU1").ID == successor.ID {
		t.Error("the successor still runs")
	}
}

func TestARefusalThatPassesIsTriedAgainAndOneThatStandsIsBelieved(t *testing.T) {
	t.Parallel()

	w := running(t, "", func(c *reconciler.Config) { c.FailureGrace = time.Second })
	calls := 0
	w.cloud.BeforeStep(func(_ string, s plan.Step) error {
		if calls++; calls%2 == 1 {
			return &drivers.RefusedError{Object: s.Object, Reason: "admission webhook denied the request", MayPass: true}
		}
		return nil
	})
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	w.last(lcm.Scale, lcm.Completed)
	w.cloud.BeforeStep(func(_ string, s plan.Step) error {
		return &drivers.RefusedError{Object: s.Object, Reason: "admission webhook denied the request", MayPass: true}
	})
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	if op := w.last(lcm.Scale, lcm.FailedTemp); !strings.Contains(op.Error.Detail, "webhook denied") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
}

func TestACommitOfJibeTakesSpentTombstonesOut(t *testing.T) {
	t.Parallel()

	w := running(t, "", nil)
	old, other := w.unit("VDU1"), w.unit("VDU2")
	w.commit(file("instantiated", fmt.Sprintf("condemned: {%q: %s}\n", old.Key, old.ID)))
	w.last(lcm.Heal, lcm.Completed)
	// The VIM is missing, so that Jibe writes it; one tombstone is spent, one is new.
	text := file("instantiated", fmt.Sprintf("condemned: {%q: %s, %q: %s} # mine\n", old.Key, old.ID, other.Key, other.ID))
	w.commit(strings.Replace(text, "vim: lab\n", "", 1))
	w.until("the other is healed", func() bool {
		units, fresh := w.live()
		return fresh && !slices.ContainsFunc(units, func(u plan.Unit) bool { return u.ID == other.ID })
	})
	w.last(lcm.Heal, lcm.Completed)
	if got := w.head().Condemned; len(got) != 1 || got[other.Key] != other.ID {
		t.Errorf("condemned is %v, want the one of %s alone", got, other.Key)
	}
}

func TestARepairThatTheVIMRefusedGoesOnAtOnceWhenItIsTaken(t *testing.T) {
	t.Parallel()

	w := running(t, "", func(c *reconciler.Config) { c.RepairPause = time.Hour })
	w.cloud.Refuse(web, "namespaces \"vnf\" not found")
	asked := w.cloud.Calls().Verifies
	w.cloud.Drift(web)
	failed := w.last(lcm.Heal, lcm.FailedTemp)
	w.until("the VIM was asked whether it still refuses", func() bool { return w.cloud.Calls().Verifies > asked })
	for range 5 {
		w.recon.Enqueue(id) // something moves, and nothing is better
	}
	w.until("it was asked again", func() bool { return w.cloud.Calls().Verifies > asked+1 })
	if op := w.last(lcm.Heal, lcm.FailedTemp); op.Attempt != failed.Attempt {
		t.Errorf("it was tried again, as attempt %d, while it was refused", op.Attempt)
	}
	w.cloud.Refuse(web, "")
	w.recon.Enqueue(id) // as the VIM's watch does
	if op := w.last(lcm.Heal, lcm.Completed); op.ID != failed.ID {
		t.Errorf("operation %s mended it, not %s that had failed", op.ID, failed.ID)
	}
}

func TestARepairThatFailsThoughTheVIMWouldTakeItWaitsOutItsPause(t *testing.T) {
	t.Parallel()

	w := running(t, "", func(c *reconciler.Config) { c.RepairPause = time.Hour })
	w.cloud.BeforeStep(func(_ string, s plan.Step) error { return &drivers.RefusedError{Object: s.Object, Reason: "no"} })
	asked := w.cloud.Calls().Verifies
	w.cloud.Drift(web)
	failed := w.last(lcm.Heal, lcm.FailedTemp)
	w.until("it was looked at again and again", func() bool {
		w.recon.Enqueue(id)
		return w.cloud.Calls().Verifies > asked+2
	})
	if op := w.last(lcm.Heal, lcm.FailedTemp); op.ID != failed.ID || op.Attempt != failed.Attempt {
		t.Errorf("it was tried again, as attempt %d of %s, before its pause was over", op.Attempt, op.ID)
	}
}
