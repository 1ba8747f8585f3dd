package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestCommitsInstantiateScaleAndTerminate(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	rev := w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.Completed)
	if op.ID != lcm.OperationID(rev.Commit, id) {
		t.Errorf("operation %s isn't that of commit %s", op.ID, rev.Commit)
	}
	if n, db := w.units("VDU1"), w.units("VDU2"); n != 1 || db != 2 {
		t.Errorf("got %d and %d units, want 1 and 2", n, db)
	}
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	op = w.last(lcm.Scale, lcm.Completed)
	if op.VIM != "lab" {
		t.Errorf("the operation was at the VIM %q", op.VIM)
	}
	if n := w.units("VDU1"); n != 4 {
		t.Errorf("got %d units, want 4", n)
	}
	if n := len(lcm.Difference(op.UnitsBefore, op.UnitsAfter, op.ResourcesBefore, op.ResourcesAfter)); n != 3 {
		t.Errorf("the operation tells of %d changed units, want 3", n)
	}
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	w.until("scaled in", func() bool { return w.units("VDU1") == 2 })
	w.last(lcm.Scale, lcm.Completed)
	w.commit("")
	w.until("forgotten", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Last == "" && inst.Seq == 0
	})
	if n, db := w.units("VDU1"), w.units("VDU2"); n > 0 || db > 0 {
		t.Errorf("%d and %d units are left", n, db)
	}
}

func TestACommentCausesNoOperation(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	rev := w.commit(file("instantiated", "# a remark\n"))
	w.until("adopted", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Operated.Tree == rev.Tree && inst.Settled.Tree == rev.Tree
	})
	ops, err := w.log.Operations(t.Context(), "", 0)
	if err != nil || len(ops) != 1 {
		t.Errorf("got %d operations (%v), want the instantiation alone", len(ops), err)
	}
}

func TestAnUnpinnedInstanceIsPinnedBeforeItRuns(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(strings.Replace(file("instantiated", "# mine\n"), "package: "+pkgTree+"\n", "", 1))
	op := w.last(lcm.Instantiate, lcm.Completed)
	if got := w.head().Package; got != pkgTree {
		t.Errorf("package is %q", got)
	}
	rev, _ := w.repo.Lookup(id)
	if op.After.Tree != rev.Tree {
		t.Error("the operation ran on a revision without a pin")
	}
	if op.RequestedBy != "Ann <ann@example.com>" {
		t.Errorf("requested by %q, not by who pushed", op.RequestedBy)
	}
}

func TestAFailureHoldsTheInstanceAndRollbackRestoresIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	before := w.failToScale("image can't be pulled")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	if op.Error == nil || !strings.Contains(op.Error.Detail, "image can't be pulled") {
		t.Errorf("the error is %+v", op.Error)
	}
	w.cloud.Fail(web, "")
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units after the rollback, want 1", n)
	}
	if rev, _ := w.repo.Lookup(id); rev.Tree != before.Tree {
		t.Error("git doesn't say what it said before")
	}
}

func TestFailTakesTheCommitBackAndMarksTheInstance(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	if _, err := w.log.Fail(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Failed)
	if in := w.head(); in.Held != op.ID || in.Levels["web"] != 0 {
		t.Errorf("held %q, levels %v", in.Held, in.Levels)
	}
}

func TestFailTakesTheCommitBackFromBeneathAChangeThatNoOperationCarriesOut(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	asked := w.head()
	w.commit(file("instantiated", fmt.Sprintf("levels: {web: %d}\ndrift: report\n", asked.Levels["web"])))
	if _, err := w.log.Fail(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Failed)
	w.until("the outcome is in git", func() bool { return w.head().Held == op.ID })
	if in := w.head(); in.Levels["web"] != 0 || in.Drift != desired.DriftReport {
		t.Errorf("levels %v, drift %q", in.Levels, in.Drift)
	}
}

func TestRetrySucceedsOnceTheCauseIsGone(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.cloud.Fail(web, "no memory")
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.Completed)
}

func TestAPushOnAFailedOperationSupersedesIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no memory")
	failed := w.last(lcm.Scale, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	w.commit(file("instantiated", "levels: {web: 3}\n"))
	w.until("superseded", func() bool {
		op, err := w.log.Operation(t.Context(), failed.ID)
		return err == nil && op.State == lcm.Failed
	})
	w.last(lcm.Scale, lcm.Completed)
	if n := w.units("VDU1"); n != 4 {
		t.Errorf("%d units, want 4", n)
	}
}

func TestPushingTheOldContentRollsAFailedOperationBack(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no memory")
	w.last(lcm.Scale, lcm.FailedTemp)
	w.cloud.Fail(web, "")
	w.commit(file("instantiated", ""))
	w.last(lcm.Scale, lcm.RolledBack)
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units after the rollback, want 1", n)
	}
}

func TestARefusalInStartingEndsRolledBackWithNothingDone(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.cloud.Refuse(web, "no room for it")
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.RolledBack)
	if op.Error == nil || op.Error.Status != 422 {
		t.Errorf("the error is %+v", op.Error)
	}
	w.until("the commit that takes it back", func() bool { return w.head().State == desired.NotInstantiated })
	if n := w.units("VDU1"); n > 0 {
		t.Errorf("%d units run", n)
	}
}

func TestARefusalForAnInstanceThatHasEndedByNowIsBelievedOnlyWhereItStands(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.FailureGrace = time.Minute })
	calls := 0
	w.cloud.BeforeStep(func(_ string, s plan.Step) error {
		if calls++; calls == 1 { // the VIM was asked a moment before the other gave it up
			return &drivers.RefusedError{Object: s.Object, Owner: "another", Reason: "exists already and belongs to VNF instance another"}
		}
		return nil
	})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)

	w = newWorld(t, nil)
	w.cloud.BeforeStep(func(_ string, s plan.Step) error {
		return &drivers.RefusedError{Object: s.Object, Owner: "another", Reason: "exists already and belongs to VNF instance another"}
	})
	w.commit(file("instantiated", ""))
	if op := w.last(lcm.Instantiate, lcm.FailedTemp); !strings.Contains(op.Error.Detail, "belongs to VNF instance another") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
}

func TestAnOperationThatNeverGetsReadyFailsAtItsDeadlineSayingWhatItWaitedFor(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = 50 * time.Millisecond })
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.FailedTemp)
	if !strings.Contains(op.Error.Detail, "web") || !strings.Contains(op.Error.Detail, "not done within") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
}

func TestARestartGoesOnWithWhatWasUnderWay(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.cloud.SetLatency(time.Hour) // it is under way however late anybody looks
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Processing)
	w.stop()
	w.start()
	w.cloud.Hasten()
	w.last(lcm.Instantiate, lcm.Completed)
	ops, err := w.log.Operations(t.Context(), "", 0)
	if err != nil || len(ops) != 1 {
		t.Errorf("got %d operations (%v), want 1", len(ops), err)
	}
}

func TestACancelledOperationStopsInFailedTemp(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	op := w.last(lcm.Instantiate, lcm.Processing)
	if _, err := w.log.Cancel(t.Context(), op.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	op = w.last(lcm.Instantiate, lcm.FailedTemp)
	if !strings.Contains(op.Error.Detail, "cancel") {
		t.Errorf("the error is %q", op.Error.Detail)
	}
}

func TestARollbackThatFailsWaitsForAPerson(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.failToScale("no memory")
	op := w.last(lcm.Scale, lcm.FailedTemp)
	w.commit(file("instantiated", ""))
	w.until("the rollback has failed", func() bool {
		now, err := w.log.Operation(t.Context(), op.ID)
		return err == nil && now.State == lcm.FailedTemp && now.Journal.Rollback
	})
	w.cloud.Fail(web, "")
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
}

func TestRenamingAnInstanceThatDoesNotRunNeedsNoVIM(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("notInstantiated", "vim: elsewhere\n"))
	w.until("adopted", func() bool {
		inst, err := w.log.Instance(t.Context(), id)
		return err == nil && inst.Operated.Tree != ""
	})
	w.commit(strings.Replace(file("notInstantiated", "vim: elsewhere\n"), "name: amf", "name: amf-2", 1))
	w.last(lcm.ModifyInfo, lcm.Completed)
}
