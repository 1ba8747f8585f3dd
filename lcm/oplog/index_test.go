package oplog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// known is all that the index of a Log knows.
type known struct {
	Instances  []oplog.InstanceEntry
	Operations []oplog.OperationEntry
	Counts     oplog.Counts
}

func entries(t *testing.T, l *oplog.Log) known {
	t.Helper()
	var k known
	for e := range l.InstanceEntries("") {
		k.Instances = append(k.Instances, *e)
		if one, ok := l.InstanceEntry(e.ID); !ok || one != e {
			t.Errorf("the entry of instance %s is %+v, in the list it is %+v", e.ID, one, e)
		}
	}
	k.Operations = slices.Collect(l.OperationEntries(oplog.OperationQuery{}))
	k.Counts = l.Counts()
	return k
}

// records is what the index should know, read from the records themselves.
func records(t *testing.T, l *oplog.Log) known {
	t.Helper()
	insts, err := l.Instances(t.Context(), "", 0)
	must(t, err)
	ops, err := l.Operations(t.Context(), "", 0)
	must(t, err)
	k := known{Counts: oplog.Counts{Instances: len(insts), Operations: len(ops), Open: map[oplog.OperationKind]int{}}}
	for _, i := range insts {
		k.Instances = append(k.Instances, oplog.InstanceEntry{ID: i.ID, VNF: i.VNF, Operated: i.Operated, Settled: i.Settled,
			Open: i.Open, Prepared: i.Prepared, OutstandingCommit: i.OutstandingCommit, Last: i.Last, LastState: i.LastState, Seq: i.Seq})
	}
	for _, op := range ops {
		k.Operations = append(k.Operations, oplog.OperationEntry{ID: op.ID, Instance: op.Instance, Type: op.Type, State: op.State,
			Automatic: op.Automatic, Contended: op.Contended, Started: op.Started, StateEntered: op.StateEntered})
		if op.State.Ended() {
			continue
		}
		k.Counts.Open[oplog.OperationKind{Type: op.Type, State: op.State, Automatic: op.Automatic}]++
		if op.Contended {
			k.Counts.Contended++
		}
	}
	slices.SortFunc(k.Operations, func(a, b oplog.OperationEntry) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	return k
}

func wantEntriesAsRecords(t *testing.T, l *oplog.Log) {
	t.Helper()
	if diff := gocmp.Diff(records(t, l), entries(t, l)); diff != "" {
		t.Errorf("entries (-as the records say +as they are):\n%s", diff)
	}
}

// live has operations of several instances begin and reach states at random.
func live(t *testing.T, l *oplog.Log, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	types := []lcm.Type{lcm.Instantiate, lcm.Scale, lcm.Heal, lcm.Terminate}
	at := epoch
	for i := range n {
		op := newOp(uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)).String(), types[random.IntN(len(types))], fmt.Sprint("t", i), fmt.Sprint("t", i+1))
		if i%7 == 0 {
			op.ID = fmt.Sprint("named ", i)
		}
		at = at.Add(time.Duration(random.IntN(3)) * time.Second)
		op.Started, op.Automatic = at, i%3 == 0
		op.Instance = fmt.Sprint("inst ", random.IntN(9))
		if _, err := l.Born(t.Context(), op); errors.Is(err, oplog.ErrBusy{}) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 {
			_, err := l.Record(t.Context(), op.ID, func(op *lcm.Operation, _ *lcm.Instance) error { op.Contended = true; return nil })
			must(t, err)
		}
		events := [][]lcm.Event{{}, {lcm.Granted}, {lcm.Granted, lcm.Broke}, {lcm.Granted, lcm.Converged}, {lcm.Refused}, {lcm.Granted, lcm.Broke, lcm.FailAsked}}
		advance(t, l, op.ID, events[min(random.IntN(2*len(events)), len(events)-1)]...)
	}
}

func TestEntriesAreWhatTheRecordsSayAtOnceAndAfterAStart(t *testing.T) {
	t.Parallel()
	l, s := newLog(t)
	live(t, l, 120)
	must(t, l.Prepare(t.Context(), lcm.Operation{ID: "prepared", Instance: "new", Type: lcm.Instantiate}))
	must(t, l.Created(t.Context(), "gone", lcm.VNF{Name: "gone"}, rev("t")))
	must(t, l.Forget(t.Context(), "gone"))
	wantEntriesAsRecords(t, l)
	wantEntriesAsRecords(t, open(t, s, time.Now))
	if c := l.Counts(); c.Contended == 0 || len(c.Open) == 0 || c.Operations < 50 {
		t.Errorf("too little happened: %+v", c)
	}
	if n := len(l.OpenOperations()); n != sum(l.Counts().Open) {
		t.Errorf("%d open operations, counted are %v", n, l.Counts().Open)
	}
}

func sum(counts map[oplog.OperationKind]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

func TestAQueryPicksWhatAFilterOfAllWould(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	live(t, l, 150)
	all := slices.Collect(l.OperationEntries(oplog.OperationQuery{}))
	mid := all[len(all)/2].Started
	for _, q := range []oplog.OperationQuery{
		{Instance: "inst 3"},
		{Instance: "nobody"},
		{Instance: "inst 3", States: []lcm.State{lcm.Completed}},
		{States: []lcm.State{lcm.FailedTemp}},
		{States: []lcm.State{lcm.Completed, lcm.RolledBack}, Types: []lcm.Type{lcm.Scale, lcm.Heal}},
		{Types: []lcm.Type{"NONE"}},
		{From: mid},
		{Before: mid},
		{From: mid, Before: mid.Add(5 * time.Second), Types: []lcm.Type{lcm.Heal, lcm.Scale}},
		{Instance: "inst 1", From: mid},
		{From: mid, Before: mid},
	} {
		var want []oplog.OperationEntry
		for _, e := range all {
			if (q.Instance == "" || q.Instance == e.Instance) && (q.Types == nil || slices.Contains(q.Types, e.Type)) &&
				(q.States == nil || slices.Contains(q.States, e.State)) && !e.Started.Before(q.From) && (q.Before.IsZero() || e.Started.Before(q.Before)) {
				want = append(want, e)
			}
		}
		var got []oplog.OperationEntry
		for page := q; ; { // by pages of three
			n := 0
			for e := range l.OperationEntries(page) {
				if n == 3 {
					break
				}
				n++
				got = append(got, e)
				if page.After = e.Position(); !oplog.ValidPosition(page.After) {
					t.Errorf("%q is no position", page.After)
				}
			}
			if n < 3 {
				break
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
	for range l.OperationEntries(oplog.OperationQuery{After: "nonsense"}) {
		t.Error("a text that is no position picked something")
	}
}

func TestAnIterationSeesTheMomentAtWhichItBegan(t *testing.T) {
	t.Parallel()
	l, _ := newLog(t)
	live(t, l, 100)
	was := entries(t, l)
	var during known
	for e := range l.InstanceEntries("") {
		during.Instances = append(during.Instances, *e)
		if len(during.Instances) == 1 {
			late := newOp("late", lcm.Scale, "t0", "t1")
			late.Instance = "inst late"
			born(t, l, late)
		}
	}
	if diff := gocmp.Diff(was.Instances, during.Instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	was = entries(t, l)
	for e := range l.OperationEntries(oplog.OperationQuery{}) {
		during.Operations = append(during.Operations, e)
		if len(during.Operations) == 1 {
			advance(t, l, "late", lcm.Granted, lcm.Converged)
		}
	}
	if diff := gocmp.Diff(was.Operations, during.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	wantEntriesAsRecords(t, l)
}

// forgetHistory makes the store what a former version would have left.
func forgetHistory(t *testing.T, s store.Store, keep func(id string) bool) {
	t.Helper()
	recs, err := s.List(t.Context(), "history/", "", 0)
	must(t, err)
	for _, rec := range recs {
		if !keep(strings.TrimPrefix(rec.Key, "history/")) {
			_, err := s.Put(t.Context(), store.Record{Key: rec.Key, Version: rec.Version, Delete: true})
			must(t, err)
		}
	}
}

func TestAStoreOfAFormerVersionGetsItsEntriesHoweverOftenThatIsInterrupted(t *testing.T) {
	t.Parallel()
	l, s := newLog(t)
	live(t, l, 100)
	must(t, l.Created(t.Context(), "forgotten", lcm.VNF{}, rev("t")))
	forgetHistory(t, s, func(string) bool { return false })
	errKilled := errors.New("killed")
	for puts := range 2 {
		s.fail = func([]store.Record) error {
			if puts--; puts < 0 {
				return errKilled
			}
			return nil
		}
		if _, err := oplog.Open(t.Context(), s, time.Now); !errors.Is(err, errKilled) {
			t.Fatalf("open: %v", err)
		}
	}
	s.fail = nil
	l = open(t, s, time.Now)
	wantEntriesAsRecords(t, l)
	s.puts = 0
	l = open(t, s, time.Now)
	if s.puts != 0 {
		t.Errorf("a start after the first made %d Puts", s.puts)
	}
	wantEntriesAsRecords(t, l)
	for _, e := range l.OpenOperations() {
		if e.State == lcm.Processing {
			advance(t, l, e.ID, lcm.Converged)
		}
	}
	wantEntriesAsRecords(t, l)
	wantEntriesAsRecords(t, open(t, s, time.Now))
}

func TestWhatAFormerVersionDidMeanwhileIsFound(t *testing.T) {
	l, s := newLog(t)
	for n, id := range []string{"old", "open", "new"} {
		op := newOp(id, lcm.Scale, "t0", "t1")
		op.Instance = fmt.Sprint(id, n)
		born(t, l, op)
	}
	advance(t, l, "old", lcm.Granted, lcm.Converged)
	lines, err := s.Get(t.Context(), "history/open")
	must(t, err)
	advance(t, l, "open", lcm.Granted, lcm.Converged)
	forgetHistory(t, s, func(id string) bool { return id == "old" })
	_, err = s.Put(t.Context(), store.Record{Key: lines.Key, Value: lines.Value})
	must(t, err)
	l = open(t, s, time.Now)
	wantEntriesAsRecords(t, l)
	advance(t, l, "new", lcm.Granted, lcm.Converged)
	wantEntriesAsRecords(t, open(t, s, time.Now))
}

// failing is a store whose Put is durable although its caller gets an error.
type failing struct {
	store.Store
	err error
}

func (f *failing) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	out, err := f.Store.Put(ctx, recs...)
	return out, errors.Join(err, f.err)
}

func TestAPutOfUnknownOutcomeIsReadAgain(t *testing.T) {
	_, s := newLog(t)
	f := &failing{Store: s}
	l := open(t, f, time.Now)
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	f.err = errors.New("the disk says nothing")
	if _, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
		return op.Advance(lcm.Granted, epoch, nil)
	}); !errors.Is(err, f.err) {
		t.Fatal(err)
	}
	wantEntriesAsRecords(t, l)
	f.err = nil
	advance(t, l, "op1", lcm.Converged)
	wantEntriesAsRecords(t, l)
}

// fill writes the records of many instances and operations as quickly as the store can.
func fill(b testing.TB, s store.Store, instances, operations int) {
	b.Helper()
	var recs []store.Record
	flush := func(limit int) {
		if len(recs) < limit {
			return
		}
		if _, err := s.Put(b.Context(), recs...); err != nil {
			b.Fatal(err)
		}
		recs = recs[:0]
	}
	id := func(kind string, n int) string { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, kind, n)).String() }
	units := make([]plan.Unit, 4)
	for n := range units {
		units[n] = plan.Unit{Key: fmt.Sprintf("Pod/amf/vdu%d-7d9f8b6c5-x7k2p", n), ID: id("unit", n), Name: fmt.Sprintf("amf-vdu%d-7d9f8b6c5-x7k2p", n), Kind: "Pod", VDU: "vdu", VIM: "kube-a"}
	}
	for n := range instances {
		r := rev(id("tree", n))
		r.Instance = id("inst", n)
		value, err := json.Marshal(lcm.Instance{ID: id("inst", n), Seq: 20, Operated: r, Settled: r, Last: id("op", n), LastState: lcm.Completed, Units: units,
			VNF: lcm.VNF{Name: fmt.Sprint("amf-", n), VnfdID: "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177", Provider: "Company", ProductName: "AMF", SoftwareVersion: "1.0", VnfdVersion: "1.0"}})
		if err != nil {
			b.Fatal(err)
		}
		recs = append(recs, store.Record{Key: "instance/" + id("inst", n), Value: value})
		flush(5000)
	}
	for n := range operations {
		recs = append(recs, store.Record{Key: "history/" + id("op", n),
			Value: fmt.Appendf(nil, "SCALE COMPLETED - %d %d %s", epoch.Add(time.Duration(n)*time.Second).UnixNano(), epoch.UnixNano(), id("inst", n%instances))})
		flush(5000)
	}
	flush(1)
}

// BenchmarkOpen shows what a start costs with many records, and the bytes that the index
// keeps for each.
func BenchmarkOpen(b *testing.B) {
	for _, size := range []struct{ instances, operations int }{{10_000, 10_000}, {10_000, 200_000}} {
		b.Run(fmt.Sprintf("instances=%d/operations=%d", size.instances, size.operations), func(b *testing.B) {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			fill(b, s, size.instances, size.operations)
			b.ReportAllocs()
			var l *oplog.Log
			for b.Loop() {
				was := heap()
				l = open(b, s, time.Now)
				b.ReportMetric(float64(heap()-was)/float64(size.instances+size.operations), "kept-B/record")
			}
			if c := l.Counts(); c.Operations != size.operations {
				b.Fatalf("%+v", c)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
