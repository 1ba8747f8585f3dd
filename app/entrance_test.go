package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
)

// clock is a time that the test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// try is one request with a token, and a name where it isn't "", that the throttle lets in or not.
func try(th *throttle, source, name, token string, outcome int32) (wait time.Duration) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if name != "" {
		r.SetBasicAuth(name, token)
	} else {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, wait := th.begin(r, netip.MustParseAddr(source))
	if wait == 0 {
		a.outcome.Store(outcome)
		th.end(a)
	}
	return wait
}

func newTestThrottle() (*throttle, *clock) {
	c := &clock{time.Unix(1_000_000, 0)}
	th := newThrottle(throttleMemory)
	th.now = c.now
	return th, c
}

func TestAnAddressThatGuessesHasToWaitAndThenMayGuessOnceInAWhile(t *testing.T) {
	t.Parallel()

	th, c := newTestThrottle()
	guesses := 0
	for i := range 1000 {
		if try(th, "192.0.2.1", "", fmt.Sprint("guess", i), wrong) == 0 {
			guesses++
		}
	}
	if guesses != 20 {
		t.Errorf("%d guesses at once", guesses)
	}
	for range 600 { // ten minutes
		c.at = c.at.Add(time.Second)
		if try(th, "192.0.2.1", "", fmt.Sprint("guess", guesses), wrong) == 0 {
			guesses++
		}
	}
	if guesses > 20+301 || guesses < 20+298 {
		t.Errorf("%d guesses in ten minutes", guesses)
	}
	if try(th, "192.0.2.2", "", "x", wrong) != 0 {
		t.Error("another address has to wait, too")
	}
	if wait := try(th, "192.0.2.1", "", "guess", wrong); wait <= 0 || wait > 2*time.Second {
		t.Errorf("told to wait %v", wait)
	}
}

func TestAddressesOfOneNetworkOfIPv6GuessTogether(t *testing.T) {
	t.Parallel()

	th, _ := newTestThrottle()
	guesses := 0
	for i := range 100 {
		if try(th, fmt.Sprintf("2001:db8::%x", i+1), "", fmt.Sprint("guess", i), wrong) == 0 {
			guesses++
		}
	}
	if guesses != 20 {
		t.Errorf("%d guesses", guesses)
	}
	if try(th, "2001:db8:0:1::1", "", "x", wrong) != 0 {
		t.Error("another network has to wait, too")
	}
}

func TestOneNameIsGuessedAtNoFasterFromManyAddresses(t *testing.T) {
	t.Parallel()

	th, _ := newTestThrottle()
	guesses := 0
	for i := range 1000 {
		if try(th, fmt.Sprintf("192.0.%d.%d", i/200, i%200), "admin", fmt.Sprint("guess", i), wrong) == 0 {
			guesses++
		}
	}
	if guesses != 50 {
		t.Errorf("%d guesses", guesses)
	}
	if try(th, "198.51.100.1", "anna", "x", wrong) != 0 {
		t.Error("another name has to wait, too")
	}
}

func TestWhoWasRightIsLetThroughWhateverOthersGuessFromHisAddressAndForHisName(t *testing.T) {
	t.Parallel()

	th, c := newTestThrottle()
	if try(th, "192.0.2.1", "anna", "right", right) != 0 {
		t.Fatal("nobody is let in")
	}
	for i := range 1000 {
		try(th, "192.0.2.1", "anna", fmt.Sprint("guess", i), wrong)
	}
	for range 100 {
		if try(th, "192.0.2.1", "anna", "right", right) != 0 {
			t.Fatal("who was right has to wait")
		}
	}
	// Once it is wrong, as it was revoked, it is a guess like any other.
	try(th, "192.0.2.1", "anna", "right", wrong)
	if try(th, "192.0.2.1", "anna", "right", wrong) == 0 {
		t.Error("who isn't right any more is let through")
	}
	// Who is right for the first time waits for his turn, and then isn't slowed down.
	c.at = c.at.Add(2 * time.Minute)
	if try(th, "192.0.2.1", "otto", "also right", right) != 0 {
		t.Error("who is right never has a turn")
	}
}

func TestManyRequestsOfOneClientBeforeItIsKnownAreNoGuesses(t *testing.T) {
	t.Parallel()

	th, _ := newTestThrottle()
	var all []*attempt
	for i := range 500 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Auth-Token", "right")
		a, wait := th.begin(r, netip.MustParseAddr("192.0.2.1"))
		if wait > 0 {
			t.Fatalf("request %d has to wait", i)
		}
		all = append(all, a)
	}
	for _, a := range all {
		a.outcome.Store(unjudged) // who asks was gone before it was known
		th.end(a)
	}
	if len(th.trying) != 0 {
		t.Errorf("%v is kept of requests that ended", th.trying)
	}
	if try(th, "192.0.2.1", "", "x", wrong) != 0 {
		t.Error("requests that nobody judged count as guesses")
	}
	// The same in parallel, and wrong: the address owes them.
	for range 30 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Auth-Token", "wrong")
		a, _ := th.begin(r, netip.MustParseAddr("192.0.2.9"))
		a.outcome.Store(wrong)
		defer th.end(a)
	}
}

func TestAGuesserOfManyAddressesAndNamesTakesNoMoreMemoryThanThereIs(t *testing.T) {
	t.Parallel()

	th := newThrottle(64 << 10) // of some 300 buckets
	for range 20 {
		try(th, "192.0.2.1", "", "x", wrong)
	}
	for i := range 2000 {
		try(th, fmt.Sprintf("198.51.%d.%d", i/200, i%200), fmt.Sprint("name", i), "x", wrong)
	}
	if n := len(th.trying); n != 0 {
		t.Errorf("%d attempts are kept", n)
	}
	if try(th, "192.0.2.1", "", "x", wrong) != 0 {
		t.Error("all who ever guessed are remembered")
	}
	if try(th, "192.0.2.1", "anna", "right", right) != 0 {
		t.Error("nobody is let in any more")
	}
}

func TestTheSourceOfARequestIsNeverWhatAStrangerSays(t *testing.T) {
	t.Parallel()

	e := &entrance{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	for _, c := range []struct {
		remote, want string
		passed       []string
	}{
		{"192.0.2.1:99", "192.0.2.1", nil},
		{"192.0.2.1:99", "192.0.2.1", []string{"203.0.113.7"}},
		{"10.0.0.1:99", "203.0.113.7", []string{"203.0.113.7"}},
		{"10.0.0.1:99", "203.0.113.7", []string{"127.0.0.1, 203.0.113.7"}},
		{"10.0.0.1:99", "203.0.113.7", []string{"198.51.100.1", "203.0.113.7", "10.2.3.4"}},
		{"10.0.0.1:99", "10.0.0.1", []string{"203.0.113.7, nonsense"}},
		{"10.0.0.1:99", "10.0.0.1", []string{""}},
		{"10.0.0.1:99", "10.0.0.1", nil},
		{"10.0.0.1:99", "203.0.113.7", []string{"203.0.113.7:4711"}},
		{"[fd00::1]:99", "2001:db8::1", []string{"[2001:db8::1]:4711"}},
		{"[::ffff:192.0.2.1]:99", "192.0.2.1", nil},
		{"[fe80::1%eth0]:99", "fe80::1%eth0", nil},
		{"@", "", nil},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		for _, v := range c.passed {
			r.Header.Add("X-Forwarded-For", v)
		}
		if got := addressText(e.source(r)); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.remote, c.passed, got, c.want)
		}
	}
	s := &Server{Options: Options{Audit: AuditOptions{TrustedProxies: []string{"proxy.example"}}}}
	if _, err := s.newEntrance(); err == nil {
		t.Error("a name was taken for a network")
	}
}

// broken is an audit log that takes nothing, from when the test says so.
type broken struct {
	audit.Memory
	ready, record error
}

func (b *broken) Ready() error { return b.ready }

func (b *broken) Record(ctx context.Context, r audit.Record) error {
	if b.record != nil {
		return b.record
	}
	return b.Memory.Record(ctx, r)
}

func TestNoChangeIsMadeOrConfirmedThatIsNotOnRecord(t *testing.T) {
	t.Parallel()

	full := fmt.Errorf("%w: no space left on device", audit.ErrUnavailable)
	for _, c := range []struct {
		name          string
		ready, record error
		anyway        bool
		method        string
		want, made    int
	}{
		{"all is well", nil, nil, false, "POST", 201, 1},
		{"nothing can be recorded", full, full, false, "POST", 503, 0},
		{"what is read isn't recorded", full, full, false, "GET", 201, 1},
		{"it fails after the change", nil, full, false, "POST", 503, 1},
		{"it is allowed to", full, full, true, "POST", 201, 1},
	} {
		log := &broken{ready: c.ready, record: c.record}
		e := &entrance{throttle: newThrottle(throttleMemory), audit: newRecorder(log, c.anyway), spool: newSpoolBound(), log: slog.New(slog.DiscardHandler)}
		made := 0
		w := httptest.NewRecorder()
		e.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			made++
			w.Header().Set("Location", "http://vnfm.example/x")
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "body")
		})).ServeHTTP(w, httptest.NewRequest(c.method, "/x", nil))
		if w.Code != c.want || made != c.made || w.Code == 503 && (w.Header().Get("Location") != "" || strings.Contains(w.Body.String(), "body") ||
			!strings.Contains(w.Body.String(), "no space left on device")) {
			t.Errorf("%s: %d %v %s, made %d times", c.name, w.Code, w.Header(), w.Body, made)
		}
	}
}

func TestRecordsOfRefusalsAreBoundedAndTellWhatWasLeftOut(t *testing.T) {
	t.Parallel()

	log := &audit.Memory{}
	a := newRecorder(log, false)
	for range 10_000 {
		a.refused(t.Context(), audit.Record{Action: "login"})
	}
	for range 10 {
		a.refused(t.Context(), audit.Record{Identity: "anna", Action: "POST"})
	}
	all := log.Records()
	kept, omitted := 0, int(a.omitted.Load())
	for _, r := range all {
		omitted += r.Omitted
		if r.Action == "login" {
			kept++
		} else if r.Identity != "anna" {
			t.Errorf("%+v", r)
		}
	}
	if kept < strangersAtOnce || kept > 2*strangersAtOnce || kept+omitted != 10_000 || len(all) != kept+10 {
		t.Errorf("%d records, of which %d of strangers; %d are told to be left out", len(all), kept, omitted)
	}
}

func TestOneCallerCanNotFillTheDiskWithBodiesAndTakesNothingFromOthers(t *testing.T) {
	t.Parallel()

	s := newSpoolBound()
	s.most = 1000
	body := func(who string, n int) *spooledBody {
		_, entry := audit.With(t.Context(), audit.Record{Identity: who})
		return s.body(io.NopCloser(strings.NewReader(strings.Repeat("x", n))), entry)
	}
	first, second, other := body("anna", 600), body("anna", 600), body("otto", 600)
	if _, err := io.Copy(io.Discard, first); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, other); err != nil {
		t.Error(err)
	}
	_, err := io.Copy(io.Discard, second)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); !tooLarge {
		t.Errorf("%v", err)
	}
	first.release()
	second.release()
	other.release()
	if len(s.used) != 0 {
		t.Errorf("%v is kept of requests that ended", s.used)
	}
	if _, err := io.Copy(io.Discard, body("anna", 900)); err != nil {
		t.Error(err)
	}
}

func TestMetricsAreForViewersUnlessTheyAreOpen(t *testing.T) {
	t.Parallel()

	for _, open := range []bool{false, true} {
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for who, a := range map[string]auth.Authenticator{"known": auth.Anyone{}, "unknown": nobody{}, "of one project": confined{projects: []string{"core"}}, "an element manager": confined{em: "em-1"}} {
			server := &Server{Options: Options{OpenMetrics: open}, auth: a}
			w := httptest.NewRecorder()

			server.guardMetrics(ok).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))

			if want := who == "known" || open; (w.Code == http.StatusOK) != want {
				t.Errorf("%s, open %v: %d", who, open, w.Code)
			}
			if want := who == "known" || open; server.showsReasons(readyz()) != want {
				t.Errorf("%s, open %v: reasons are shown: %v", who, open, !want)
			}
		}
	}
}

func TestAStrangerLearnsNoReasonFromReadyz(t *testing.T) {
	t.Parallel()
	const reason = "redis.internal:6379 refuses the password"

	for who, a := range map[string]auth.Authenticator{"known": auth.Anyone{}, "unknown": nobody{}, "of one project": confined{projects: []string{"core"}}} {
		server := &Server{auth: a}
		w := httptest.NewRecorder()

		server.answerReady(w, readyz(), errors.New(reason))

		if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), reason) != (who == "known") {
			t.Errorf("%s: %d %s", who, w.Code, w.Body)
		}

		w = httptest.NewRecorder()
		server.answerReady(w, readyz(), nil)
		if w.Code != http.StatusOK {
			t.Errorf("%s: a probe of what is ready is answered with %d", who, w.Code)
		}
	}
}

func readyz() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	r.Header.Set("Authorization", "Bearer a-token")

	return r
}

// confined lets a viewer of some projects, or of an element manager's instances, in.
type confined struct {
	projects []string
	em       string
}

func (c confined) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{Name: "anna", EM: c.em, Permissions: []auth.Permission{{Role: auth.Viewer, Projects: c.projects}}}, nil
}

// nobody lets nobody in.
type nobody struct{}

func (nobody) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{}, auth.ErrUnauthenticated
}
