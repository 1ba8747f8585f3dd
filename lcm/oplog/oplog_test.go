package oplog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func rev(tree string) desired.Revision {
	return desired.Revision{Instance: "amf", Dir: "instances/amf", Commit: "c" + tree, Tree: tree}
}

func newOp(id string, t lcm.Type, before, after string) lcm.Operation {
	return lcm.Operation{ID: id, Instance: "amf", Type: t, Before: rev(before), After: rev(after),
		VNF: lcm.VNF{Name: "amf-1", VnfdID: "vnfd"}}
}

// counting counts Puts, to show what an operation costs, and can fail them.
type counting struct {
	store.Store
	mu   sync.Mutex
	puts int
	fail func(recs []store.Record) error
}

func (c *counting) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	c.mu.Lock()
	c.puts++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		if err := fail(recs); err != nil {
			return nil, err
		}
	}
	return c.Store.Put(ctx, recs...)
}

func newLog(t *testing.T) (*oplog.Log, *counting) {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "jibe.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &counting{Store: s}
	var mu sync.Mutex
	now := epoch
	return oplog.New(c, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}), c
}

// told lists the outbox as "created", "op1 STARTING", ….
func told(t *testing.T, l *oplog.Log) []string {
	t.Helper()
	events, err := l.Events(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var last uint64
	for _, e := range events {
		if e.Seq <= last || e.Instance != "amf" || e.Time.IsZero() {
			t.Errorf("event %+v after %d", e, last)
		}
		last = e.Seq
		if e.Type == oplog.OperationEvent {
			out = append(out, e.Operation.ID+" "+string(e.Operation.State))
		} else {
			out = append(out, string(e.Type))
		}
	}
	return out
}

func wantTold(t *testing.T, l *oplog.Log, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, told(t, l)); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}

func instance(t *testing.T, l *oplog.Log) *lcm.Instance {
	t.Helper()
	inst, err := l.Instance(t.Context(), "amf")
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func advance(t *testing.T, l *oplog.Log, id string, events ...lcm.Event) *lcm.Operation {
	t.Helper()
	op, err := l.Record(t.Context(), id, func(op *lcm.Operation, _ *lcm.Instance) error {
		for _, e := range events {
			if err := op.Advance(e, epoch, &lcm.Problem{Status: 500, Detail: "because " + string(e)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("record %v: %v", events, err)
	}
	return op
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func born(t *testing.T, l *oplog.Log, op lcm.Operation) *lcm.Operation {
	t.Helper()
	o, err := l.Born(t.Context(), op)
	must(t, err)
	return o
}

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
	wantTold(t, l, "created")

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
	wantTold(t, l, "created", "op1 STARTING")
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
	wantTold(t, l, "created")
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
	wantTold(t, l, "created", "op1 PROCESSING", "op1 COMPLETED")
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
	busy("prepare while owed", l.Prepare(ctx, second), "op1", lcm.Failed)
	must(t, l.Adopt(ctx, "amf", func(inst *lcm.Instance) error { inst.Owed = ""; return nil }))
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
	wantTold(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 COMPLETED")
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
	if inst := instance(t, l); inst.Open != "op2" || inst.Owed != "" || inst.Operated != rev("t2") {
		t.Errorf("instance %+v", inst)
	}
	wantTold(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 FAILED_TEMP", "op1 FAILED", "op2 STARTING")
}

func TestWhatAFailedOperationTookDownIsLeftToTheNextOne(t *testing.T) {
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
	wantTold(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 FAILED_TEMP", "op1 FAILED", "op2 STARTING")
}

func TestHowAnOperationEndsIsWrittenIntoItsInstance(t *testing.T) {
	for _, c := range []struct {
		name           string
		events         []lcm.Event
		state          lcm.State
		settled, units string
		owed           bool
	}{
		{"completed", []lcm.Event{lcm.Granted, lcm.Converged}, lcm.Completed, "t1", "new", false},
		{"refused", []lcm.Event{lcm.Refused}, lcm.RolledBack, "t-settled", "old", true},
		{"rolled back", []lcm.Event{lcm.Granted, lcm.Broke, lcm.RollbackAsked, lcm.Converged}, lcm.RolledBack, "t0", "new", true},
		{"failed", []lcm.Event{lcm.Granted, lcm.Broke, lcm.FailAsked}, lcm.Failed, "t-settled", "new", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := newLog(t)
			ctx := t.Context()
			must(t, l.Created(ctx, "amf", lcm.VNF{}, rev("t-settled")))
			must(t, l.Adopt(ctx, "amf", func(inst *lcm.Instance) error {
				inst.Units = []plan.Unit{{ID: "old"}}
				return nil
			}))
			op := newOp("op1", lcm.ChangePackage, "t0", "t1")
			if got := born(t, l, op); len(got.UnitsBefore) != 1 || got.UnitsBefore[0].ID != "old" {
				t.Errorf("units before: %+v", got.UnitsBefore)
			}
			if c.units == "new" {
				_, err := l.Record(ctx, "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
					op.UnitsAfter = []plan.Unit{{ID: "new"}}
					return nil
				})
				must(t, err)
			}
			for _, e := range c.events {
				advance(t, l, "op1", e)
			}
			inst := instance(t, l)
			owed := ""
			if c.owed {
				owed = "op1"
			}
			if inst.Open != "" || inst.Last != "op1" || inst.LastState != c.state || inst.Settled.Tree != c.settled ||
				inst.Owed != owed || len(inst.Units) != 1 || inst.Units[0].ID != c.units {
				t.Errorf("instance %+v", inst)
			}
		})
	}
}

func TestTerminateLeavesNoUnits(t *testing.T) {
	l, _ := newLog(t)
	must(t, l.Created(t.Context(), "amf", lcm.VNF{}, rev("t0")))
	must(t, l.Adopt(t.Context(), "amf", func(inst *lcm.Instance) error {
		inst.Units, inst.Resources = []plan.Unit{{ID: "u"}}, []plan.Resource{{ID: "r"}}
		return nil
	}))
	op := born(t, l, newOp("op1", lcm.Terminate, "t0", ""))
	if len(op.UnitsBefore) != 1 || len(op.ResourcesBefore) != 1 {
		t.Errorf("it began with %+v, %+v", op.UnitsBefore, op.ResourcesBefore)
	}
	advance(t, l, "op1", lcm.Granted)
	if inst := instance(t, l); len(inst.Units) != 1 || len(inst.Resources) != 1 {
		t.Errorf("units while terminating: %+v, %+v", inst.Units, inst.Resources)
	}
	advance(t, l, "op1", lcm.Converged)
	if inst := instance(t, l); len(inst.Units) != 0 || len(inst.Resources) != 0 {
		t.Errorf("units left: %+v, %+v", inst.Units, inst.Resources)
	}
}

func TestARepairedDriftOwesNothing(t *testing.T) {
	l, _ := newLog(t)
	born(t, l, newOp("op1", lcm.Heal, "t1", "t1"))
	advance(t, l, "op1", lcm.Refused)
	if inst := instance(t, l); inst.Owed != "" {
		t.Errorf("owed %q though nothing was committed", inst.Owed)
	}
}

func TestARecordThatSkipsStatesTellsOfEach(t *testing.T) {
	l, puts := newLog(t)
	var mu sync.Mutex
	var seen []string
	l.OnChange(func(op *lcm.Operation) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(op.ID, " ", op.State, " ", op.Error != nil))
	})
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	puts.puts = 0
	advance(t, l, "op1", lcm.Granted, lcm.Broke)
	if puts.puts != 1 {
		t.Errorf("%d Puts, want 1", puts.puts)
	}
	wantTold(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 FAILED_TEMP")
	if diff := cmp.Diff([]string{"op1 STARTING false", "op1 PROCESSING false", "op1 FAILED_TEMP true"}, seen); diff != "" {
		t.Errorf("OnChange (-want +got):\n%s", diff)
	}
}

func TestARecordThatChangesNothingWritesNothing(t *testing.T) {
	l, puts := newLog(t)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	puts.puts = 0
	advance(t, l, "op1")
	must(t, l.Adopt(t.Context(), "amf", func(*lcm.Instance) error { return nil }))
	must(t, l.Forget(t.Context(), "unknown"))
	if puts.puts != 0 {
		t.Errorf("%d Puts", puts.puts)
	}
}

func TestARefusedChangeWritesNothing(t *testing.T) {
	l, _ := newLog(t)
	was := born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	mine := errors.New("mine")
	_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, inst *lcm.Instance) error {
		op.State, inst.Open = lcm.Completed, ""
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("Record: %v", err)
	}
	is, err := l.Operation(t.Context(), "op1")
	if diff := cmp.Diff(was, is); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestRetryRollbackFailAndCancelSayWhatIsPossible(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	heal := newOp("op1", lcm.Heal, "t0", "t1")
	heal.Journal.Touched = true
	born(t, l, heal)
	for name, ask := range map[string]func() (*lcm.Operation, error){
		"retry":    func() (*lcm.Operation, error) { return l.Retry(ctx, "op1") },
		"rollback": func() (*lcm.Operation, error) { return l.Rollback(ctx, "op1") },
		"fail":     func() (*lcm.Operation, error) { return l.Fail(ctx, "op1") },
	} {
		if _, err := ask(); !errors.Is(err, lcm.ErrState) || !strings.Contains(err.Error(), "possible is cancel") {
			t.Errorf("%s in STARTING: %v", name, err)
		}
	}
	advance(t, l, "op1", lcm.Granted)
	op, err := l.Cancel(ctx, "op1", lcm.Graceful)
	must(t, err)
	if op.State != lcm.Processing || op.CancelMode != lcm.Graceful {
		t.Errorf("cancelled: %+v", op)
	}
	if _, err := l.Cancel(ctx, "op1", "NOW"); err == nil || errors.Is(err, lcm.ErrState) {
		t.Errorf("a wrong mode: %v", err)
	}
	advance(t, l, "op1", lcm.Broke)
	if _, err := l.Rollback(ctx, "op1"); !errors.Is(err, lcm.ErrState) || !strings.Contains(err.Error(), "HEAL") {
		t.Errorf("rollback of a heal: %v", err)
	}
	if op, err = l.Retry(ctx, "op1"); err != nil || op.State != lcm.Processing || op.Attempt != 2 || op.Error == nil {
		t.Errorf("retry: %+v, %v", op, err)
	}
	advance(t, l, "op1", lcm.Broke)
	if op, err = l.Fail(ctx, "op1"); err != nil || op.State != lcm.Failed {
		t.Errorf("fail: %+v, %v", op, err)
	}
	if _, err := l.Cancel(ctx, "op1", lcm.Forceful); !errors.Is(err, lcm.ErrState) || !strings.Contains(err.Error(), "ended") {
		t.Errorf("cancel after the end: %v", err)
	}
	if _, err := l.Retry(ctx, "unknown"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("retry of an unknown operation: %v", err)
	}
}

func TestForgettingAnInstanceTellsOfItsProductAndKeepsItsOperations(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	born(t, l, newOp("op1", lcm.Terminate, "t0", ""))
	advance(t, l, "op1", lcm.Granted, lcm.Converged)
	must(t, l.Forget(ctx, "amf"))
	must(t, l.Forget(ctx, "amf"))
	events, err := l.Events(ctx, 0, 0)
	must(t, err)
	last := events[len(events)-1]
	if last.Type != oplog.DeletedEvent || last.VNF.Name != "amf-1" || last.VNF.VnfdID != "vnfd" {
		t.Errorf("deletion event %+v", last)
	}
	if inst := instance(t, l); !cmp.Equal(inst, &lcm.Instance{ID: "amf"}) {
		t.Errorf("instance %+v", inst)
	}
	if ops, err := l.Operations(ctx, "", 0); err != nil || len(ops) != 1 {
		t.Errorf("operations %v, %v", ops, err)
	}
}

func TestEventsCarryNoJournalOfSteps(t *testing.T) {
	l, _ := newLog(t)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal.Issued = []plan.StepKey{"apply:Deployment/amf/vdu1"}
		return op.Advance(lcm.Granted, epoch, nil)
	})
	must(t, err)
	events, err := l.Events(t.Context(), 0, 0)
	must(t, err)
	text, err := json.Marshal(events)
	must(t, err)
	if strings.Contains(string(text), "apply:") {
		t.Errorf("the journal is told: %s", text)
	}
	if op, err := l.Operation(t.Context(), "op1"); err != nil || len(op.Journal.Issued) != 1 {
		t.Errorf("the record lost its journal: %+v, %v", op, err)
	}
}

func TestListsArePagedById(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	var want []string
	for i := range 7 {
		op := newOp(fmt.Sprint("op", i), lcm.Instantiate, "", "t")
		op.Instance = fmt.Sprint("inst", i)
		born(t, l, op)
		want = append(want, op.ID, op.Instance)
	}
	var got []string
	for after := ""; ; {
		ops, err := l.Operations(ctx, after, 3)
		must(t, err)
		if len(ops) == 0 {
			break
		}
		for _, op := range ops {
			got = append(got, op.ID)
			after = op.ID
		}
	}
	for after := ""; ; {
		insts, err := l.Instances(ctx, after, 2)
		must(t, err)
		if len(insts) == 0 {
			break
		}
		for _, inst := range insts {
			got = append(got, inst.ID)
			after = inst.ID
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestIdsThatCannotBeAreRefusedOrNotFound(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	for _, id := range []string{"", "a/b", "\x00", strings.Repeat("x", 300)} {
		if _, err := l.Operation(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("operation %q: %v", id, err)
		}
		op := newOp("op", lcm.Scale, "", "t")
		op.ID = id
		if _, err := l.Born(ctx, op); err == nil {
			t.Errorf("born as %q", id)
		}
		op.ID, op.Instance = "op", id
		if err := l.Prepare(ctx, op); err == nil {
			t.Errorf("prepared on %q", id)
		}
	}
}

// Racing writers of one operation lose no change, and each state is told once.
func TestRacingRecordsLoseNothing(t *testing.T) {
	l, _ := newLog(t)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	var g sync.WaitGroup
	for i := range 40 {
		g.Go(func() {
			_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, inst *lcm.Instance) error {
				op.Journal.Issued = append(op.Journal.Issued, plan.StepKey(fmt.Sprint(i)))
				inst.Units = append(inst.Units, plan.Unit{ID: fmt.Sprint(i)})
				if op.State == lcm.Starting {
					return op.Advance(lcm.Granted, epoch, nil)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	op, err := l.Operation(t.Context(), "op1")
	must(t, err)
	if inst := instance(t, l); len(op.Journal.Issued) != 40 || len(inst.Units) != 40 {
		t.Errorf("%d and %d of 40 changes", len(op.Journal.Issued), len(inst.Units))
	}
	wantTold(t, l, "created", "op1 STARTING", "op1 PROCESSING")
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

// A store that fails leaves everything as it was, and says so.
func TestAFullDiskChangesNothing(t *testing.T) {
	l, s := newLog(t)
	was := born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	full := errors.New("no space left on device")
	s.fail = func([]store.Record) error { return full }
	wake, stop := l.Signal()
	defer stop()
	told := 0
	l.OnChange(func(*lcm.Operation) { told++ })
	if _, err := l.Retry(t.Context(), "op1"); !errors.Is(err, lcm.ErrState) {
		t.Errorf("retry: %v", err)
	}
	if _, err := l.Cancel(t.Context(), "op1", lcm.Forceful); !errors.Is(err, full) {
		t.Errorf("cancel: %v", err)
	}
	is, err := l.Operation(t.Context(), "op1")
	if diff := cmp.Diff(was, is); diff != "" || err != nil || told != 0 {
		t.Error(diff, err, told)
	}
	select {
	case <-wake:
		t.Error("subscribers were woken for nothing")
	default:
	}
}

func TestASignalFollowsEveryEvent(t *testing.T) {
	l, _ := newLog(t)
	wake, stop := l.Signal()
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	<-wake
	advance(t, l, "op1", lcm.Granted)
	advance(t, l, "op1", lcm.Converged) // folds with the one before
	<-wake
	stop()
	must(t, l.Forget(t.Context(), "amf"))
	select {
	case <-wake:
		t.Error("a signal after stop")
	default:
	}
}

func TestDroppedEventsAreGoneAndTheRestStays(t *testing.T) {
	l, _ := newLog(t)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	advance(t, l, "op1", lcm.Granted, lcm.Converged)
	events, err := l.Events(t.Context(), 0, 0)
	must(t, err)
	must(t, l.Drop(t.Context(), events[0].Seq, events[1].Seq))
	must(t, l.Drop(t.Context(), events[0].Seq))
	must(t, l.Drop(t.Context()))
	wantTold(t, l, "op1 PROCESSING", "op1 COMPLETED")
	rest, err := l.Events(t.Context(), events[2].Seq, 1)
	if err != nil || len(rest) != 1 || rest[0].Seq != events[3].Seq {
		t.Errorf("events after %d: %+v, %v", events[2].Seq, rest, err)
	}
}

func TestTheEndIsTheNewestEvent(t *testing.T) {
	l, s := newLog(t)
	end := func(l *oplog.Log) uint64 {
		t.Helper()
		n, err := l.End(t.Context())
		must(t, err)
		return n
	}
	if n := end(l); n != 0 {
		t.Errorf("the end of nothing is %d", n)
	}
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	events, err := l.Events(t.Context(), 0, 0)
	must(t, err)
	newest := events[len(events)-1].Seq
	if n := end(l); n != newest {
		t.Errorf("end %d, want %d", n, newest)
	}
	// A log that was opened later finds it too.
	if n := end(oplog.New(s, time.Now)); n != newest {
		t.Errorf("end after a restart %d, want %d", n, newest)
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
