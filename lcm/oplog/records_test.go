package oplog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
)

// reads counts the records that are read one by one.
type reads struct {
	store.Store
	n atomic.Int64
}

func (r *reads) Get(ctx context.Context, key string) (store.Record, error) {
	r.n.Add(1)
	return r.Store.Get(ctx, key)
}

func TestAnOperationOnItsWayIsNotReadFromTheStoreAgain(t *testing.T) {
	_, c := newLog(t)
	s := &reads{Store: c}
	l := open(t, s, time.Now)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	s.n.Store(0)
	for _, e := range []lcm.Event{lcm.Granted, lcm.Broke, lcm.RetryAsked, lcm.Converged} {
		if _, err := l.Operation(t.Context(), instance(t, l).Open); err != nil {
			t.Fatal(err)
		}
		advance(t, l, "op1", e)
	}
	if n := s.n.Load(); n != 0 {
		t.Errorf("%d records were read", n)
	}
}

// busy is an operation with all that a caller could alter.
func busy(id string) lcm.Operation {
	op := newOp(id, lcm.Scale, "t0", "t1")
	op.UnitsBefore = []plan.Unit{{ID: "u1", Name: "pod"}}
	op.ResourcesBefore = []plan.Resource{{ID: "r1"}}
	op.Journal = plan.Journal{Hooks: []string{"a"}, Begun: []string{"a"}, Issued: []plan.StepKey{"x"}, Posted: []string{"p"}, Targets: []plan.Target{"y"}, Leaving: []string{"z"}, Kept: map[string]string{"k": "v"}}
	for range 300 {
		op.AddToStory(epoch, "line")
	}
	op.Error = &lcm.ProblemDetails{Detail: "why"}
	return op
}

func TestWhatACallerDoesToARecordStaysWithTheCaller(t *testing.T) {
	l, s := newLog(t)
	ctx := t.Context()
	born(t, l, busy("op1"))
	_, err := l.Record(ctx, "op1", func(op *lcm.Operation, _ *lcm.Instance) error { op.UnitsAfter = op.UnitsBefore; return nil })
	must(t, err)
	wantOp, err := open(t, s, time.Now).Operation(ctx, "op1")
	must(t, err)
	wantInst := instance(t, open(t, s, time.Now))
	spoil := func(op *lcm.Operation, inst *lcm.Instance) {
		op.AddToStory(epoch, "spoilt")
		op.UnitsBefore[0].Name, op.UnitsAfter[0].Name, op.ResourcesBefore[0].ID = "spoilt", "spoilt", "spoilt"
		j := &op.Journal
		j.Hooks[0], j.Begun[0], j.Issued[0], j.Targets[0], j.Leaving[0], j.Kept["k"] = "spoilt", "spoilt", "spoilt", "spoilt", "spoilt", "spoilt"
		op.Error.Detail, op.State = "spoilt", lcm.Failed
		inst.Open, inst.Units[0].Name = "spoilt", "spoilt"
	}
	for range 2 {
		op, err := l.Operation(ctx, "op1")
		must(t, err)
		inst := instance(t, l)
		if diff := gocmp.Diff(wantOp, op) + gocmp.Diff(wantInst, inst); diff != "" {
			t.Fatalf("(-as the store has it +as it is read):\n%s", diff)
		}
		spoil(op, inst)
		refused := fmt.Errorf("no")
		if _, err := l.Record(ctx, "op1", func(op *lcm.Operation, inst *lcm.Instance) error { spoil(op, inst); return refused }); !errors.Is(err, refused) {
			t.Fatal(err)
		}
	}
}

func TestARecordIsReadAsItWasWrittenAndNotAsItWasHeld(t *testing.T) {
	l, s := newLog(t)
	op := newOp("op1", lcm.Scale, "t0", "t1")
	op.UnitsBefore = []plan.Unit{} // isn't encoded, nor are these
	op.Journal.Known = []plan.Unit{{ID: "u"}}
	born(t, l, op)
	_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
		op.UnitsAfter = []plan.Unit{{ID: "u", Outdated: "yes"}}
		op.AttemptStarted = time.Now()
		return nil
	})
	must(t, err)
	for what, read := range map[string]func(l *oplog.Log) any{
		"operation": func(l *oplog.Log) any { op, err := l.Operation(t.Context(), "op1"); must(t, err); return op },
		"instance":  func(l *oplog.Log) any { return instance(t, l) },
	} {
		if diff := gocmp.Diff(read(open(t, s, time.Now)), read(l)); diff != "" {
			t.Errorf("%s (-after a start +before):\n%s", what, diff)
		}
	}
}

func TestARecordThatIsTooLargeToBeKeptIsReadFromTheStore(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	for _, text := range []string{strings.Repeat("x", 2<<20), "short"} {
		_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error { op.HandOver = text; return nil })
		must(t, err)
		if op, err := l.Operation(t.Context(), "op1"); err != nil || op.HandOver != text {
			t.Errorf("%d bytes were read, want %d: %v", len(op.HandOver), len(text), err)
		}
	}
}

func TestWhileNobodyIsNotifiedNothingIsAddedToTheOutbox(t *testing.T) {
	l, _ := newLog(t)
	l.SetSubscribed(false)
	wake, stop := l.Signal()
	defer stop()
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	advance(t, l, "op1", lcm.Granted)
	wantNotified(t, l)
	select {
	case <-wake:
		t.Error("a signal without an event")
	default:
	}
	l.SetSubscribed(true)
	advance(t, l, "op1", lcm.Converged)
	wantNotified(t, l, "op1 COMPLETED")
}

// slow holds Puts up until it is told to let them go on.
type slow struct {
	store.Store
	under, over chan struct{}
	done        atomic.Bool
}

func (s *slow) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if s.under != nil {
		close(s.under)
		<-s.over
		defer s.done.Store(true)
	}
	return s.Store.Put(ctx, recs...)
}

func TestWhoIsNotifiedFromNowOnMissesNoChangeThatIsStillBeingWritten(t *testing.T) {
	_, c := newLog(t)
	s := &slow{Store: c}
	l := open(t, s, time.Now)
	l.SetSubscribed(false)
	s.under, s.over = make(chan struct{}), make(chan struct{})
	wrote := make(chan error)
	go func() {
		_, err := l.Born(t.Context(), newOp("op1", lcm.Scale, "t0", "t1"))
		wrote <- err
	}()
	<-s.under
	subscribed := make(chan bool)
	go func() {
		l.SetSubscribed(true)
		subscribed <- s.done.Load() // a write without an event would come after the subscription
	}()
	close(s.over)
	if !<-subscribed {
		t.Error("subscribed while a change without an event was not yet durable")
	}
	must(t, <-wrote)
}

// late answers a Put some time after it has become durable.
type late struct {
	store.Store
	durable, over chan struct{}
}

func (s *late) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	out, err := s.Store.Put(ctx, recs...)
	if s.durable != nil {
		close(s.durable)
		<-s.over
	}
	return out, err
}

func TestRecordsListsAndEntriesShowAChangeAtOnce(t *testing.T) {
	other := newOp("other", lcm.Scale, "t0", "t1")
	other.Instance = "smf"
	for name, change := range map[string]func(l *oplog.Log) error{
		"a birth": func(l *oplog.Log) error {
			_, err := l.Born(t.Context(), newOp("op2", lcm.Scale, "t1", "t2"))
			return err
		},
		"the first of an instance": func(l *oplog.Log) error { _, err := l.Born(t.Context(), other); return err },
		"an end": func(l *oplog.Log) error {
			_, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error { return op.Advance(lcm.FailAsked, epoch, nil) })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := newLog(t)
			s := &late{Store: c}
			l := open(t, s, time.Now)
			born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
			advance(t, l, "op1", lcm.Granted, lcm.Broke)
			was := records(t, l)
			s.durable, s.over = make(chan struct{}), make(chan struct{})
			done := make(chan error)
			go func() { done <- change(l) }()
			<-s.durable
			if diff := gocmp.Diff(was, records(t, l)) + gocmp.Diff(was, entries(t, l)); diff != "" {
				t.Errorf("before the change has its answer (-want +got):\n%s", diff)
			}
			for _, id := range []string{"op2", "other"} {
				if _, err := l.Operation(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("operation %s: %v", id, err)
				}
			}
			if first, err := l.Operations(t.Context(), "", 1); err != nil || len(first) != 1 {
				t.Errorf("the first page: %v, %v", first, err)
			}
			close(s.over)
			must(t, <-done)
			wantEntriesAsRecords(t, l)
			if gocmp.Equal(was, entries(t, l)) {
				t.Error("nothing has changed")
			}
		})
	}
}
