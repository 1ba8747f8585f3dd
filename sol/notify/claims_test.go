package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const sessionTime = time.Minute

// fleet is one store that several replicas serve.
type fleet struct {
	t      *testing.T
	store  store.Store
	clock  *clock
	logged *syncBuffer
	ops    int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, clock: &clock{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}, logged: &syncBuffer{}}
	s, err := bolt.Open(filepath.Join(t.TempDir(), "jibe.db"), bolt.WithClock(f.clock.now))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f.store = s
	return f
}

// replica is an operation log and a service of notifications over the fleet's store.
type replica struct {
	*fleet
	name    string
	oplog   *oplog.Log
	service *notify.Service
	lcm     notify.Lifecycle
	kill    func()

	mu      sync.Mutex
	session store.Lease
	alive   bool
	mine    func(id string) bool
}

func (f *fleet) join(name string) *replica {
	f.t.Helper()
	r := &replica{fleet: f, name: name}
	r.renew()
	var err error
	if r.oplog, err = oplog.Open(f.t.Context(), f.store, f.clock.now, oplog.Shared()); err != nil {
		f.t.Fatal(err)
	}
	r.service, err = notify.New(notify.Config{
		Oplog: r.oplog, Store: f.store, Secrets: secrets{}, Sealer: sealed.Sealer{Key: []byte("the installation's key")}, Base: "http://vnfm.example/", Now: f.clock.now,
		Log:    slog.New(slog.NewTextHandler(f.logged, nil)).With("replica", name),
		Sees:   func(who auth.Identity, e oplog.Event) bool { return who.May(auth.Viewer, e.Dir) },
		Egress: egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond, Retention: 24 * time.Hour,
		Session: func() (store.Lease, bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.session, r.alive
		},
		Mine: func(id string) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.mine == nil || r.mine(id)
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	r.lcm = r.service.Lifecycle("/vnflcm/v2")
	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	for _, run := range []func(context.Context) error{r.oplog.Follow, r.service.Run} {
		g.Go(func() {
			if err := run(ctx); err != nil {
				f.t.Errorf("replica %s: %v", name, err)
			}
		})
	}
	r.kill = sync.OnceFunc(func() {
		cancel()
		g.Wait()
	})
	f.t.Cleanup(r.kill)
	return r
}

// renew is what the heartbeat of a replica does.
func (r *replica) renew() {
	r.t.Helper()
	l, err := r.store.Acquire(r.t.Context(), "member/"+r.name, r.name, sessionTime)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session, r.alive = l, true
}

func (r *replica) serve(mine func(id string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mine = mine
}

func (r *replica) subscribe(url string) *notify.Subscription {
	r.t.Helper()
	s, err := r.lcm.Create(r.t.Context(), nfvo(), notify.Request{CallbackURI: url, Filter: &notify.Filter{NotificationTypes: []string{notify.OperationNotification}}})
	if err != nil {
		r.t.Fatalf("subscribe: %v", err)
	}
	return s
}

// operate runs one operation to its end, and returns its notifications.
func (r *replica) operate() []string {
	r.t.Helper()
	r.ops++
	id := fmt.Sprintf("op%03d", r.ops)
	op := lcm.Operation{ID: id, Instance: "amf", Type: lcm.Scale, After: desired.Revision{Tree: fmt.Sprint("t", r.ops)}, VNF: lcm.VNF{VnfdID: "vnfd"}}
	if _, err := r.oplog.Born(r.t.Context(), op); err != nil {
		r.t.Fatal(err)
	}
	for _, e := range []lcm.Event{lcm.Granted, lcm.Converged} {
		if _, err := r.oplog.Record(r.t.Context(), id, func(op *lcm.Operation, _ *lcm.Instance) error { return op.Advance(e, r.clock.now(), nil) }); err != nil {
			r.t.Fatal(err)
		}
	}
	return []string{id + " STARTING", id + " PROCESSING", id + " COMPLETED"}
}

func (r *replica) serves() int { return len(r.service.States()) }

// firsts are the notifications in the order in which each came first. What comes again must be
// the same under the same id.
func (s *subscriber) firsts(t *testing.T) []string {
	t.Helper()
	var out []string
	first := map[any]string{}
	for _, n := range s.all() {
		text := fmt.Sprint(map[string]any(n))
		switch was, again := first[n["id"]]; {
		case !again:
			first[n["id"]] = text
			out = append(out, n.String())
		case was != text:
			t.Fatalf("another notification has the same id:\n %s\n %s", was, text)
		}
	}
	return out
}

func (s *subscriber) waitForFirsts(t *testing.T, want []string) {
	t.Helper()
	s.await(t, func() []string { return s.firsts(t) }, want)
}

func TestASubscriberIsServedOnByAnotherReplicaAfterAKill(t *testing.T) {
	f, s := newFleet(t), newSubscriber(t)
	one := f.join("one")
	one.subscribe(s.URL)
	kit.Until(t, "one serves the subscription", func() bool { return one.serves() == 1 })
	two := f.join("two")
	// It ends in the middle of the deliveries: one is taken without Jibe knowing it.
	killed := make(chan struct{})
	var once sync.Once
	s.set(func(notification, *http.Request) int {
		if len(s.list()) >= 7 {
			once.Do(func() {
				one.kill()
				close(killed)
			})
		}
		return http.StatusNoContent
	})
	var want []string
	for range 10 {
		want = append(want, two.operate()...)
	}
	<-killed
	want = append(want, two.operate()...)
	if two.serves() != 0 {
		t.Error("two serves what one still has")
	}
	two.renewAfter(sessionTime)
	want = append(want, two.operate()...)
	s.waitForFirsts(t, want)
	kit.Eventually(t, func() error { // the subscriber may note last what it took while one ended
		if n := len(s.list()); n != len(want)+1 {
			return fmt.Errorf("%d notifications came, want %d and the one that nobody knew of again", n, len(want))
		}
		return nil
	})
	kit.Until(t, "two empties the outbox", func() bool {
		events, err := two.oplog.Events(t.Context(), 0, 0)
		return err == nil && len(events) == 0
	})
}

// renewAfter lets time pass, in which this replica alone stays alive.
func (r *replica) renewAfter(d time.Duration) {
	r.t.Helper()
	r.clock.pass(d / 2)
	r.renew()
	r.clock.pass(d/2 + time.Second)
	r.renew()
}

func TestAReplicaThatSleptIsFencedAndStops(t *testing.T) {
	f, s := newFleet(t), newSubscriber(t)
	sleeper, awake := f.join("sleeper"), f.join("awake")
	awake.serve(func(string) bool { return false })
	sleeper.subscribe(s.URL)
	kit.Until(t, "the sleeper serves the subscription", func() bool { return sleeper.serves() == 1 })
	// It sleeps within a delivery: the request is on its way while its session ends.
	sleeps, wakes := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.set(func(notification, *http.Request) int {
		slept := false
		once.Do(func() { slept = true })
		if slept {
			close(sleeps)
			<-wakes
		}
		return http.StatusNoContent
	})
	want := awake.operate()
	<-sleeps
	awake.serve(nil)
	awake.renewAfter(sessionTime)
	s.waitForFirsts(t, want)
	want = append(want, awake.operate()...)
	s.waitForFirsts(t, want)
	before := len(s.list())
	close(wakes)
	kit.Until(t, "the sleeper drops the subscription", func() bool { return sleeper.serves() == 0 })
	if got := s.list(); len(got) > before+1 || len(got) > before && got[before] != want[0] {
		t.Errorf("the sleeper went on: %q after %d", got[before:], before)
	}
	want = append(want, sleeper.operate()...)
	s.waitForFirsts(t, want)
	if awake.serves() != 1 {
		t.Error("the replica that is awake doesn't serve the subscription")
	}
}

func TestASubscriptionIsServedWhereItIsDealtAndEndsWhereverItIsDeleted(t *testing.T) {
	f, s := newFleet(t), newSubscriber(t)
	one, two := f.join("one"), f.join("two")
	one.serve(func(string) bool { return false })
	sub := one.subscribe(s.URL)
	kit.Until(t, "two serves the subscription that one made", func() bool { return two.serves() == 1 && one.serves() == 0 })
	want := one.operate()
	s.waitForFirsts(t, want)
	states, err := one.service.AllStatesOf(t.Context(), nfvo())
	if err != nil || len(states) != 1 || !states[0].Elsewhere || states[0].ID != sub.ID {
		t.Errorf("one shows %+v, %v", states, err)
	}
	// Dealt anew, it goes over without waiting for a session's end, and nothing is missed.
	one.serve(nil)
	two.serve(func(string) bool { return false })
	want = append(want, two.operate()...)
	kit.Until(t, "one serves it", func() bool { return one.serves() == 1 && two.serves() == 0 })
	want = append(want, two.operate()...)
	s.waitForFirsts(t, want)
	if err := two.lcm.Delete(t.Context(), nfvo(), sub.ID); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "one stops", func() bool { return one.serves() == 0 })
	two.operate()
	kit.Until(t, "the outbox is emptied for nobody", func() bool {
		events, err := two.oplog.Events(t.Context(), 0, 0)
		return err == nil && len(events) == 0
	})
	if got := s.firsts(t); len(got) != len(want) {
		t.Errorf("after its end the subscriber got %q", got[len(want):])
	}
	if _, err := f.store.Get(t.Context(), "cursor/"+sub.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its cursor is there: %v", err)
	}
	if strings.Contains(f.logged.String(), "level=ERROR") {
		t.Errorf("logged:\n%s", f.logged)
	}
}

func TestEachSubscriptionIsServedByOneReplicaOfThree(t *testing.T) {
	f := newFleet(t)
	replicas := []*replica{f.join("one"), f.join("two"), f.join("three")}
	var subscribers []*subscriber
	for n := range 12 {
		s := newSubscriber(t)
		subscribers = append(subscribers, s)
		replicas[n%3].subscribe(s.URL)
	}
	served := func() int {
		n := 0
		for _, r := range replicas {
			n += r.serves()
		}
		return n
	}
	kit.Until(t, "all are served", func() bool { return served() == len(subscribers) })
	var want []string
	for n := range 6 {
		want = append(want, replicas[n%3].operate()...)
	}
	for _, s := range subscribers {
		s.waitFor(t, want...) // each once, as nobody died
	}
}
