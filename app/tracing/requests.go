package tracing

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/internal/trace"
)

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

// OfRequest is where the request of a context belongs.
func OfRequest(ctx context.Context) trace.Context {
	if r, ok := ctx.Value(tracedRequestKey{}).(*tracedRequest); ok {
		return r.of()
	}
	return trace.Context{}
}

// spanRequest is the name of the span of the request that an operation begins with.
const spanRequest = "request"

// Requests follows requests: those that begin an operation are part of its trace, and those
// whose client traces are part of the client's.
func (t *Tracing) Requests(next http.Handler) http.Handler {
	if !t.Tracer.On() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := trace.Parse(r.Header.Get(trace.Header))
		if strings.HasPrefix(r.URL.Path, "/git/") || !client.Valid() && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			next.ServeHTTP(w, r)
			return
		}
		under := &tracedRequest{tracer: t.Tracer, client: client}
		a := &tracedAnswer{ResponseWriter: w, request: under, status: http.StatusOK}
		began := time.Now()
		defer func() { under.end(r, began, a.status) }()
		next.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), tracedRequestKey{}, under)))
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
