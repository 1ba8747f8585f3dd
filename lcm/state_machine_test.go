package lcm_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestEveryStateMeetsEveryEventAsTheTableSays(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%-15s", "")
	for _, s := range lcm.States() {
		fmt.Fprintf(&b, " %-12s", s)
	}
	b.WriteByte('\n')
	for _, e := range lcm.Events() {
		fmt.Fprintf(&b, "%-15s", e)
		for _, s := range lcm.States() {
			to, err := lcm.Next(s, e)
			cell := string(to)
			if err != nil {
				cell = "-"
				if !errors.Is(err, lcm.ErrState) || to != s {
					t.Errorf("%s in %s: %s, %v", e, s, to, err)
				}
			}
			fmt.Fprintf(&b, " %-12s", cell)
		}
		b.WriteByte('\n')
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	got := strings.Join(lines, "\n")
	kit.Golden(t, filepath.Join("testdata", "state_machine.txt"), []byte(got))
}

func TestARefusalSaysWhatIsPossible(t *testing.T) {
	for _, c := range []struct {
		state lcm.State
		event lcm.Event
		want  string
	}{
		{lcm.Starting, lcm.RetryAsked, "retry in state STARTING is not possible in this state: possible is cancel"},
		{lcm.FailedTemp, lcm.CancelAsked, "possible is retry, rollback, fail"},
		{lcm.Completed, lcm.FailAsked, "the operation has ended"},
		{lcm.Prepared, lcm.CancelAsked, "nothing can be asked of it now"},
	} {
		if _, err := lcm.Next(c.state, c.event); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v, want %q", c.event, c.state, err, c.want)
		}
	}
}

func TestPathNamesTheStatesBetween(t *testing.T) {
	for _, c := range []struct {
		from, to lcm.State
		want     []lcm.State
	}{
		{lcm.Prepared, lcm.Starting, []lcm.State{lcm.Starting}},
		{lcm.Starting, lcm.Completed, []lcm.State{lcm.Processing, lcm.Completed}},
		{lcm.Starting, lcm.RolledBack, []lcm.State{lcm.RolledBack}},
		{lcm.FailedTemp, lcm.RolledBack, []lcm.State{lcm.RollingBack, lcm.RolledBack}},
		{lcm.Processing, lcm.Processing, nil},
		{lcm.Completed, lcm.Processing, nil},
	} {
		if got := lcm.Path(c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("from %s to %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

var t0 = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func advance(t *testing.T, o *lcm.Operation, at time.Time, events ...lcm.Event) {
	t.Helper()
	for _, e := range events {
		var p *lcm.ProblemDetails
		if e == lcm.Broke {
			p = &lcm.ProblemDetails{Status: 500, Detail: "broken"}
		}
		if err := o.Advance(e, at, p); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
	}
}

func TestAnErrorIsKeptThroughRetryAndClearedBySuccess(t *testing.T) {
	o := &lcm.Operation{ID: "op", Type: lcm.Scale, State: lcm.Prepared}
	advance(t, o, t0, lcm.Committed)
	if o.Attempt != 1 || !o.AttemptStarted.Equal(t0) || !o.Started.Equal(t0) || o.Journal.Operation != "SCALE" {
		t.Errorf("born: %+v", o)
	}
	advance(t, o, t0, lcm.Granted)
	o.Journal.Issued, o.Journal.Hooks = []plan.StepKey{"apply:x"}, []string{"scale_start"}
	advance(t, o, t0, lcm.Broke)
	later := t0.Add(time.Hour)
	advance(t, o, later, lcm.RetryAsked)
	if o.Error == nil || o.Error.Detail != "broken" {
		t.Errorf("the error was lost at the retry: %+v", o.Error)
	}
	if o.Attempt != 2 || !o.AttemptStarted.Equal(later) || !o.StateEntered.Equal(later) || !o.Started.Equal(t0) {
		t.Errorf("retried: %+v", o)
	}
	if o.Journal.Issued != nil || !slices.Equal(o.Journal.Hooks, []string{"scale_start"}) {
		t.Errorf("journal after the retry: %+v", o.Journal)
	}
	advance(t, o, later, lcm.Converged)
	if o.State != lcm.Completed || o.Error != nil {
		t.Errorf("completed: %+v", o)
	}
}

func TestARetryAfterAFailedRollbackRunsItsHooksAgain(t *testing.T) {
	o := &lcm.Operation{ID: "op", Type: lcm.Instantiate, State: lcm.Prepared}
	advance(t, o, t0, lcm.Committed, lcm.Granted, lcm.Broke)
	o.Journal.Hooks = []string{"instantiate_start"}
	advance(t, o, t0, lcm.RollbackAsked)
	if !o.Journal.Rollback {
		t.Error("the journal doesn't say that it is rolled back")
	}
	advance(t, o, t0, lcm.Broke)
	if o.State != lcm.FailedTemp {
		t.Errorf("a broken rollback is %s", o.State)
	}
	advance(t, o, t0, lcm.RetryAsked)
	if o.Journal.Rollback || o.Journal.Hooks != nil {
		t.Errorf("journal after the retry: %+v", o.Journal)
	}
}

func TestAFailureAlwaysHasAReason(t *testing.T) {
	o := &lcm.Operation{ID: "op", Type: lcm.Scale, State: lcm.Processing}
	if err := o.Advance(lcm.Broke, t0, nil); err != nil || o.Error == nil || o.Error.Detail == "" {
		t.Errorf("%+v, %v", o, err)
	}
	o = &lcm.Operation{ID: "op", Type: lcm.Scale, State: lcm.Starting}
	if err := o.Cancel(lcm.Graceful, t0); err != nil || o.State != lcm.RolledBack || o.Error == nil || o.CancelMode != "" {
		t.Errorf("cancelled: %+v, %v", o, err)
	}
}

func TestACancelIsPendingUntilTheWorkIsLetGo(t *testing.T) {
	for _, state := range []lcm.State{lcm.Processing, lcm.RollingBack} {
		o := &lcm.Operation{ID: "op", Type: lcm.Scale, State: state, StateEntered: t0}
		if err := o.Cancel("QUICKLY", t0); err == nil || errors.Is(err, lcm.ErrState) {
			t.Errorf("a wrong mode: %v", err)
		}
		if err := o.Cancel(lcm.Graceful, t0.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if o.State != state || o.CancelMode != lcm.Graceful || !o.StateEntered.Equal(t0) {
			t.Errorf("pending: %+v", o)
		}
		if err := o.Advance(lcm.Broke, t0, nil); err != nil {
			t.Fatal(err)
		}
		if o.State != lcm.FailedTemp || o.CancelMode != "" || !strings.Contains(o.Error.Detail, "cancelled (GRACEFUL)") {
			t.Errorf("let go: %+v %+v", o, o.Error)
		}
	}
}

func TestRollbackIsRefusedWhereNothingCanBeBroughtBack(t *testing.T) {
	touched := plan.Journal{Touched: true}
	for _, c := range []struct {
		op      lcm.Operation
		allowed bool
	}{
		{lcm.Operation{Type: lcm.Instantiate}, true},
		{lcm.Operation{Type: lcm.ChangePackage}, true},
		{lcm.Operation{Type: lcm.ChangeExtConn}, true},
		{lcm.Operation{Type: lcm.ChangeFlavour}, true},
		{lcm.Operation{Type: lcm.Operate}, true},
		{lcm.Operation{Type: lcm.ModifyInfo}, true},
		{lcm.Operation{Type: lcm.ScaleToLevel}, true},
		{lcm.Operation{Type: lcm.Scale, Params: []byte(`{"type":"SCALE_OUT","aspectId":"a"}`)}, true},
		{lcm.Operation{Type: lcm.Scale, Params: []byte(`{"type":"SCALE_IN","aspectId":"a"}`), Journal: touched}, false},
		{lcm.Operation{Type: lcm.Scale, Params: []byte(`?`), Journal: plan.Journal{Issued: []plan.StepKey{"scale:x"}}}, false},
		{lcm.Operation{Type: lcm.Heal, Journal: touched}, false},
		{lcm.Operation{Type: lcm.Terminate, Journal: touched}, false},
		{lcm.Operation{Type: lcm.ChangePackage, NoRollback: "aspect a is scaled in", Journal: touched}, false},
		// Preparations alone can be taken back, but for a repair and a termination.
		{lcm.Operation{Type: lcm.Scale, Params: []byte(`{"type":"SCALE_IN","aspectId":"a"}`)}, true},
		{lcm.Operation{Type: lcm.Heal}, true},
		{lcm.Operation{Type: lcm.Heal, Automatic: true}, false},
		{lcm.Operation{Type: lcm.Terminate}, false},
		{lcm.Operation{Type: lcm.ChangePackage, NoRollback: "aspect a is scaled in"}, true},
	} {
		c.op.ID, c.op.State = "op", lcm.FailedTemp
		was := c.op
		err := c.op.Advance(lcm.RollbackAsked, t0, nil)
		if c.allowed != (err == nil) || c.allowed != (c.op.State == lcm.RollingBack) {
			t.Errorf("%s %s %s: %s, %v", c.op.Type, c.op.Params, c.op.NoRollback, c.op.State, err)
		}
		if !c.allowed && (!errors.Is(err, lcm.ErrState) || !strings.Contains(err.Error(), string(c.op.Type)) || !cmp.Equal(was, c.op)) {
			t.Errorf("refused with %v, and left %+v", err, c.op)
		}
	}
}

func TestTheRefusalToRollAHealBackSaysWhy(t *testing.T) {
	op := lcm.Operation{ID: "op", Type: lcm.Heal, State: lcm.FailedTemp, Journal: plan.Journal{Touched: true}}
	if err := op.CanRollback(); !errors.Is(err, lcm.ErrState) || !strings.Contains(err.Error(), "what it removed can't be brought back; possible is retry, fail") {
		t.Errorf("refused with %v", err)
	}
}

func TestModifyInfoPassesStartingAtOnce(t *testing.T) {
	o := &lcm.Operation{ID: "op", Type: lcm.ModifyInfo, State: lcm.Prepared}
	advance(t, o, t0, lcm.Committed)
	if o.State != lcm.Processing || !o.Journal.Granted {
		t.Errorf("%+v", o)
	}
}

// Whatever happens to an operation: what the API shows of it is consistent.
func TestNoOrderOfEventsLeavesAnOperationInconsistent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := &lcm.Operation{ID: "op", State: lcm.Prepared, Type: rapid.SampledFrom([]lcm.Type{lcm.Instantiate, lcm.Heal, lcm.ModifyInfo, lcm.Terminate}).Draw(r, "type")}
		now := t0
		for _, e := range rapid.SliceOfN(rapid.SampledFrom(lcm.Events()), 1, 40).Draw(r, "events") {
			was := *o
			now = now.Add(time.Second)
			err := o.Advance(e, now, nil)
			if err != nil && !cmp.Equal(&was, o) {
				r.Fatalf("a refused %s changed the operation from %+v to %+v", e, was, *o)
			}
			if was.State.Ended() && err == nil {
				r.Fatalf("%s moved an operation that had ended", e)
			}
			if err == nil && o.State != was.State && !o.StateEntered.Equal(now) {
				r.Fatalf("%s: entered %s at %s, not %s", e, o.State, o.StateEntered, now)
			}
			switch o.State {
			case lcm.FailedTemp, lcm.Failed, lcm.RolledBack:
				if o.Error == nil {
					r.Fatalf("%s without an error", o.State)
				}
			case lcm.Completed:
				if o.Error != nil {
					r.Fatalf("completed with error %+v", o.Error)
				}
			}
			if o.CancelMode != "" && o.State != lcm.Processing && o.State != lcm.RollingBack {
				r.Fatalf("a cancel is pending in %s", o.State)
			}
			if o.Journal.Rollback != (o.State == lcm.RollingBack) && (o.State == lcm.Processing || o.State == lcm.RollingBack) {
				r.Fatalf("%s with journal %+v", o.State, o.Journal)
			}
		}
	})
}

func TestDifferenceIsByIncarnation(t *testing.T) {
	u := func(id, name, image string) plan.Unit {
		return plan.Unit{ID: id, Name: name, VDU: "vdu1", Metadata: map[string]string{"image": image}}
	}
	gone := u("5", "e", "1")
	gone.Deleting = true
	for _, c := range []struct {
		name          string
		before, after []plan.Unit
		want          []string
	}{
		{"nothing", nil, nil, nil},
		{"the same", []plan.Unit{u("1", "a", "1")}, []plan.Unit{u("1", "a", "1")}, nil},
		{"one more", []plan.Unit{u("1", "a", "1")}, []plan.Unit{u("2", "b", "1"), u("1", "a", "1")}, []string{"ADDED 2"}},
		{"one less", []plan.Unit{u("1", "a", "1"), u("2", "b", "1")}, []plan.Unit{u("1", "a", "1")}, []string{"REMOVED 2"}},
		{"replaced under its name", []plan.Unit{u("1", "a", "1")}, []plan.Unit{u("2", "a", "1")}, []string{"REMOVED 1", "ADDED 2"}},
		{"another image in place", []plan.Unit{u("1", "a", "1")}, []plan.Unit{u("1", "a", "2")}, []string{"MODIFIED 1"}},
		{"an attribute appears", []plan.Unit{u("1", "a", "")}, []plan.Unit{u("1", "a", "1")}, nil},
		{"rebuilt under its id", []plan.Unit{u("1@t1", "1", "1")}, []plan.Unit{u("1@t2", "1", "1")}, []string{"MODIFIED 1"}},
		{"one that goes is gone", []plan.Unit{u("5", "e", "1")}, []plan.Unit{gone}, []string{"REMOVED 5"}},
		{"all in order", []plan.Unit{u("9", "z", "1"), u("8", "y", "1"), u("7", "x", "1")}, []plan.Unit{u("7", "x", "2"), u("6", "w", "1"), u("3", "c", "1")},
			[]string{"REMOVED 8", "REMOVED 9", "MODIFIED 7", "ADDED 3", "ADDED 6"}},
	} {
		var got []string
		for _, d := range lcm.Difference(c.before, c.after, nil, nil) {
			got = append(got, fmt.Sprint(d.ChangeType, " ", d.ID))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestChangesAreShownOnceTheyWereSeen(t *testing.T) {
	a, b := []plan.Unit{{ID: "a"}}, []plan.Unit{{ID: "b"}}
	for _, c := range []struct {
		op   lcm.Operation
		want int
	}{
		{lcm.Operation{Type: lcm.Scale, State: lcm.Starting, UnitsBefore: a}, 0},
		{lcm.Operation{Type: lcm.Scale, State: lcm.Processing, UnitsBefore: a, UnitsAfter: b}, 0},
		{lcm.Operation{Type: lcm.Scale, State: lcm.FailedTemp, UnitsBefore: a}, 0},
		{lcm.Operation{Type: lcm.Scale, State: lcm.FailedTemp, UnitsBefore: a, UnitsAfter: b}, 2},
		{lcm.Operation{Type: lcm.Scale, State: lcm.Completed, UnitsBefore: a, UnitsAfter: b}, 2},
		{lcm.Operation{Type: lcm.Terminate, State: lcm.Completed, UnitsBefore: a}, 1},
		{lcm.Operation{Type: lcm.ModifyInfo, State: lcm.Completed, UnitsBefore: a}, 0},
		{lcm.Operation{Type: lcm.Instantiate, State: lcm.RolledBack, UnitsBefore: a}, 0},
	} {
		if got := c.op.Changes(); len(got.Vnfcs) != c.want || got.Empty() != (c.want == 0) {
			t.Errorf("%s in %s: %v, want %d", c.op.Type, c.op.State, got, c.want)
		}
	}
}
