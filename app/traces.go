package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/internal/trace/otlp"
)

// observers measure and follow what the process does.
type observers struct {
	meters *metrics.Meters
	// tracer, exporter and arrivals are nil where nothing is traced.
	tracer   *trace.Tracer
	exporter *otlp.Exporter
	arrivals *arrivals
}

// TraceOptions say whether and where operations are traced.
type TraceOptions struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP; "" traces nothing.
	Endpoint string
	// HeadersFile has the headers that go with each request, a line each, as "Name: value"; ""
	// is none.
	HeadersFile string
	// Ratio is the share of operations that are traced, above 0 and at most 1.
	Ratio float64
}

// openTraces makes what traces, where that is asked for.
func (s *Server) openTraces() error {
	o := s.Trace
	if o.Endpoint == "" {
		if o.HeadersFile != "" {
			return errors.New("--otlp-headers-file is of no use without --otlp-endpoint: give both or neither")
		}
		return nil
	}
	if !(o.Ratio > 0 && o.Ratio <= 1) {
		return fmt.Errorf("--trace-ratio %v: want a number above 0 and at most 1, as 0.1", o.Ratio)
	}
	headers, err := readHeaders(o.HeadersFile)
	if err != nil {
		return fmt.Errorf("headers for the collector of traces (--otlp-headers-file): %w", err)
	}
	transport, err := peer.NewTransport(s.egress.ForConfigured(), peer.TLS{}, 0)
	if err != nil {
		return err
	}
	s.exporter, err = otlp.New(otlp.Options{
		Endpoint: o.Endpoint, Headers: headers, Transport: confidentialHeaders{transport, s, len(headers) > 0}, Log: s.Log,
		Resource: []trace.Attribute{{Key: "service.name", Value: "jibe"}, {Key: "service.version", Value: s.Version}, {Key: "service.instance.id", Value: processID()}},
	})
	if err != nil {
		return fmt.Errorf("--otlp-endpoint: %w", err)
	}
	s.tracer = trace.New(s.exporter, o.Ratio)
	s.arrivals, err = newArrivals(s.tracer)
	return err
}

// runTraces sends spans until ctx ends.
func (s *Server) runTraces(ctx context.Context) error {
	if s.exporter == nil {
		return nil
	}
	return s.exporter.Run(ctx)
}

// confidentialHeaders sends headers that may be credentials only where the guard lets credentials go.
type confidentialHeaders struct {
	next  http.RoundTripper
	s     *Server
	holds bool
}

// RoundTrip implements [http.RoundTripper].
func (c confidentialHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.holds {
		if err := c.s.egress.MayCarryCredentials(r.URL); err != nil {
			return nil, err
		}
	}
	return c.next.RoundTrip(r)
}

// mostHeaders bounds the file of headers, bytes.
const mostHeaders = 64 << 10

// readHeaders reads a file of headers. Its errors don't quote it: it may hold credentials.
func readHeaders(file string) (http.Header, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
		return nil, err
	case len(text) > mostHeaders:
		return nil, fmt.Errorf("%s is longer than %d bytes", file, mostHeaders)
	}
	headers := http.Header{}
	for n, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(string(line), ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !headerName(name) || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%s:%d: want a header, as Authorization: Bearer TOKEN", file, n+1)
		}
		headers.Add(name, value)
	}
	return headers, nil
}

func headerName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}

// tracedRequest is a request under way.
type tracedRequest struct {
	tracer *trace.Tracer
	client trace.Context // nowhere where the client doesn't trace

	mu         sync.Mutex
	operations []string // that it has begun
}

type tracedRequestKey struct{}

// began notes that the request under way has begun an operation. It is false where none is.
func beganOperation(ctx context.Context, operation string) bool {
	r, ok := ctx.Value(tracedRequestKey{}).(*tracedRequest)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.operations, operation) {
		r.operations = append(r.operations, operation)
	}
	return true
}

// of is where the request belongs: to the operation that it has begun, else to the client's trace.
func (t *tracedRequest) of() trace.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.operations) > 0 {
		return t.tracer.At(t.operations[0], spanRequest)
	}
	return t.client
}

// requestTrace is where the request of a context belongs.
func requestTrace(ctx context.Context) trace.Context {
	if r, ok := ctx.Value(tracedRequestKey{}).(*tracedRequest); ok {
		return r.of()
	}
	return trace.Context{}
}

// spanRequest is the name of the span of the request that an operation begins with.
const spanRequest = "request"

// traceRequests follows requests: those that begin an operation are part of its trace, and those
// whose client traces are part of the client's.
func (s *Server) traceRequests(next http.Handler) http.Handler {
	if !s.tracer.On() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := trace.Parse(r.Header.Get(trace.Header))
		if strings.HasPrefix(r.URL.Path, "/git/") || !client.Valid() && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			next.ServeHTTP(w, r)
			return
		}
		t := &tracedRequest{tracer: s.tracer, client: client}
		a := &tracedAnswer{ResponseWriter: w, request: t, status: http.StatusOK}
		began := time.Now()
		defer func() { t.end(r, began, a.status) }()
		next.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), tracedRequestKey{}, t)))
	})
}

// end records the spans of a request.
func (t *tracedRequest) end(r *http.Request, began time.Time, status int) {
	span := trace.Span{Name: spanRequest, Kind: trace.Server, Start: began, End: time.Now(), Failed: status >= http.StatusInternalServerError,
		Attributes: []trace.Attribute{
			{Key: "http.request.method", Value: r.Method}, {Key: "url.path", Value: r.URL.Path}, {Key: "http.response.status_code", Value: strconv.Itoa(status)},
		}}
	t.mu.Lock()
	defer t.mu.Unlock()
	var begun []trace.Context
	for _, operation := range t.operations {
		of := span
		if of.Context = t.tracer.At(operation, spanRequest); !of.Valid() {
			continue
		}
		of.Parent = t.tracer.Operation(operation).Span
		if t.client.Valid() {
			of.Links = []trace.Context{t.client}
		}
		begun = append(begun, of.Context)
		t.tracer.Record(of)
	}
	if t.client.Valid() {
		span.Context, span.Parent, span.Links = trace.Context{Trace: t.client.Trace}, t.client.Span, begun
		t.tracer.Record(span)
	}
}

// tracedAnswer names the trace of what a request has begun, and keeps the status.
type tracedAnswer struct {
	http.ResponseWriter
	request *tracedRequest
	status  int
	wrote   bool
}

// Unwrap is for [http.ResponseController].
func (a *tracedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (a *tracedAnswer) WriteHeader(status int) {
	if !a.wrote && status >= http.StatusOK {
		a.wrote, a.status = true, status
		if begun := a.request.of(); begun.Valid() && begun.Trace != a.request.client.Trace {
			a.Header().Set(trace.AnswerHeader, begun.Traceparent())
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *tracedAnswer) Write(b []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// tracedRepo records the commits that are made for operations.
type tracedRepo struct {
	desired.Repo
	tracer   *trace.Tracer
	arrivals *arrivals
}

// traced is the repository with its commits recorded, the same one where nothing is traced.
func (s *Server) traced(repo desired.Repo) desired.Repo {
	if !s.tracer.On() {
		return repo
	}
	return tracedRepo{repo, s.tracer, s.arrivals}
}

// Write implements [desired.Repo].
func (r tracedRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	i := slices.IndexFunc(w.Trailers, func(t desired.Trailer) bool { return t.Key == desired.TrailerOperation })
	if i < 0 {
		rev, err := r.Repo.Write(ctx, w)
		r.arrivals.own(rev.Commit, "")
		return rev, err
	}
	operation := w.Trailers[i].Value
	began := time.Now()
	rev, err := r.Repo.Write(ctx, w)
	r.arrivals.own(rev.Commit, operation)
	s := trace.Span{Context: trace.Context{Trace: r.tracer.Operation(operation).Trace}, Name: "commit", Kind: trace.Internal, Start: began, End: time.Now(), Failed: err != nil,
		Attributes: []trace.Attribute{{Key: "jibe.commit", Value: rev.Commit}, {Key: "jibe.folder", Value: rev.Dir}}}
	switch at := trace.From(ctx); {
	case err == nil && beganOperation(ctx, operation):
		s.Parent = trace.SpanOf(operation, spanRequest)
	case at.Trace == s.Trace:
		s.Parent = at.Span
	default:
		s.Parent = trace.SpanOf(operation, trace.Root)
	}
	r.tracer.Record(s)
	return rev, err
}

// processID tells this process from those before it, and from those of other installations.
func processID() string { return uuid.NewString() }
