package oplog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

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

// A store that fails leaves everything as it was, and says so.
func TestAFullDiskChangesNothing(t *testing.T) {
	l, s := newLog(t)
	was := born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	full := errors.New("no space left on device")
	s.fail = func([]store.Record) error { return full }
	wake, stop := l.Signal()
	defer stop()
	notified := 0
	l.OnChange(func(*lcm.Operation) { notified++ })
	if _, err := l.Retry(t.Context(), "op1"); !errors.Is(err, lcm.ErrState) {
		t.Errorf("retry: %v", err)
	}
	if _, err := l.Cancel(t.Context(), "op1", lcm.Forceful); !errors.Is(err, full) {
		t.Errorf("cancel: %v", err)
	}
	is, err := l.Operation(t.Context(), "op1")
	if diff := cmp.Diff(was, is); diff != "" || err != nil || notified != 0 {
		t.Error(diff, err, notified)
	}
	select {
	case <-wake:
		t.Error("subscribers were woken for nothing")
	default:
	}
}
