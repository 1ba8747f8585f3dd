// Package otlp sends spans to a collector by OTLP over HTTP, as protobuf (OpenTelemetry protocol
// 1.x, "OTLP/HTTP"). It never holds anybody up: what it can't send in time is dropped, and counted.
package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/jibe-vnfm/jibe/internal/trace"
)

const (
	// queueLength bounds the spans that wait, and so the memory that a collector costs that is away.
	queueLength = 8192
	// batchLength is how many spans one request carries at most, and batchPause how long a span
	// waits for others.
	batchLength = 512
	batchPause  = time.Second
	// tries is how often one batch is sent, and firstPause the pause after the first, which doubles.
	tries      = 4
	firstPause = 500 * time.Millisecond
	// requestTimeout bounds one request, and lastTimeout what is sent at the end of the process.
	requestTimeout = 10 * time.Second
	lastTimeout    = 3 * time.Second
	// tracesPath is where collectors take spans (OTLP/HTTP).
	tracesPath = "/v1/traces"
)

// Options say where spans go.
type Options struct {
	// Endpoint is the collector's URL. One without a path gets that of the specification,
	// /v1/traces.
	Endpoint string
	// Headers go with each request. They may hold credentials.
	Headers http.Header
	// Transport carries the requests.
	Transport http.RoundTripper
	// Resource says who sends ("service.name").
	Resource []trace.Attribute
	Log      *slog.Logger
}

// Exporter is a [trace.Sink].
type Exporter struct {
	client   *http.Client
	endpoint string
	headers  http.Header
	resource *resourcepb.Resource
	log      *slog.Logger
	queue    chan trace.Span
	failing  bool

	exported, dropped, failed atomic.Uint64
}

// New returns an exporter, which sends while [Exporter.Run] runs.
func New(o Options) (*Exporter, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("the endpoint of a collector is a URL of http or https without credentials, as https://collector.example:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	return &Exporter{
		client: &http.Client{Transport: o.Transport, Timeout: requestTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		endpoint: u.String(), headers: o.Headers, resource: &resourcepb.Resource{Attributes: attributes(o.Resource)}, log: o.Log,
		queue: make(chan trace.Span, queueLength),
	}, nil
}

// Counts are the spans that were sent, that found the queue full, and that the collector didn't take.
func (e *Exporter) Counts() (exported, dropped, failed uint64) {
	return e.exported.Load(), e.dropped.Load(), e.failed.Load()
}

// Record implements [trace.Sink].
func (e *Exporter) Record(s trace.Span) {
	select {
	case e.queue <- s:
	default:
		e.dropped.Add(1)
	}
}

// Run sends spans until ctx ends, and then those that wait, within a few seconds.
func (e *Exporter) Run(ctx context.Context) error {
	var batch []trace.Span
	for ctx.Err() == nil {
		if batch = e.gather(ctx); len(batch) > 0 && e.send(ctx, batch) {
			batch = nil
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	for batch = e.take(batch); len(batch) > 0; batch = e.take(nil) {
		if !e.send(last, batch) {
			e.failed.Add(uint64(len(batch) + len(e.queue)))
			break
		}
	}
	return nil
}

// gather waits for a span and, for a while, for others.
func (e *Exporter) gather(ctx context.Context) (batch []trace.Span) {
	select {
	case s := <-e.queue:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(batchPause)
	defer timer.Stop()
	for len(batch) < batchLength {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		case <-timer.C:
			return e.take(batch)
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// take adds what waits, without waiting itself.
func (e *Exporter) take(batch []trace.Span) []trace.Span {
	for len(batch) < batchLength {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// send sends a batch, and again where the collector may take it later. It is false where ctx ended
// before that was known.
func (e *Exporter) send(ctx context.Context, batch []trace.Span) bool {
	body, err := e.encode(batch)
	if err == nil {
		err = e.deliver(ctx, body)
	}
	switch {
	case err == nil:
		e.exported.Add(uint64(len(batch)))
		if e.failing {
			e.log.InfoContext(ctx, "the collector of traces takes spans again", "endpoint", e.endpoint)
		}
	case ctx.Err() != nil:
		return false
	default:
		e.failed.Add(uint64(len(batch)))
		if !e.failing { // one line for each time that it goes away
			e.log.WarnContext(ctx, "the collector of traces takes no spans; they are lost until it does", "endpoint", e.endpoint, "error", err)
		}
	}
	e.failing = err != nil
	return true
}

// deliver makes the requests for one batch.
func (e *Exporter) deliver(ctx context.Context, body []byte) error {
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		again, err := e.post(ctx, body)
		if err == nil || !again || try == tries {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// post makes one request. again says that the same one may succeed later.
func (e *Exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, values := range e.headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "jibe")
	resp, err := e.client.Do(req)
	if err != nil {
		var target *url.Error
		if errors.As(err, &target) {
			err = target.Err // the URL stands beside it in the log
		}
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	switch code := resp.StatusCode; {
	case code < 300:
		return false, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return true, fmt.Errorf("it answered with %d", code)
	default:
		return false, fmt.Errorf("it answered with %d", code)
	}
}

// encode writes an ExportTraceServiceRequest. TracesData is the same on the wire, and knows
// nothing of gRPC.
func (e *Exporter) encode(batch []trace.Span) ([]byte, error) {
	spans := make([]*tracepb.Span, 0, len(batch))
	for i := range batch {
		spans = append(spans, encodeSpan(&batch[i]))
	}
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   e.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "jibe"}, Spans: spans}},
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	return b, nil
}

// sampled is the flag of W3C Trace Context of what is recorded.
const sampled = 1

func encodeSpan(s *trace.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.Span[:], Name: s.Name, Kind: tracepb.Span_SpanKind(s.Kind), Flags: sampled,
		StartTimeUnixNano: uint64(max(0, s.Start.UnixNano())), EndTimeUnixNano: uint64(max(0, s.End.UnixNano(), s.Start.UnixNano())),
		Attributes: attributes(s.Attributes),
	}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	if s.Failed {
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	for i := range s.Links {
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: s.Links[i].Trace[:], SpanId: s.Links[i].Span[:], Flags: sampled})
	}
	return out
}

func attributes(of []trace.Attribute) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, 0, len(of))
	for _, a := range of {
		out = append(out, &commonpb.KeyValue{Key: a.Key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: a.Value}}})
	}
	return out
}
