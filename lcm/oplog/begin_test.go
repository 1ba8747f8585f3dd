package oplog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

func TestARequestIsPreparedThenCommitted(t *testing.T) {
	l, puts := newLog(t)
	ctx := t.Context()
	must(t, l.Created(ctx, "amf", lcm.VNF{Name: "amf-1"}, rev("t0")))
	must(t, l.Created(ctx, "amf", lcm.VNF{Name: "other"}, rev("t9")))
	puts.puts = 0

	op := newOp("op1", lcm.Instantiate, "t0", "")
	must(t, l.Prepare(ctx, op))
	must(t, l.Prepare(ctx, op))
	if _, err := l.Operation(ctx, "op1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a prepared operation is visible: %v", err)
	}
	if ops, err := l.Operations(ctx, "", 0); err != nil || len(ops) != 0 {
		t.Errorf("a prepared operation is listed: %v, %v", ops, err)
	}
	if op, err := l.Prepared(ctx, "op1"); err != nil || op.State != lcm.Prepared {
		t.Errorf("prepared: %+v, %v", op, err)
	}
	if ops, err := l.Unresolved(ctx); err != nil || len(ops) != 1 || ops[0].ID != "op1" {
		t.Errorf("unresolved: %v, %v", ops, err)
	}
	if inst := instance(t, l); inst.Prepared != "op1" || inst.Open != "" || inst.Seq != 0 {
		t.Errorf("instance %+v", inst)
	}
	wantNotified(t, l, "created")

	got, err := l.Commit(ctx, "op1", rev("t1"))
	must(t, err)
	if puts.puts != 2 {
		t.Errorf("%d Puts from request to STARTING, want 2", puts.puts)
	}
	if got.State != lcm.Starting || got.After != rev("t1") || got.Attempt != 1 || got.Started.IsZero() || got.Journal.Operation != "INSTANTIATE" {
		t.Errorf("committed: %+v", got)
	}
	want := &lcm.Instance{ID: "amf", Seq: 1, Open: "op1", Last: "op1", Operated: rev("t1"), Settled: rev("t0"),
		VNF: lcm.VNF{Name: "amf-1", VnfdID: "vnfd"}}
	if diff := cmp.Diff(want, instance(t, l)); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
	again, err := l.Commit(ctx, "op1", rev("t1"))
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("a second Commit: %v\n%s", err, diff)
	}
	must(t, l.Prepare(ctx, op)) // a late repetition of the request's first step
	must(t, l.Abandon(ctx, "op1"))
	wantNotified(t, l, "created", "op1 STARTING")
	if ops, err := l.Unresolved(ctx); err != nil || len(ops) != 0 {
		t.Errorf("unresolved: %v, %v", ops, err)
	}
}

func TestAnAbandonedRequestLeavesNoTrace(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	must(t, l.Created(ctx, "amf", lcm.VNF{}, rev("t0")))
	before := instance(t, l)
	must(t, l.Prepare(ctx, newOp("op1", lcm.Scale, "t0", "")))
	must(t, l.Abandon(ctx, "op1"))
	must(t, l.Abandon(ctx, "op1"))
	if diff := cmp.Diff(before, instance(t, l)); diff != "" {
		t.Error(diff)
	}
	if _, err := l.Commit(ctx, "op1", rev("t1")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("commit of what was abandoned: %v", err)
	}
	wantNotified(t, l, "created")
}

func TestModifyInfoStartsInProcessing(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	must(t, l.Prepare(ctx, newOp("op1", lcm.ModifyInfo, "t0", "")))
	op, err := l.Commit(ctx, "op1", rev("t1"))
	must(t, err)
	if op.State != lcm.Processing || !op.Journal.Granted {
		t.Errorf("committed: %+v", op)
	}
	advance(t, l, "op1", lcm.Converged)
	wantNotified(t, l, "created", "op1 PROCESSING", "op1 COMPLETED")
}

func TestASecondOperationIsBusyAndNamesTheFirst(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	busy := func(what string, err error, op string, state lcm.State) {
		t.Helper()
		var b oplog.ErrBusy
		if !errors.As(err, &b) || b.Operation != op || b.Instance != "amf" || b.State != state {
			t.Errorf("%s: %v, want busy with %s in %s", what, err, op, state)
		}
		if !errors.Is(err, oplog.ErrBusy{}) || !strings.Contains(err.Error(), op) {
			t.Errorf("%s: %v isn't ErrBusy", what, err)
		}
	}
	second := newOp("op2", lcm.Scale, "t1", "t2")
	must(t, l.Prepare(ctx, newOp("op1", lcm.Instantiate, "t0", "")))
	busy("prepare while prepared", l.Prepare(ctx, second), "op1", lcm.Prepared)
	_, err := l.Born(ctx, second)
	busy("born while prepared", err, "op1", lcm.Prepared)
	busy("forget while prepared", l.Forget(ctx, "amf"), "op1", lcm.Prepared)
	_, err = l.Commit(ctx, "op1", rev("t1"))
	must(t, err)
	for _, e := range []lcm.Event{"", lcm.Granted, lcm.Broke} {
		if e != "" {
			advance(t, l, "op1", e)
		}
		op, err := l.Operation(ctx, "op1")
		must(t, err)
		busy("prepare", l.Prepare(ctx, second), "op1", op.State)
		busy("forget", l.Forget(ctx, "amf"), "op1", op.State)
		if op.State != lcm.FailedTemp {
			_, err = l.Born(ctx, second)
			busy("born", err, "op1", op.State)
		}
	}
	// Until what failed is restored in git, a request would be made on top of it.
	_, err = l.Fail(ctx, "op1")
	must(t, err)
	busy("prepare while a commit is outstanding", l.Prepare(ctx, second), "op1", lcm.Failed)
	must(t, l.Adopt(ctx, "amf", func(inst *lcm.Instance) error { inst.OutstandingCommit = ""; return nil }))
	must(t, l.Prepare(ctx, second))
}

func TestAnOperationBornTwiceIsBornOnce(t *testing.T) {
	l, puts := newLog(t)
	one := born(t, l, newOp("op1", lcm.Instantiate, "", "t1"))
	if puts.puts != 1 {
		t.Errorf("%d Puts, want 1", puts.puts)
	}
	advance(t, l, "op1", lcm.Granted, lcm.Converged)
	again := born(t, l, newOp("op1", lcm.Instantiate, "", "t1"))
	if again.State != lcm.Completed || !again.Started.Equal(one.Started) {
		t.Errorf("born again: %+v", again)
	}
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 COMPLETED")
	if inst := instance(t, l); inst.Open != "" || inst.LastState != lcm.Completed || inst.Seq != 1 {
		t.Errorf("instance %+v", inst)
	}
}

func TestANewerCommitSupersedesAFailedOperation(t *testing.T) {
	l, puts := newLog(t)
	born(t, l, newOp("op1", lcm.Instantiate, "", "t1"))
	advance(t, l, "op1", lcm.Granted, lcm.Broke)
	puts.puts = 0
	born(t, l, newOp("op2", lcm.Instantiate, "", "t2"))
	if puts.puts != 1 {
		t.Errorf("%d Puts, want 1", puts.puts)
	}
	op, err := l.Operation(t.Context(), "op1")
	must(t, err)
	if op.State != lcm.Failed || op.SupersededBy != "op2" || op.Error == nil {
		t.Errorf("superseded: %+v", op)
	}
	if inst := instance(t, l); inst.Open != "op2" || inst.OutstandingCommit != "" || inst.Operated != rev("t2") {
		t.Errorf("instance %+v", inst)
	}
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 FAILED_TEMP", "op1 FAILED", "op2 STARTING")
}

func TestTheNextOperationTakesOverWhatAFailedOneTookDown(t *testing.T) {
	for _, how := range []string{"superseded", "failed"} {
		t.Run(how, func(t *testing.T) {
			l, _ := newLog(t)
			born(t, l, newOp("op1", lcm.Heal, "t1", "t2"))
			advance(t, l, "op1", lcm.Granted, lcm.Broke)
			_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
				op.Journal.Kept = map[string]string{"Service/amf/web": "10.0.0.7"}
				return nil
			})
			must(t, err)
			if how == "failed" {
				_, err := l.Fail(t.Context(), "op1")
				must(t, err)
			}
			next := born(t, l, newOp("op2", lcm.Heal, "t2", "t3"))
			if got := next.Journal.Kept["Service/amf/web"]; got != "10.0.0.7" {
				t.Errorf("the next operation keeps %q", got)
			}
			advance(t, l, "op2", lcm.Granted, lcm.Converged)
			if later := born(t, l, newOp("op3", lcm.Scale, "t3", "t4")); len(later.Journal.Kept) > 0 {
				t.Errorf("what was made anew is still kept: %v", later.Journal.Kept)
			}
		})
	}
}

func TestARequestSupersedesOnlyAnAutomaticFailure(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	heal := newOp("op1", lcm.Heal, "t1", "t1")
	heal.Automatic = true
	born(t, l, heal)
	advance(t, l, "op1", lcm.Granted, lcm.Broke)
	must(t, l.Prepare(ctx, newOp("op2", lcm.Scale, "t1", "")))
	// The one that is about to be superseded must not start again under its feet.
	if _, err := l.Retry(ctx, "op1"); !errors.Is(err, oplog.ErrBusy{}) {
		t.Errorf("retry of an operation about to be superseded: %v", err)
	}
	_, err := l.Commit(ctx, "op2", rev("t2"))
	must(t, err)
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 FAILED_TEMP", "op1 FAILED", "op2 STARTING")
}

// Of many requests on one instance, one gets it.
func TestOfRacingRequestsOneWins(t *testing.T) {
	l, _ := newLog(t)
	var g sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 20 {
		g.Go(func() {
			err := l.Prepare(t.Context(), newOp(fmt.Sprint("op", i), lcm.Scale, "t0", ""))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.Is(err, oplog.ErrBusy{}) {
				t.Error(err)
			}
		})
	}
	g.Wait()
	ops, err := l.Unresolved(t.Context())
	if won != 1 || len(ops) != 1 || err != nil {
		t.Errorf("%d won, %d prepared, %v", won, len(ops), err)
	}
}

func TestAnIdIsNotTakenTwice(t *testing.T) {
	l, _ := newLog(t)
	must(t, l.Prepare(t.Context(), newOp("op1", lcm.Instantiate, "", "")))
	other := newOp("op1", lcm.Instantiate, "", "")
	other.Instance = "smf"
	if err := l.Prepare(t.Context(), other); err == nil || !strings.Contains(err.Error(), "amf") {
		t.Errorf("prepared under a taken id: %v", err)
	}
	if inst, err := l.Instance(t.Context(), "smf"); err != nil || inst.Prepared != "" {
		t.Errorf("instance %+v, %v", inst, err)
	}
}
