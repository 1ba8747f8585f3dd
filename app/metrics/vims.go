package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/internal/trace"
)

// mostVIMs is how many VIMs have series of their own; the others share "other". A VIM keeps its
// series until the process ends, and every file under vims/ is one.
const mostVIMs = 500

// otherSeries is the value of a label under which all is counted that has no series of its own.
const otherSeries = "other"

// vimMeters measure the requests to VIMs.
type vimMeters struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	restarts *prometheus.CounterVec
	up       *prometheus.GaugeVec

	mu sync.Mutex
	of map[string]*vimMeter
}

func newVIMMeters() *vimMeters {
	return &vimMeters{of: map[string]*vimMeter{},
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_vim_request_duration_seconds",
			Help:    "Duration of requests to VIMs until the answer began, by VIM, method (WATCH is the beginning of a watch) and status code.",
			Buckets: prometheus.ExponentialBuckets(0.002, 3, 9),
		}, []string{"vim", "method", "code"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_vim_errors_total",
			Help: "Requests to VIMs that had no answer, or one that isn't about what was asked, by VIM and cause.",
		}, []string{"vim", "cause"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_vim_watch_restarts_total",
			Help: "Watches of a VIM that were begun again. One ends by itself after some minutes, too.",
		}, []string{"vim"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "jibe_vim_up",
			Help: "1 where the last request to the VIM was answered, 0 where the VIM was away or refused the credentials.",
		}, []string{"vim"}),
	}
}

func (m *vimMeters) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.duration, m.errors, m.restarts, m.up}
}

// vimMeter is that of one VIM.
type vimMeter struct {
	all      *vimMeters
	name     string
	up       prometheus.Gauge
	restarts prometheus.Counter
	answers  sync.Map // prometheus.Observer by answerKey

	mu      sync.Mutex
	watched map[string]bool
}

type answerKey struct {
	method string
	code   int
}

// vim is the meter of a VIM.
func (m *vimMeters) vim(name string) *vimMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.of[name]; found != nil {
		return found
	}
	if len(m.of) >= mostVIMs {
		name = otherSeries
		if found := m.of[name]; found != nil {
			return found
		}
	}
	v := &vimMeter{all: m, name: name, up: m.up.WithLabelValues(name), restarts: m.restarts.WithLabelValues(name), watched: map[string]bool{}}
	m.errors.WithLabelValues(name, "unreachable") // shown before the first
	m.of[name] = v
	return v
}

// wrap measures what goes to a VIM through a transport. There are series of the VIM from the first
// request on: drivers are also made to render for what is only proposed.
func (m *vimMeters) wrap(vim string, next http.RoundTripper, tracer *trace.Tracer) http.RoundTripper {
	return &meteredVIM{next, tracer, sync.OnceValue(func() *vimMeter { return m.vim(vim) })}
}

// meteredVIM implements [http.RoundTripper].
type meteredVIM struct {
	next   http.RoundTripper
	tracer *trace.Tracer
	meter  func() *vimMeter
}

// WrappedRoundTripper lets the connections below be closed.
func (t *meteredVIM) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections closes those of the transport below.
func (t *meteredVIM) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *meteredVIM) RoundTrip(r *http.Request) (*http.Response, error) {
	method, v := r.Method, t.meter()
	if strings.Contains(r.URL.RawQuery, "watch=true") || strings.Contains(r.URL.RawQuery, "watch=1") {
		method = "WATCH"
		v.watches(r.URL.Path)
	}
	began, failed := time.Now(), true
	if ctx, span := t.tracer.Start(r.Context(), "VIM "+method, trace.Client, trace.Attribute{Key: "jibe.vim", Value: v.name},
		trace.Attribute{Key: "http.request.method", Value: r.Method}, trace.Attribute{Key: "url.path", Value: r.URL.Path}); span != nil {
		r = r.Clone(ctx)
		r.Header.Set(trace.Header, span.Context().Traceparent())
		defer func() { span.End(failed) }()
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil && errors.Is(context.Cause(r.Context()), context.Canceled) {
			return nil, err // whoever asked wants no answer any more
		}
		v.up.Set(0)
		v.all.errors.WithLabelValues(v.name, causeOf(err)).Inc()
		return nil, err
	}
	v.answer(method, resp.StatusCode).Observe(time.Since(began).Seconds())
	failed = resp.StatusCode >= http.StatusBadRequest
	cause, up := "", 1.0
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized:
		cause, up = "credentials", 0
	case code == http.StatusTooManyRequests:
		cause = "throttled"
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		cause, up = "unavailable", 0
	case code >= 500:
		cause = "server"
	}
	if cause != "" {
		v.all.errors.WithLabelValues(v.name, cause).Inc()
	}
	v.up.Set(up)
	return resp, nil
}

// answer is the histogram of answers with a code. Codes that HTTP doesn't know share one.
func (v *vimMeter) answer(method string, code int) prometheus.Observer {
	if code < 100 || code > 599 {
		code = 0
	}
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, "WATCH":
	default:
		method = otherSeries
	}
	key := answerKey{method, code}
	if found, ok := v.answers.Load(key); ok {
		return found.(prometheus.Observer)
	}
	o := v.all.duration.WithLabelValues(v.name, method, strconv.Itoa(code))
	v.answers.Store(key, o)
	return o
}

// mostWatches bounds the paths of watches that are remembered for one VIM.
const mostWatches = 1000

// watches counts a watch that isn't the first of its path.
func (v *vimMeter) watches(path string) {
	v.mu.Lock()
	again := v.watched[path]
	if !again && len(v.watched) < mostWatches {
		v.watched[path] = true
	}
	v.mu.Unlock()
	if again {
		v.restarts.Inc()
	}
}

// causeOf is why a request had no answer.
func causeOf(err error) string {
	var slow net.Error
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &untrusted), errors.As(err, &unknown):
		return "certificate"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "timeout"
	}
	return "unreachable"
}
