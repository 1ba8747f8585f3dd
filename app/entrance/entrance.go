// Package entrance is what every request passes first, and the audit log that it is recorded in. It doesn't
// know what is served behind it.
package entrance

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
)

// Entrance is what every request from outside passes first: it finds out where the request comes
// from, slows down who guesses credentials, and sees to it that what comes of the request is
// recorded.
type Entrance struct {
	proxies  []netip.Prefix
	throttle *throttle
	audit    *Recorder
	spool    *spoolBound
	failures *prometheus.CounterVec
	lines    *rate.Limiter // of the log, about failed logins
	log      *slog.Logger
}

// Why a login failed, as the metric has it.
const (
	failedWrong  = "wrong"
	failedTooFew = "none"
	failedOften  = "throttled"
)

// New makes the entrance; proxies are the networks whose X-Forwarded-For is believed.
func New(proxies []string, records *Recorder, log *slog.Logger) (*Entrance, error) {
	e := &Entrance{throttle: newThrottle(throttleMemory), audit: records, spool: newSpoolBound(), log: log, lines: rate.NewLimiter(1, 20),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_login_failures_total",
			Help: "Requests that weren't let in, by why: wrong credentials, none, or throttled (too many wrong ones before).",
		}, []string{"reason"})}
	for _, text := range proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, aerr := netip.ParseAddr(text)
			if aerr != nil {
				return nil, fmt.Errorf("--trusted-proxies: %q is neither a network, as 10.0.0.0/8, nor an address", text)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		e.proxies = append(e.proxies, p.Masked())
	}
	return e, nil
}

// Wrap lets requests in to next.
func (e *Entrance) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		source := e.Source(r)
		a, wait := e.throttle.begin(r, source)
		ctx, entry := audit.With(withAttempt(r.Context(), a), audit.Record{Source: AddressText(source), Action: r.Method, Object: r.URL.Path})
		r = r.WithContext(ctx)
		if r.Body != nil && r.Body != http.NoBody {
			b := e.spool.body(r.Body, entry)
			defer b.release()
			r.Body = b
		}
		if wait > 0 {
			e.failed(r, failedOften, a, source)
			audit.Note(ctx, func(r *audit.Record) { r.Reason = "too many wrong credentials before" + claimText(a) })
			e.audit.serve(w, r, entry, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
				answer.Problem(w, http.StatusTooManyRequests, fmt.Sprintf("too many wrong credentials came from this address, or for this name: try again in %d s", seconds(wait)))
			}))
			return
		}
		defer e.throttle.end(a)
		e.audit.serve(w, r, entry, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if a.outcome.Load() != wrong {
					return
				}
				reason := failedWrong
				if !Presented(r) {
					reason = failedTooFew
				} else {
					audit.Note(ctx, func(r *audit.Record) { r.Action, r.Reason = "login", "wrong credentials for "+r.Action+claimText(a) })
				}
				e.failed(r, reason, a, source)
			}()
			next.ServeHTTP(w, r)
		}))
	})
}

// failed counts a login that failed and, unless there are too many, logs it. Neither shows what
// was sent: where a name is asked for, people give their token.
func (e *Entrance) failed(r *http.Request, reason string, a *attempt, source netip.Addr) {
	e.failures.WithLabelValues(reason).Inc()
	if reason != failedTooFew && e.lines.Allow() {
		e.log.WarnContext(r.Context(), "login failed", "address", AddressText(source), "method", r.Method, "path", r.URL.Path, "reason", reason, "claim", a.claim)
	}
}

// claimText tells apart, within one run of the process, who somebody claimed to be, without
// saying it.
func claimText(a *attempt) string {
	if a.claim == "" {
		return ""
	}
	return " (claimed name " + a.claim[:8] + ")"
}

// AddressText is an address as people read it, "" for none.
func AddressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// Source is the address that a request comes from: that of its connection or, behind proxies that
// are trusted, the last one in X-Forwarded-For that isn't one of these.
func (e *Entrance) Source(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	at = at.Unmap()
	passed := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(passed) {
		if !e.Trusts(at) {
			return at
		}
		text = strings.TrimSpace(text)
		if host, _, err := net.SplitHostPort(text); err == nil { // some proxies add the port
			text = host
		}
		next, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			return at
		}
		at = next.Unmap().WithZone("")
	}
	return at
}

// Trusts reports whether an address is that of a proxy which is believed.
func (e *Entrance) Trusts(a netip.Addr) bool {
	return slices.ContainsFunc(e.proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Knows has the throttle let through what is known not to be a guess.
func (e *Entrance) Knows(genuine func(*http.Request) bool) { e.throttle.genuine = genuine }

// Collectors are what is measured here.
func (e *Entrance) Collectors() []prometheus.Collector { return []prometheus.Collector{e.failures} }

// Login judges credentials that a request brings in another way than in its headers: as is the request as it would have
// them there. It throttles, counts and logs them in the same way. A wait above zero is how long to wait before another try.
func (e *Entrance) Login(r, as *http.Request, by auth.Authenticator) (who auth.Identity, wait time.Duration, err error) {
	source := e.Source(r)
	a, wait := e.throttle.begin(as, source)
	if wait > 0 {
		e.failed(r, failedOften, a, source)
		audit.Note(r.Context(), func(rec *audit.Record) { rec.Reason = "too many wrong credentials before" + claimText(a) })
		return auth.Identity{}, wait, nil
	}
	defer e.throttle.end(a)

	who, err = by.Authenticate(as.WithContext(withAttempt(as.Context(), a)))
	if errors.Is(err, auth.ErrUnauthenticated) {
		e.failed(r, failedWrong, a, source)
	}
	return who, 0, err
}
