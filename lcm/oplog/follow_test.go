package oplog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// followPatience is how long tests wait for what must happen.
const followPatience = 3 * time.Minute

// losing is a store that can lose track of what was put.
type losing struct {
	store.Store
	mu    sync.Mutex
	epoch uint64
	lost  chan struct{} // closed, and replaced, when it does
}

func (l *losing) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	close(l.lost)
	l.lost = make(chan struct{})
}

func (l *losing) now() (uint64, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, l.lost
}

func (l *losing) Mark(ctx context.Context) (store.Mark, error) {
	epoch, _ := l.now()
	m, err := l.Store.Mark(ctx)
	m.Epoch += epoch
	return m, err
}

func (l *losing) Changes(ctx context.Context, after store.Mark) ([]store.Change, store.Mark, error) {
	epoch, lost := l.now()
	under := after
	under.Epoch -= epoch
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	changes, next, err := l.Store.Changes(ctx, under)
	if now, _ := l.now(); now != epoch {
		return nil, after, fmt.Errorf("changes: %w", store.ErrLost)
	}
	next.Epoch += epoch
	return changes, next, err
}

func newLosing(t *testing.T) *losing {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "jibe.db"))
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return &losing{Store: s, lost: make(chan struct{})}
}

// follows opens a Log that follows what others put, until the test ends.
func follows(t *testing.T, s store.Store, now func() time.Time) *oplog.Log {
	t.Helper()
	l, err := oplog.Open(t.Context(), s, now, oplog.Shared())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Follow(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("follow: %v", err)
		}
	})
	return l
}

func synced(t *testing.T, l *oplog.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), followPatience)
	defer cancel()
	must(t, l.Sync(ctx))
}

// changeAtRandom does one thing that several processes do to the same few instances.
func changeAtRandom(ctx context.Context, l *oplog.Log, random *rand.Rand, name string) (written string, err error) {
	instance := fmt.Sprint("inst ", random.IntN(6))
	passed := func(err error) error { // what another was faster at
		if err == nil || errors.Is(err, oplog.ErrBusy{}) || errors.Is(err, store.ErrNotFound) || errors.Is(err, lcm.ErrState) {
			return nil
		}
		return err
	}
	op := newOp(name, []lcm.Type{lcm.Scale, lcm.Heal, lcm.Instantiate}[random.IntN(3)], "t0", "t1")
	op.Instance, op.Started, op.Automatic = instance, epoch.Add(time.Duration(random.IntN(1000))*time.Millisecond), random.IntN(3) == 0
	switch random.IntN(10) {
	case 0, 1:
		if _, err := l.Born(ctx, op); err != nil {
			return "", passed(err)
		}
		return op.ID, nil
	case 2:
		if err := l.Prepare(ctx, op); err != nil {
			return "", passed(err)
		}
		if random.IntN(2) == 0 {
			return "", l.Abandon(ctx, op.ID)
		}
		_, err := l.Commit(ctx, op.ID, rev("t1"))
		if errors.Is(err, oplog.ErrBusy{}) { // what it was to supersede was retried meanwhile
			return "", l.Abandon(ctx, op.ID)
		}
		return op.ID, err
	case 3:
		return "", passed(l.Forget(ctx, instance))
	case 4:
		return "", l.Created(ctx, instance, lcm.VNF{Name: name}, rev("t"))
	case 5:
		_, err := l.Prune(ctx, oplog.Keep{Age: time.Nanosecond, PerInstance: 6})
		return "", err
	case 6:
		return "", passed(l.Adopt(ctx, instance, func(inst *lcm.Instance) error {
			inst.Seq++
			inst.OutstandingCommit = ""
			return nil
		}))
	}
	open := l.OpenOperations()
	if len(open) == 0 {
		return "", nil
	}
	e := open[random.IntN(len(open))]
	event := []lcm.Event{lcm.Granted, lcm.Converged, lcm.Broke, lcm.FailAsked, lcm.RetryAsked, lcm.Refused}[random.IntN(6)]
	_, err = l.Record(ctx, e.ID, func(op *lcm.Operation, _ *lcm.Instance) error { return op.Advance(event, time.Now(), nil) })
	return "", passed(err)
}

// holding is a losing store whose next Put returns, and whose next Mark begins, only when it is let go.
type holding struct {
	*losing
	next, mark  atomic.Pointer[chan struct{}]
	put, marked chan struct{} // closed when one is held
}

func (h *holding) Mark(ctx context.Context) (store.Mark, error) {
	if wait := h.mark.Swap(nil); wait != nil {
		close(h.marked)
		<-*wait
	}
	return h.losing.Mark(ctx)
}

func (h *holding) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	stored, err := h.losing.Put(ctx, recs...)
	if wait := h.next.Swap(nil); wait != nil {
		close(h.put)
		<-*wait
	}
	return stored, err
}

func TestAWriteThatALossOvertakesIsReadAgain(t *testing.T) {
	t.Parallel()

	h := &holding{losing: newLosing(t), put: make(chan struct{}), marked: make(chan struct{})}
	slow, other := follows(t, h, time.Now), follows(t, h.losing.Store, time.Now)
	must(t, other.Created(t.Context(), "amf", lcm.VNF{Name: "amf"}, rev("t")))
	synced(t, slow)
	increase := func(l *oplog.Log) error {
		return l.Adopt(t.Context(), "amf", func(i *lcm.Instance) error { i.Seq++; return nil })
	}
	before, err := slow.Instance(t.Context(), "amf")
	must(t, err)

	begin, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	h.mark.Store(&begin)
	h.lose()
	<-h.marked // the log is about to read everything again
	h.next.Store(&release)
	go func() { done <- increase(slow) }()
	<-h.put // it is in the store, and its log doesn't show it yet
	must(t, increase(other))
	close(begin)
	kit.Until(t, "the log has read everything again", func() bool {
		e, ok := slow.InstanceEntry("amf")
		return ok && e.Seq == before.Seq+2
	})
	close(release)
	must(t, <-done)
	synced(t, slow)
	if e, _ := slow.InstanceEntry("amf"); e.Seq != before.Seq+2 {
		t.Errorf("the log shows change %d, and the store has %d", e.Seq, before.Seq+2)
	}
	wantEntriesAsRecords(t, slow)
}

func TestLogsOverOneStoreEndAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ logs, lost int }{{2, 0}, {3, 0}, {3, 5}} {
		t.Run(fmt.Sprintf("logs=%d,lost=%d", c.logs, c.lost), func(t *testing.T) {
			t.Parallel()
			s := newLosing(t)
			var logs []*oplog.Log
			for range c.logs {
				logs = append(logs, follows(t, s, time.Now))
			}
			const writers, turns = 2, 300
			var g sync.WaitGroup
			for n, l := range logs {
				for w := range writers {
					g.Go(func() {
						random := rand.New(rand.NewPCG(uint64(n), uint64(w)))
						for i := range turns {
							if _, err := changeAtRandom(t.Context(), l, random, fmt.Sprintf("op %d %d %d", n, w, i)); err != nil {
								t.Errorf("log %d: %v", n, err)
								return
							}
							if c.lost > 0 && n == 0 && w == 0 && i%(turns/c.lost) == 0 {
								s.lose()
							}
						}
					})
				}
			}
			g.Wait()
			want := entries(t, open(t, s, time.Now))
			if len(want.Operations) == 0 { // how many there are at the end is chance: most turns forget or end one
				t.Fatalf("nothing is left to compare: %+v", want.Counts)
			}
			for n, l := range logs {
				synced(t, l)
				if diff := gocmp.Diff(want, entries(t, l)); diff != "" {
					t.Errorf("log %d (-as a start reads it +as it is):\n%s", n, diff)
				}
				wantEntriesAsRecords(t, l)
				for _, e := range want.Operations {
					op, err := l.Operation(t.Context(), e.ID)
					must(t, err)
					if op.State != e.State {
						t.Errorf("log %d: operation %s is read in %s, listed in %s", n, e.ID, op.State, e.State)
					}
				}
			}
		})
	}
}

// lateAnswer is a store whose answer to a Put takes its time, once, as takes to tell of changes.
type lateAnswer struct {
	store.Store
	once          sync.Once
	done, release chan struct{}
	tell          chan struct{}
}

func (s *lateAnswer) Changes(ctx context.Context, after store.Mark) ([]store.Change, store.Mark, error) {
	select {
	case <-s.tell:
	case <-ctx.Done():
	}
	return s.Store.Changes(ctx, after)
}

func (s *lateAnswer) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	stored, err := s.Store.Put(ctx, recs...)
	s.once.Do(func() {
		close(s.done)
		<-s.release
	})
	return stored, err
}

func TestAnOperationThatIsRemovedBeforeItsWriterIsAnsweredIsntListed(t *testing.T) {
	t.Parallel()
	s := newLosing(t)
	answered := &lateAnswer{Store: s, done: make(chan struct{}), release: make(chan struct{}), tell: make(chan struct{})}
	release := sync.OnceFunc(func() { close(answered.release) })
	later := func() time.Time { return epoch.Add(time.Hour) }
	writer, other := follows(t, answered, later), follows(t, s, later)
	var g sync.WaitGroup
	g.Go(func() { born(t, writer, newOp("op1", lcm.Scale, "t0", "t1")) })
	defer release()
	<-answered.done
	synced(t, other)
	advance(t, other, "op1", lcm.Granted, lcm.Converged)
	born(t, other, newOp("op2", lcm.Heal, "t1", "t1"))
	if n, err := other.Prune(t.Context(), oplog.Keep{Age: time.Nanosecond}); err != nil || n != 1 {
		t.Fatalf("%d operations were pruned, %v", n, err)
	}
	close(answered.tell)
	// It has taken the removal over by now, or waits until its own Put is answered.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := writer.Sync(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	release()
	g.Wait()
	synced(t, writer)
	if diff := gocmp.Diff(entries(t, open(t, s, time.Now)), entries(t, writer)); diff != "" {
		t.Errorf("(-as a start reads it +as it is):\n%s", diff)
	}
	wantEntriesAsRecords(t, writer)
}

func TestWhatOneLogHasWrittenIsFoundInAnotherThatIsSynced(t *testing.T) {
	t.Parallel()
	s := newLosing(t)
	one, other := follows(t, s, time.Now), follows(t, s, time.Now)
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 60 {
		writer, reader := one, other
		if i%2 == 1 {
			writer, reader = other, one
		}
		if i%20 == 19 {
			s.lose()
		}
		id := fmt.Sprint("op ", i)
		op := newOp(id, lcm.Scale, "t0", "t1")
		op.Instance = fmt.Sprint("inst ", i)
		born(t, writer, op)
		events := [][]lcm.Event{{}, {lcm.Granted}, {lcm.Granted, lcm.Converged}}[random.IntN(3)]
		was := advance(t, writer, id, events...)
		synced(t, reader)
		got := slices.Collect(reader.OperationEntries(oplog.OperationQuery{Instance: op.Instance}))
		if len(got) != 1 || got[0].State != was.State {
			t.Fatalf("after %s was written, another Log lists %+v", was.State, got)
		}
		if read, err := reader.Operation(t.Context(), id); err != nil || read.State != was.State {
			t.Fatalf("after %s was written, another Log reads %+v, %v", was.State, read, err)
		}
		if e, ok := reader.InstanceEntry(op.Instance); !ok || (e.Open == "") != was.State.Ended() {
			t.Fatalf("after %s was written, another Log's instance is %+v", was.State, e)
		}
		// The other goes on with it, although it had the record as it was.
		if !was.State.Ended() {
			if _, err := reader.Cancel(t.Context(), id, lcm.Forceful); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPagesNeitherLoseNorRepeatAnOperationWhileAnotherLogWrites(t *testing.T) {
	t.Parallel()
	s := newLosing(t)
	writer, reader := follows(t, s, time.Now), follows(t, s, time.Now)
	const steady = 60
	for i := range steady {
		op := newOp(fmt.Sprintf("steady %03d", i), lcm.Scale, "t0", "t1")
		op.Instance, op.Started = fmt.Sprint("steady ", i), epoch.Add(time.Duration(i)*time.Millisecond)
		born(t, writer, op)
	}
	synced(t, reader)
	stop := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		random := rand.New(rand.NewPCG(3, 4))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := changeAtRandom(t.Context(), writer, random, fmt.Sprint("busy ", i)); err != nil {
				t.Error(err)
				return
			}
			if i%40 == 0 {
				s.lose()
			}
		}
	})
	for range 30 {
		seen := map[string]int{}
		q := oplog.OperationQuery{}
		for more := true; more; {
			more = false
			n := 0
			for e := range reader.OperationEntries(q) {
				if n++; n > 7 {
					more = true
					break
				}
				seen[e.ID]++
				q.After = e.Position()
			}
		}
		for i := range steady {
			if id := fmt.Sprintf("steady %03d", i); seen[id] != 1 {
				t.Fatalf("%s was on %d pages", id, seen[id])
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Fatalf("%s was on %d pages", id, n)
			}
		}
	}
	close(stop)
	g.Wait()
}

func TestAStoreThatWentBackIsReadAnew(t *testing.T) {
	s := newLosing(t)
	l := follows(t, s, time.Now)
	lost := make(chan struct{}, 1)
	l.OnLost(func() { lost <- struct{}{} })
	born(t, l, newOp("op1", lcm.Scale, "t0", "t1"))
	later := newOp("op2", lcm.Scale, "t0", "t1")
	later.Instance = "smf"
	born(t, l, later)
	// The store loses the second: nobody is told that it goes.
	for _, key := range []string{"operation/op2", "history/op2", "instance/smf"} {
		_, err := s.Store.Put(t.Context(), store.Record{Key: key, Version: 1, Delete: true})
		must(t, err)
	}
	s.lose()
	select {
	case <-lost:
	case <-time.After(followPatience):
		t.Fatal("nobody was told that the store went back")
	}
	wantEntriesAsRecords(t, l)
	if _, err := l.Operation(t.Context(), "op2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what the store lost is read: %v", err)
	}
	if n := l.Counts().Operations; n != 1 {
		t.Errorf("%d operations", n)
	}
}

func TestWhoWatchesIsToldOfWhatOthersRecordAndCountsOnlyWhatIsItsOwn(t *testing.T) {
	s := newLosing(t)
	one, other := follows(t, s, time.Now), follows(t, s, time.Now)
	var mu sync.Mutex
	var own, followed []string
	one.OnChange(func(op *lcm.Operation) {
		mu.Lock()
		defer mu.Unlock()
		own = append(own, op.ID+" "+string(op.State))
	})
	one.OnFollowed(func(op *lcm.Operation) {
		mu.Lock()
		defer mu.Unlock()
		followed = append(followed, op.ID+" "+string(op.State))
	})
	wake, stop := one.Signal()
	defer stop()
	take := one.WatchInstances()
	take()
	theirs := newOp("theirs", lcm.Scale, "t0", "t1")
	theirs.Instance = "smf"
	born(t, other, theirs)
	synced(t, one)
	select {
	case <-wake:
	case <-time.After(followPatience):
		t.Fatal("an event of another isn't signalled")
	}
	if ids, all := take(); all || !slices.Equal(ids, []string{"smf"}) {
		t.Errorf("changed are %v, %v", ids, all)
	}
	born(t, one, newOp("ours", lcm.Scale, "t0", "t1"))
	advance(t, one, "ours", lcm.Granted)
	advance(t, other, "theirs", lcm.Granted, lcm.Converged)
	synced(t, one)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"ours STARTING", "ours PROCESSING"}; !slices.Equal(own, want) {
		t.Errorf("own: %q, want %q", own, want)
	}
	// The store may report a change before the Put that made it returns: such a change of its own is followed, too.
	followed = slices.DeleteFunc(followed, func(s string) bool { return strings.HasPrefix(s, "ours ") })
	if want := []string{"theirs STARTING", "theirs COMPLETED"}; !slices.Equal(followed, want) {
		t.Errorf("followed: %q, want %q", followed, want)
	}
}

func TestALogThatFollowsNobodyIsSyncedAtOnce(t *testing.T) {
	l, _ := newLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, l.Sync(ctx))
	if l.Follow(t.Context()) == nil {
		t.Error("a Log follows a store that nobody else writes")
	}
}

func TestWhatDecidesReadsTheStoreHoweverFarBehindTheLogIs(t *testing.T) {
	s := newLosing(t)
	behind, err := oplog.Open(t.Context(), s, time.Now, oplog.Shared()) // it doesn't follow yet
	must(t, err)
	other := follows(t, s, time.Now)
	born(t, behind, newOp("first", lcm.Scale, "t0", "t1"))
	advance(t, other, "first", lcm.Granted, lcm.Converged)
	must(t, behind.Prepare(t.Context(), newOp("second", lcm.Scale, "t1", "t2")))
	_, err = behind.Commit(t.Context(), "second", rev("t2"))
	must(t, err)
	if _, err := behind.Retry(t.Context(), "first"); !errors.Is(err, lcm.ErrState) {
		t.Errorf("what has ended is retried: %v", err)
	}
}
