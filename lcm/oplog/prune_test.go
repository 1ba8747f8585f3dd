package oplog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// past is a log whose operations ended when the test says.
type past struct {
	*testing.T
	log   *oplog.Log
	store *counting
	now   time.Time
}

func newPast(t *testing.T) *past {
	_, s := newLog(t)
	p := &past{T: t, store: s, now: epoch}
	p.log = open(t, s, func() time.Time { return p.now })
	return p
}

// operate has an operation of an instance reach a state; an hour passes.
func (p *past) operate(instance, id string, typ lcm.Type, events ...lcm.Event) {
	p.Helper()
	must(p.T, p.tryOperate(instance, id, typ, p.now, events...))
	p.now = p.now.Add(time.Hour)
}

func (p *past) tryOperate(instance, id string, typ lcm.Type, started time.Time, events ...lcm.Event) error {
	op := newOp(id, typ, "t"+id, "u"+id)
	op.Instance, op.Started = instance, started
	if _, err := p.log.Born(p.Context(), op); err != nil {
		return err
	}

	_, err := p.log.Record(p.Context(), id, func(op *lcm.Operation, _ *lcm.Instance) error {
		for _, e := range events {
			if err := op.Advance(e, p.now, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// operateMany has n operations complete, op0 of inst0, op1 of inst1 and so on; an hour passes. The
// instances are operated on side by side, as the store then needs one fsync for all that come together.
func (p *past) operateMany(n, instances int) {
	p.Helper()
	var g errgroup.Group
	for k := range instances {
		g.Go(func() error {
			for i := k; i < n; i += instances {
				if err := p.tryOperate(fmt.Sprint("inst", k), fmt.Sprint("op", i), lcm.Scale, p.now.Add(time.Duration(i)*time.Second), done...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(p.T, g.Wait())
	p.now = p.now.Add(time.Hour)
}

func (p *past) settle(instance string) {
	p.Helper()
	must(p.T, p.log.Adopt(p.Context(), instance, func(i *lcm.Instance) error { i.OutstandingCommit = ""; return nil }))
}

// left lists the operations that there are, by entries and by records.
func (p *past) left() string {
	p.Helper()
	wantEntriesAsRecords(p.T, p.log)
	wantEntriesAsRecords(p.T, open(p.T, p.store, time.Now))
	var ids []string
	for e := range p.log.OperationEntries(oplog.OperationQuery{}) {
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

var done = []lcm.Event{lcm.Granted, lcm.Converged}

func TestOldOperationsAreRemovedBeyondTheNewestOfTheirInstance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep oplog.Keep
		want string
	}{
		"all":                           {oplog.Keep{PerInstance: 1}, "a1 a2 a3 a4 a5 b1"},
		"by number":                     {oplog.Keep{Age: time.Nanosecond, PerInstance: 2}, "a4 a5 b1"},
		"by age":                        {oplog.Keep{Age: 150 * time.Minute}, "a5 b1"},
		"by age, not the newest":        {oplog.Keep{Age: 150 * time.Minute, PerInstance: 4}, "a2 a3 a4 a5 b1"},
		"everything, but what is named": {oplog.Keep{Age: time.Nanosecond}, "a5 b1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPast(t)
			for n := range 5 {
				p.operate("a", fmt.Sprint("a", n+1), lcm.Scale, done...)
			}
			p.operate("b", "b1", lcm.Scale, done...)
			was := len(strings.Fields(p.left()))
			removed, err := p.log.Prune(t.Context(), c.keep)
			must(t, err)
			if got := p.left(); got != c.want || was-removed != len(strings.Fields(got)) {
				t.Errorf("left are %q, removed %d; want %q", got, removed, c.want)
			}
			if removed > 0 {
				if _, err := p.log.Operation(t.Context(), "a1"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("a removed operation: %v", err)
				}
			}
			if removed, err := p.log.Prune(t.Context(), c.keep); err != nil || removed != 0 {
				t.Errorf("again: %d, %v", removed, err)
			}
		})
	}
}

func TestWhatIsStillNeededIsNotRemoved(t *testing.T) {
	t.Parallel()
	everything := oplog.Keep{Age: time.Nanosecond}
	for name, c := range map[string]struct {
		happen func(p *past)
		want   string
	}{
		"an open operation": {func(p *past) {
			p.operate("a", "a1", lcm.Scale, done...)
			p.operate("a", "a2", lcm.Scale, lcm.Granted)
		}, "a2"},
		"one that waits in FAILED_TEMP": {func(p *past) { p.operate("a", "a1", lcm.Scale, lcm.Granted, lcm.Broke) }, "a1"},
		"the failed one, whose journal the next inherits": {func(p *past) {
			p.operate("a", "a1", lcm.Scale, lcm.Granted, lcm.Broke, lcm.FailAsked)
			p.settle("a")
			must(p.T, p.log.Prepare(p.Context(), lcm.Operation{ID: "a2", Instance: "a", Type: lcm.Scale}))
		}, "a1"},
		"one whose commit is outstanding": {func(p *past) {
			p.operate("a", "a1", lcm.Scale, lcm.Granted, lcm.Broke, lcm.RollbackAsked, lcm.Converged)
		}, "a1"},
		"one that has just ended": {func(p *past) {
			p.operate("a", "a1", lcm.Scale, lcm.Granted)
			p.now = p.now.Add(time.Hour)
			_, err := p.log.Record(p.Context(), "a1", func(op *lcm.Operation, _ *lcm.Instance) error { return op.Advance(lcm.Converged, p.now, nil) })
			must(p.T, err)
			p.operate("a", "a2", lcm.Scale, lcm.Granted)
			p.now = p.now.Add(-time.Hour)
		}, "a1 a2"},
		"nothing of an instance that is forgotten": {func(p *past) {
			p.operate("a", "a1", lcm.Scale, done...)
			p.operate("a", "a2", lcm.Terminate, done...)
			must(p.T, p.log.Forget(p.Context(), "a"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPast(t)
			c.happen(p)
			_, err := p.log.Prune(t.Context(), everything)
			must(t, err)
			if got := p.left(); got != c.want {
				t.Errorf("left are %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheNewestChangesOfThePackageStay(t *testing.T) {
	p := newPast(t)
	for n := range 4 {
		p.operate("a", fmt.Sprint("p", n), lcm.ChangePackage, lcm.Refused)
		p.settle("a")
	}
	for n := range 5 {
		p.operate("a", fmt.Sprint("s", n), lcm.Scale, done...)
	}
	_, err := p.log.Prune(t.Context(), oplog.Keep{Age: time.Nanosecond, PerInstance: 2})
	must(t, err)
	if got := p.left(); got != "p2 p3 s3 s4" {
		t.Errorf("left are %q", got)
	}
}

func TestManyAreRemovedInSmallPutsAnInterruptionOfWhichLosesNothing(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	const n = 350
	p.operateMany(n, 10)
	killed := errors.New("killed")
	largest, puts := 0, 0
	p.store.fail = func(recs []store.Record) error {
		largest = max(largest, len(recs))
		if puts++; puts == 2 {
			return killed
		}
		return nil
	}
	keep := oplog.Keep{Age: time.Nanosecond, PerInstance: 3}
	first, err := p.log.Prune(t.Context(), keep)
	if !errors.Is(err, killed) || first == 0 {
		t.Fatalf("%d, %v", first, err)
	}
	p.left()
	second, err := p.log.Prune(t.Context(), keep)
	must(t, err)
	if left := len(strings.Fields(p.left())); left != 30 || first+second != n-30 {
		t.Errorf("%d are left, removed were %d and %d", left, first, second)
	}
	if largest > 200 {
		t.Errorf("a Put of %d records", largest)
	}
}

func TestOthersWriteWhileOperationsAreRemoved(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.operateMany(300, 3)
	var g sync.WaitGroup
	for i := range 3 {
		g.Go(func() {
			for n := range 20 {
				op := newOp(fmt.Sprint("new", i, "-", n), lcm.Heal, "t", "t")
				op.Instance = fmt.Sprint("inst", i)
				born(t, p.log, op)
				advance(t, p.log, op.ID, done...)
				// A late line of a hook, of one that may be gone.
				_, err := p.log.Record(t.Context(), fmt.Sprint("op", 99+3*n+i), func(op *lcm.Operation, _ *lcm.Instance) error {
					op.AddToStory(epoch, "late")
					return nil
				})
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	for range 5 {
		_, err := p.log.Prune(t.Context(), oplog.Keep{Age: time.Nanosecond, PerInstance: 5})
		must(t, err)
	}
	g.Wait()
	_, err := p.log.Prune(t.Context(), oplog.Keep{Age: time.Nanosecond, PerInstance: 5})
	must(t, err)
	p.left()
}

func TestAPruningThatIsStoppedSaysSo(t *testing.T) {
	p := newPast(t)
	p.operate("a", "a1", lcm.Scale, done...)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.log.Prune(ctx, oplog.DefaultKeep()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsKeptIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]oplog.Keep{
		"90d,20":  oplog.DefaultKeep(),
		"12h,0":   {Age: 12 * time.Hour},
		"36h,3":   {Age: 36 * time.Hour, PerInstance: 3},
		"1d, 4":   {Age: 24 * time.Hour, PerInstance: 4},
		"all":     {},
		"1h30m,1": {Age: 90 * time.Minute, PerInstance: 1},
	} {
		var k oplog.Keep
		if err := k.Set(text); err != nil || k != want {
			t.Errorf("%q: %+v, %v; want %+v", text, k, err, want)
		}
		var again oplog.Keep
		if err := again.Set(k.String()); err != nil || again != k {
			t.Errorf("%q is written as %q, which is read as %+v, %v", text, k, again, err)
		}
	}
	for _, text := range []string{"", "90d", "20", "90d,", ",20", "90d,-1", "-1d,3", "0d,3", "0,3", "xd,3", "1y,3", "999999999d,3", "90d,20,1", "99999999999999999999d,1"} {
		k := oplog.DefaultKeep()
		if err := k.Set(text); err == nil || k != oplog.DefaultKeep() {
			t.Errorf("%q: %+v, %v", text, k, err)
		}
	}
	if diff := gocmp.Diff("AGE,NUMBER", oplog.Keep{}.Type()); diff != "" {
		t.Error(diff)
	}
}
