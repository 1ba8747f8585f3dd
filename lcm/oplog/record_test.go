package oplog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
)

func TestHowAnOperationEndsIsWrittenIntoItsInstance(t *testing.T) {
	for _, c := range []struct {
		name           string
		events         []lcm.Event
		state          lcm.State
		settled, units string
		outstanding    bool
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
			outstanding := ""
			if c.outstanding {
				outstanding = "op1"
			}
			if inst.Open != "" || inst.Last != "op1" || inst.LastState != c.state || inst.Settled.Tree != c.settled ||
				inst.OutstandingCommit != outstanding || len(inst.Units) != 1 || inst.Units[0].ID != c.units {
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

func TestARepairOfDriftLeavesNoOutstandingCommit(t *testing.T) {
	l, _ := newLog(t)
	born(t, l, newOp("op1", lcm.Heal, "t1", "t1"))
	advance(t, l, "op1", lcm.Refused)
	if inst := instance(t, l); inst.OutstandingCommit != "" {
		t.Errorf("%q has an outstanding commit though nothing was committed", inst.OutstandingCommit)
	}
}

func TestARecordThatSkipsStatesHasAnEventForEach(t *testing.T) {
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
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING", "op1 FAILED_TEMP")
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

// Racing writers of one operation lose no change, and each state is notified once.
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
	wantNotified(t, l, "created", "op1 STARTING", "op1 PROCESSING")
}

// A reader of an operation's end finds in the instance's record, which it reads next, that the
// instance is free: both are seen at one moment.
func TestAnEndIsSeenTogetherWithItsInstance(t *testing.T) {
	t.Parallel()

	l, _ := newLog(t)
	const rounds = 300
	reading := make(chan string)
	var g sync.WaitGroup
	g.Go(func() {
		for id := range reading {
			for ended := false; !ended; {
				op, err := l.Operation(t.Context(), id)
				if err != nil {
					t.Error(err)
					break
				}
				inst, err := l.Instance(t.Context(), op.Instance)
				if err != nil {
					t.Error(err)
					break
				}
				if ended = op.State.Ended(); ended && inst.Open == id {
					t.Errorf("%s is %s, and its instance is still held by it", id, op.State)
				}
			}
		}
	})

	for n := range rounds {
		id := fmt.Sprintf("op%d", n)
		born(t, l, newOp(id, lcm.Scale, fmt.Sprint("t", n), fmt.Sprint("t", n+1)))
		reading <- id
		advance(t, l, id, lcm.Granted, lcm.Converged)
	}
	close(reading)
	g.Wait()
}
