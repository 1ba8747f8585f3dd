package openstack_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// other is a server at another address of this machine, which counts who calls it.
func other(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	var called atomic.Int64
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) })}}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, &called
}

// lookFrom observes through a guard that lets 127.0.0.1 pass alone.
func lookFrom(t *testing.T, url string) error {
	t.Helper()
	d, err := openstack.New(vimOf(url), openstack.Options{Egress: egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return observe(t, d)
}

func TestACatalogueLeadsToNoAddressThatIsNotCalledOtherwise(t *testing.T) {
	t.Parallel()

	elsewhere, called := other(t)
	// A Keystone whose catalogue has another address of Heat.
	front := keystone(t, nil)
	inner := front.Config.Handler
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		for name, value := range answer.Header() {
			w.Header()[name] = value
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(strings.ReplaceAll(answer.Body.String(), front.URL+"/orchestration", elsewhere+"/orchestration")))
	})
	err := lookFrom(t, front.URL)
	if _, no := errors.AsType[*egress.RefusedError](err); !no || called.Load() != 0 {
		t.Errorf("%v, and it was called %d times", err, called.Load())
	}
}

func TestACatalogueOfPlainHTTPIsSentNoToken(t *testing.T) {
	t.Parallel()

	front := keystone(t, nil)
	inner := front.Config.Handler
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		for name, value := range answer.Header() {
			w.Header()[name] = value
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write([]byte(strings.ReplaceAll(answer.Body.String(), front.URL+"/orchestration", "http://heat.example/orchestration")))
	})
	if err := lookFrom(t, front.URL); err == nil || !strings.Contains(err.Error(), "--allow-credentials-over-http") {
		t.Errorf("got %v", err)
	}
}

func TestARedirectTakesNoTokenElsewhere(t *testing.T) {
	t.Parallel()

	elsewhere, called := other(t)
	s := keystone(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/orchestration/stacks" {
			return false
		}
		http.Redirect(w, r, elsewhere, http.StatusFound)
		return true
	})
	d := connect(t, vimOf(s.URL), openstack.Options{})
	if err := observe(t, d); err == nil || called.Load() != 0 {
		t.Errorf("%v, and the other server was called %d times", err, called.Load())
	}
}

// An instance's own connection may lead to a server of the caller who gave it.
func TestACloudThatAnswersWithoutEndIsLeft(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"token": {"expires_at": "`))
		for text := []byte(strings.Repeat("x", 1<<20)); ; {
			n, err := w.Write(text)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)

	err := lookFrom(t, s.URL)

	if !errors.Is(err, egress.ErrTooLong) || sent.Load() > 256<<20 {
		t.Errorf("%v after %d MiB", err, sent.Load()>>20)
	}
}
