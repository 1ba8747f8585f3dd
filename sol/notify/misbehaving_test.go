package notify_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// state is how delivery to a subscription goes; the zero value before it has begun.
func (w *world) state(id string) notify.Delivery {
	for _, s := range w.service.States() {
		if s.ID == id {
			return s.Delivery
		}
	}
	return notify.Delivery{}
}

// hijacked takes the connection and does with it what no server should.
func hijacked(f func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		f(c)
	}
}

// endless writes until the other side has enough.
func endless(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

func TestASubscriberThatMisbehavesGetsItsNotificationsLaterAndDelaysNobody(t *testing.T) {
	w := newWorldWith(t, func(c *notify.Config) {
		c.SkipTest, c.CallTimeout, c.RetryMax = true, 2*time.Second, 100*time.Millisecond
	})
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler()) // whose certificate nobody knows
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	cases := []struct {
		name, reason string
		misbehave    http.HandlerFunc // nil where uri says it all
		uri          string
	}{
		{name: "slow", reason: "connection", misbehave: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{name: "slow in its answer", reason: "connection", misbehave: hijacked(func(c net.Conn) {
			for range 200 {
				if _, err := io.WriteString(c, "H"); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond) // this is what is slow
			}
		})},
		{name: "closes", reason: "connection", misbehave: hijacked(func(net.Conn) {})},
		{name: "lost in its answer", reason: "connection", misbehave: hijacked(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 204 No Con") })},
		{name: "an endless header", reason: "connection", misbehave: hijacked(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n")
			endless(c, "X-More: "+strings.Repeat("x", 1000)+"\r\n")
		})},
		{name: "not HTTP", reason: "connection", misbehave: hijacked(func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n") })},
		{name: "redirects", reason: "redirect", misbehave: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}},
		{name: "gigabytes of a refusal", reason: "unavailable", misbehave: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, strings.Repeat("x", 32<<10))
		}},
		{name: "400", reason: "refused", misbehave: status(http.StatusBadRequest)},
		{name: "500", reason: "unavailable", misbehave: status(http.StatusInternalServerError)},
		{name: "401", reason: "unauthorized", misbehave: status(http.StatusUnauthorized)},
		{name: "nobody there", reason: "connection", uri: gone.URL},
		{name: "an unknown authority", reason: "connection", uri: secure.URL},
		{name: "no TLS", reason: "connection", uri: "https" + strings.TrimPrefix(other.URL, "http")},
		{name: "no name", reason: "connection", uri: "https://subscriber.invalid/"},
	}
	good := newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: good.URL})
	behave := make([]atomic.Bool, len(cases))
	took := make([]*subscriber, len(cases))
	ids := make([]string, len(cases))
	for i, c := range cases {
		uri := c.uri
		if c.misbehave != nil {
			took[i] = newSubscriber(t)
			well := took[i].Config.Handler
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if behave[i].Load() {
					well.ServeHTTP(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				c.misbehave(w, r)
			}))
			t.Cleanup(s.Close)
			uri = s.URL
		}
		ids[i] = w.subscribe(notify.Request{CallbackURI: uri, Authentication: &notify.Authentication{
			AuthType: []string{notify.Basic}, Basic: &notify.BasicParams{UserName: "nfvo", Password: password}}}).ID
	}
	w.operate("amf", lcm.Scale)
	want := []string{"VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED"}
	good.waitForAgain(t, want...) // again where the machine is too busy for it to answer in time
	for i, c := range cases {
		kit.Until(t, c.name+" failed as "+c.reason, func() bool { return w.state(ids[i]).Failures[c.reason] > 0 })
		d := w.state(ids[i])
		if d.Reason == "" || d.Error == "" || d.LastFailure.IsZero() || d.Waiting != 4 || d.Lag <= 0 || strings.Contains(d.Error, password) {
			t.Errorf("%s: %+v", c.name, d)
		}
		behave[i].Store(true)
		if took[i] == nil {
			continue
		}
		// One that was cut off may have been taken, and then comes again.
		took[i].waitForAgain(t, want...)
		kit.Until(t, c.name+" has nothing to wait for", func() bool {
			d := w.state(ids[i])
			return d.Waiting == 0 && d.Lag == 0 && !d.LastDelivery.IsZero()
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	wantNoSecret(t, w)
}

func TestAnEndlessAnswerIsNotReadToItsEnd(t *testing.T) {
	w := newWorldWith(t, func(c *notify.Config) { c.SkipTest = true })
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		endless(w, strings.Repeat("x", 32<<10))
	}))
	t.Cleanup(s.Close)
	sub := w.subscribe(notify.Request{CallbackURI: s.URL})
	w.operate("amf", lcm.Scale)
	kit.Until(t, "four notifications are taken", func() bool { return w.state(sub.ID).Delivered == 4 })
	if n := calls.Load(); n != 4 {
		t.Errorf("%d calls", n)
	}
}

func TestHowDeliveryWentIsKnownAfterARestart(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	sub := w.subscribe(notify.Request{CallbackURI: s.URL, Filter: &notify.Filter{OperationStates: []string{"COMPLETED"}}})
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 COMPLETED")
	s.set(func(notification, *http.Request) int { return http.StatusServiceUnavailable })
	for range 3 {
		w.operate("amf", lcm.Scale)
	}
	check := func() {
		t.Helper()
		kit.Until(t, "three wait", func() bool {
			d := w.state(sub.ID)
			return d.Waiting == 3 && d.Reason == "unavailable" && !d.LastDelivery.IsZero() && !d.LastFailure.IsZero() && d.Lag > 0
		})
	}
	check()
	w.restart()
	check()
	w.clock.pass(2 * time.Hour) // longer than they are kept
	kit.Until(t, "they are given up", func() bool {
		d := w.state(sub.ID)
		return d.Waiting == 0 && d.Dropped == 3 && d.Lag == 0
	})
	if n := strings.Count(w.logged.String(), "a notification was given up"); n != 3 {
		t.Errorf("the log says %d times that one was given up", n)
	}
	s.set(nil)
	w.operate("amf", lcm.Heal)
	s.waitForAgain(t, "VnfIdentifierCreationNotification amf", "op001 COMPLETED", "op005 COMPLETED")
}

func TestASubscriberIsCalledAgainAtOnceWhenATokenHasExpired(t *testing.T) {
	w := newWorldWith(t, func(c *notify.Config) { c.RetryMin, c.RetryMax = time.Hour, time.Hour })
	s := newSubscriber(t)
	var issued atomic.Int64
	tokens := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"access_token":"token-%d","token_type":"Bearer"}`, issued.Add(1))
	}))
	t.Cleanup(tokens.Close)
	s.authorized = func(r *http.Request) bool {
		return r.Header.Get("Authorization") == fmt.Sprintf("Bearer token-%d", issued.Load())
	}
	w.subscribe(notify.Request{CallbackURI: s.URL, Filter: &notify.Filter{OperationStates: []string{"COMPLETED"}, NotificationTypes: []string{notify.OperationNotification}},
		Authentication: &notify.Authentication{AuthType: []string{notify.ClientCredentials},
			ClientCredentials: &notify.ClientCredentialsParams{ClientID: "jibe", ClientPassword: password, TokenEndpoint: tokens.URL}}})
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "op001 COMPLETED")
	issued.Add(1) // the one in use isn't taken any more
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "op001 COMPLETED", "op002 COMPLETED")
}

func TestATokenEndpointThatMisbehavesIsNoSecretsPlace(t *testing.T) {
	w := newWorld(t)
	s := newSubscriber(t)
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for name, f := range map[string]http.HandlerFunc{
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"gigabytes":    func(w http.ResponseWriter, _ *http.Request) { endless(w, strings.Repeat("x", 32<<10)) },
		"not JSON":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, password) },
		"no token":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"closes":       hijacked(func(net.Conn) {}),
		"says no, why": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, password, http.StatusForbidden) },
	} {
		tokens := httptest.NewServer(f)
		_, err := w.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{notify.ClientCredentials},
			ClientCredentials: &notify.ClientCredentialsParams{ClientID: "jibe", ClientPassword: password, TokenEndpoint: tokens.URL + "/?key=" + password}}})
		if !errors.Is(err, notify.ErrCallback) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", name, err)
		}
		tokens.Close()
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect was followed")
	}
}
