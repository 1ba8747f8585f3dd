package oplog_test

import (
	"errors"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// repair is one of what was operated on before.
func repair(id string) lcm.Operation {
	op := newOp(id, lcm.Heal, "t1", "t1")
	op.Automatic = true
	return op
}

func TestARepairBesideAnOperationThatWaitsChangesNothingElseOfTheInstance(t *testing.T) {
	l, _ := newLog(t)
	ctx := t.Context()
	born(t, l, newOp("waits", lcm.ChangePackage, "t1", "t2"))
	before := *instance(t, l)
	if _, err := l.Tend(ctx, newOp("other", lcm.Scale, "t1", "t2"), "waits"); err == nil {
		t.Error("something else than a repair was begun")
	}
	if _, err := l.Tend(ctx, repair("r0"), "another"); !errors.As(err, new(oplog.ErrBusy)) {
		t.Errorf("beside an operation that the instance hasn't: %v", err)
	}
	first, err := l.Tend(ctx, repair("r1"), "waits")
	must(t, err)
	again, err := l.Tend(ctx, repair("r1"), "waits")
	if must(t, err); first.State != lcm.Starting || again.ID != first.ID {
		t.Errorf("%+v, %+v", first, again)
	}
	if _, err := l.Tend(ctx, repair("r2"), "waits"); !errors.As(err, new(oplog.ErrBusy)) {
		t.Errorf("two at a time: %v", err)
	}
	if err := l.Prepare(ctx, newOp("asked", lcm.Heal, "t1", "")); !errors.As(err, new(oplog.ErrBusy)) {
		t.Errorf("a request meanwhile: %v", err)
	}
	advance(t, l, "r1", lcm.Granted, lcm.Converged)
	after := instance(t, l)
	if after.Care != "" || after.Open != before.Open || after.Last != before.Last || after.Operated != before.Operated || after.Settled != before.Settled || after.OutstandingCommit != "" || after.Seq != before.Seq+1 {
		t.Errorf("the record is %+v and was %+v", after, before)
	}
}

func TestARepairBesideEndsAsTheOperationGoesOnInWhateverStateItIs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		events []lcm.Event
		want   lcm.State
	}{
		"in STARTING":    {nil, lcm.RolledBack},
		"in PROCESSING":  {[]lcm.Event{lcm.Granted}, lcm.Failed},
		"in FAILED_TEMP": {[]lcm.Event{lcm.Granted, lcm.Broke}, lcm.Failed},
	} {
		l, _ := newLog(t)
		born(t, l, newOp("waits", lcm.ChangePackage, "t1", "t2"))
		_, err := l.Tend(t.Context(), repair("r1"), "waits")
		must(t, err)
		if len(test.events) > 0 {
			advance(t, l, "r1", test.events...)
		}
		must(t, l.EndCare(t.Context(), "amf"))
		must(t, l.EndCare(t.Context(), "amf"))
		op, err := l.Operation(t.Context(), "r1")
		must(t, err)
		inst := instance(t, l)
		if op.State != test.want || op.Error == nil || inst.Care != "" || inst.Open != "waits" || inst.OutstandingCommit != "" || test.want == lcm.Failed && op.SupersededBy != "waits" {
			t.Errorf("%s: %+v; the record is %+v", name, op, inst)
		}
	}
}
