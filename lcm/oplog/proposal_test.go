package oplog_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// proposed is a log with an operation whose change is proposed at t1, while t0 is what was operated on.
func proposed(t *testing.T, typ lcm.Type) *oplog.Log {
	t.Helper()
	l, _ := newLog(t)
	must(t, l.Created(t.Context(), "amf", lcm.VNF{Name: "amf-1"}, rev("t0")))
	op := newOp("op1", typ, "t0", "")
	op.Proposal = &lcm.Proposal{}
	must(t, l.Prepare(t.Context(), op))
	_, err := l.Commit(t.Context(), "op1", rev("t1"))
	must(t, err)
	return l
}

func park(t *testing.T, l *oplog.Log) {
	t.Helper()
	_, err := l.Park(t.Context(), "op1", func(*lcm.Operation) {})
	must(t, err)
}

func nothing(*lcm.Operation) error { return nil }

func TestWhatIsProposedCountsWhenItIsMerged(t *testing.T) {
	l := proposed(t, lcm.Scale)
	if inst := instance(t, l); inst.Open != "op1" || inst.Operated != rev("t0") {
		t.Errorf("before its grant: %+v", inst)
	}
	park(t, l)
	park(t, l)
	inst := instance(t, l)
	if inst.Open != "" || inst.Proposed != "op1" || inst.Operated != rev("t0") || inst.OutstandingCommit != "" {
		t.Errorf("parked: %+v", inst)
	}
	if e, ok := l.InstanceEntry("amf"); !ok || e.Proposed != "op1" || e.Withdraws {
		t.Errorf("its entry: %+v", e)
	}
	for range 2 {
		op, err := l.Merged(t.Context(), "op1", rev("t2"), nothing)
		if err != nil || op.State != lcm.Starting || op.After != rev("t2") || op.Before != rev("t0") || op.Proposal.Merged != "ct2" || op.Proposed() {
			t.Fatalf("merged: %+v, %v", op, err)
		}
	}
	if inst = instance(t, l); inst.Open != "op1" || inst.Proposed != "" || inst.Operated != rev("t2") || !slices.Equal(inst.Withdraw, []string{"op1"}) {
		t.Errorf("merged: %+v", inst)
	}
	advance(t, l, "op1", lcm.Granted, lcm.Converged)
	must(t, l.Withdrawn(t.Context(), "amf", "op1"))
	if inst = instance(t, l); inst.Settled != rev("t2") || inst.Open != "" || len(inst.Withdraw) != 0 {
		t.Errorf("completed: %+v", inst)
	}
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 COMPLETED")
}

func TestWhatIsProposedKeepsRequestsAndCommitsOutAndLetsRepairsIn(t *testing.T) {
	l := proposed(t, lcm.Scale)
	park(t, l)
	if err := l.Prepare(t.Context(), newOp("op2", lcm.Heal, "t0", "")); !errors.Is(err, oplog.ErrBusy{}) {
		t.Errorf("a request: %v", err)
	}
	if _, err := l.Born(t.Context(), newOp("op3", lcm.Scale, "t0", "t3")); !errors.Is(err, oplog.ErrBusy{}) {
		t.Errorf("a commit: %v", err)
	}
	if err := l.Forget(t.Context(), "amf"); !errors.Is(err, oplog.ErrBusy{}) {
		t.Errorf("forgotten: %v", err)
	}
	repair := newOp("repair", lcm.Heal, "t0", "t0")
	repair.Automatic = true
	born(t, l, repair)
	if _, err := l.Merged(t.Context(), "op1", rev("t1"), nothing); !errors.Is(err, oplog.ErrBusy{}) {
		t.Errorf("merged while a repair is under way: %v", err)
	}
	advance(t, l, "repair", lcm.Granted, lcm.Broke)
	if _, err := l.Merged(t.Context(), "op1", rev("t1"), nothing); err != nil {
		t.Errorf("merged while a repair rests: %v", err)
	}
	if old, err := l.Operation(t.Context(), "repair"); err != nil || old.State != lcm.Failed || old.SupersededBy != "op1" {
		t.Errorf("the repair: %+v, %v", old, err)
	}
}

func TestWhatIsProposedAndEndsLeavesTheDirectoryAlone(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *oplog.Log){
		"before its grant": func(*testing.T, *oplog.Log) {},
		"parked":           park,
		"beside a repair": func(t *testing.T, l *oplog.Log) {
			t.Helper()
			park(t, l)
			repair := newOp("repair", lcm.Heal, "t0", "t0")
			repair.Automatic = true
			born(t, l, repair)
		},
	} {
		l := proposed(t, lcm.Scale)
		before(t, l)
		open := instance(t, l).Open
		op, err := l.Cancel(t.Context(), "op1", lcm.Forceful)
		if err != nil || op.State != lcm.RolledBack {
			t.Fatalf("%s: cancelled: %+v, %v", name, op, err)
		}
		inst := instance(t, l)
		if inst.Proposed != "" || inst.OutstandingCommit != "" || inst.Operated != rev("t0") || inst.Settled != rev("t0") || !slices.Equal(inst.Withdraw, []string{"op1"}) {
			t.Errorf("%s: %+v", name, inst)
		}
		if open == "repair" && (inst.Open != "repair" || inst.LastState != "") || open != "repair" && (inst.Open != "" || inst.LastState != lcm.RolledBack) {
			t.Errorf("%s: what is open: %+v", name, inst)
		}
	}
}

func TestAModificationThatIsProposedWaitsInSTARTING(t *testing.T) {
	l := proposed(t, lcm.ModifyInfo)
	park(t, l)
	op, err := l.Merged(t.Context(), "op1", rev("t1"), func(op *lcm.Operation) error { return op.Advance(lcm.Granted, epoch, nil) })
	if err != nil || op.State != lcm.Processing || !op.Journal.Granted {
		t.Errorf("merged: %+v, %v", op, err)
	}
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING")
}
