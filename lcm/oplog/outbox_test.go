package oplog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

func TestForgettingAnInstanceNamesItsProductAndKeepsItsOperations(t *testing.T) {
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
		t.Errorf("the journal is notified: %s", text)
	}
	if op, err := l.Operation(t.Context(), "op1"); err != nil || len(op.Journal.Issued) != 1 {
		t.Errorf("the record lost its journal: %+v, %v", op, err)
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
	wantNotified(t, l, "op1 PROCESSING", "op1 COMPLETED")
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
	if n := end(open(t, s, time.Now)); n != newest {
		t.Errorf("end after a restart %d, want %d", n, newest)
	}
}
