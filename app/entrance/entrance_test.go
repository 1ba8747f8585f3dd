package entrance

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

	"github.com/jibe-vnfm/jibe/audit"
)

func TestTheSourceOfARequestIsNeverWhatAStrangerSays(t *testing.T) {
	t.Parallel()

	e := &Entrance{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
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
		if got := AddressText(e.Source(r)); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.remote, c.passed, got, c.want)
		}
	}
	if _, err := New([]string{"proxy.example"}, nil, nil); err == nil {
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
		e := &Entrance{throttle: newThrottle(throttleMemory), audit: newRecorder(log, c.anyway), spool: newSpoolBound(), log: slog.New(slog.DiscardHandler)}
		made := 0
		w := httptest.NewRecorder()
		e.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
		a.Refused(t.Context(), audit.Record{Action: "login"})
	}
	for range 10 {
		a.Refused(t.Context(), audit.Record{Identity: "anna", Action: "POST"})
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
