package notify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"reflect"
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
	"github.com/jibe-vnfm/jibe/test/published"
)

// secrets seals by a reversible code, which is all that a test needs to tell
// clear text from sealed.
type secrets struct{}

func (secrets) Encrypt(clear string) (string, error) {
	return desired.RefAge + base64.StdEncoding.EncodeToString([]byte(clear)), nil
}

func (secrets) Resolve(ref string) (string, error) {
	code, ok := strings.CutPrefix(ref, desired.RefAge)
	if !ok {
		return "", errors.New("not a reference")
	}
	clear, err := base64.StdEncoding.DecodeString(code)
	return string(clear), err
}

// syncBuffer is a log that goroutines may write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// clock is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Millisecond)
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// world is a store, an operation log and a service over them that can be stopped and begun again.
type world struct {
	t       *testing.T
	store   store.Store
	oplog   *oplog.Log
	service *notify.Service
	lcm     notify.Lifecycle
	clock   *clock
	logged  *syncBuffer
	ops     int
	stop    func()
	// change is applied to the service's settings at each start.
	change func(*notify.Config)
}

// nfvo is who subscribes where it doesn't matter who does.
func nfvo() auth.Identity {
	return auth.Identity{Name: "nfvo", Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Operator}}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, nil)
}

func newWorldWith(t *testing.T, change func(*notify.Config)) *world {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "jibe.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return newWorldOn(t, s, change)
}

func newWorldOn(t *testing.T, s store.Store, change func(*notify.Config)) *world {
	t.Helper()
	w := &world{t: t, store: s, clock: &clock{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}, logged: &syncBuffer{}, change: change}
	w.restart()
	t.Cleanup(func() { w.stop() })
	return w
}

// restart is what a new process does on the same store.
func (w *world) restart() {
	if w.stop != nil {
		w.stop()
	}
	var err error
	if w.oplog, err = oplog.Open(context.Background(), w.store, w.clock.now); err != nil {
		w.t.Fatal(err)
	}
	config := notify.Config{
		Oplog: w.oplog, Store: w.store, Secrets: secrets{}, Sealer: sealed.Sealer{Key: []byte("the installation's key")}, Base: "http://vnfm.example/", Now: w.clock.now,
		Log:    slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Sees:   func(who auth.Identity, e oplog.Event) bool { return who.May(auth.Viewer, e.Dir) },
		Egress: egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}), RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond, Retention: time.Hour,
	}
	if w.change != nil {
		w.change(&config)
	}
	if w.service, err = notify.New(config); err != nil {
		w.t.Fatal(err)
	}
	w.lcm = w.service.Lifecycle("/vnflcm/v2")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.service.Run(ctx) }()
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("run: %v", err)
			}
		})
	}
}

func (w *world) subscribe(req notify.Request) *notify.Subscription {
	w.t.Helper()
	s, err := w.lcm.Create(w.t.Context(), nfvo(), req)
	if err != nil {
		w.t.Fatalf("subscribe: %v", err)
	}
	return s
}

// operate runs one operation to its end: three events.
func (w *world) operate(instance string, t lcm.Type) string {
	w.t.Helper()
	w.ops++
	op := lcm.Operation{ID: fmt.Sprintf("op%03d", w.ops), Instance: instance, Type: t,
		After: desired.Revision{Tree: fmt.Sprint("t", w.ops)}, VNF: lcm.VNF{Name: "name of " + instance, VnfdID: "vnfd"}}
	if _, err := w.oplog.Born(w.t.Context(), op); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range []lcm.Event{lcm.Granted, lcm.Converged} {
		if _, err := w.oplog.Record(w.t.Context(), op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			return op.Advance(e, w.clock.now(), nil)
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	return op.ID
}

func (w *world) create(instance string) {
	w.t.Helper()
	if err := w.oplog.Created(w.t.Context(), instance, lcm.VNF{VnfdID: "vnfd"}, desired.Revision{}); err != nil {
		w.t.Fatal(err)
	}
}

// subscriber is a real server that takes notifications.
type subscriber struct {
	*httptest.Server
	mu      sync.Mutex
	took    []notification
	tests   int
	refused int
	// answer, where it isn't nil, decides on the status of each POST.
	answer func(n notification, r *http.Request) int
	// authorized, where it isn't nil, decides on every request.
	authorized func(r *http.Request) bool
}

// notification is what a client that knows nothing of Jibe's types reads.
type notification map[string]any

func (n notification) String() string {
	s := fmt.Sprint(n["notificationType"], " ", n["vnfInstanceId"])
	if state, ok := n["operationState"]; ok {
		s = fmt.Sprint(n["vnfLcmOpOccId"], " ", state)
	}
	return s
}

func newSubscriber(t *testing.T) *subscriber {
	t.Helper()
	published.Held(t)
	s := &subscriber{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		authorized, answer := s.authorized, s.answer
		s.mu.Unlock()
		if r.Header.Get("Version") != "2.0.0" {
			t.Errorf("%s with Version %q", r.Method, r.Header.Get("Version"))
		}
		if authorized != nil && !authorized(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tests++
			w.WriteHeader(http.StatusNoContent)
			return
		}
		body, err := io.ReadAll(r.Body)
		var n notification
		if err != nil || json.Unmarshal(body, &n) != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("unreadable notification %q, %v", body, err)
		}
		if err := published.Notification(body); err != nil {
			t.Errorf("the notification %s doesn't conform: %v", body, err)
		}
		status := http.StatusNoContent
		if answer != nil {
			status = answer(n, r)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if status == http.StatusNoContent {
			s.took = append(s.took, n)
		} else {
			s.refused++
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *subscriber) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, n := range s.took {
		out = append(out, n.String())
	}
	return out
}

func (s *subscriber) all() []notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]notification(nil), s.took...)
}

func (s *subscriber) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

func (s *subscriber) set(answer func(notification, *http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// distinct are the notifications taken, without those that came again: delivery is at
// least once, and one that was taken right before a restart may come after it too. One
// that comes again is the same, and follows the one that it repeats.
func (s *subscriber) distinct(t *testing.T) []string {
	t.Helper()
	var out []string
	first := map[any]notification{}
	var last any
	for _, n := range s.all() {
		id := n["id"]
		if id == nil {
			t.Fatalf("a notification without an id: %v", map[string]any(n))
		}
		switch before, again := first[id]; {
		case !again:
			first[id] = n
			out = append(out, n.String())
		case id != last || !reflect.DeepEqual(before, n):
			t.Fatalf("sent again out of turn or as another one:\n %v\n %v", map[string]any(before), map[string]any(n))
		}
		last = id
	}
	return out
}

// waitFor waits for these notifications, each of which comes once.
func (s *subscriber) waitFor(t *testing.T, want ...string) {
	t.Helper()
	s.await(t, s.list, want)
}

// waitForAgain is waitFor after a restart, where one that was taken may come again.
func (s *subscriber) waitForAgain(t *testing.T, want ...string) {
	t.Helper()
	s.await(t, func() []string { return s.distinct(t) }, want)
}

func (s *subscriber) await(t *testing.T, list func() []string, want []string) {
	t.Helper()
	kit.Until(t, fmt.Sprintf("%d notifications", len(want)), func() bool { return len(list()) >= len(want) })
	if got := list(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got\n %q\nwant\n %q", got, want)
	}
}
