// Package otlp sends spans to a collector by OTLP over HTTP. OpenTelemetry's SDK collects them in
// batches, and its exporter encodes them. A collector that is slow or unreachable delays nothing:
// spans that can't be sent in time are dropped, and counted.
package otlp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/jibe-vnfm/jibe/internal/trace"
)

const (
	// queueLength bounds the spans that wait, and so the memory that an unreachable collector costs.
	queueLength = 8192
	// batchLength is how many spans one request carries at most, and batchPause how long a span
	// waits for others.
	batchLength = 512
	batchPause  = time.Second
	// batchTimeout is longer than all tries of one batch take.
	batchTimeout = time.Minute
	// lastTimeout bounds what is sent at the end of the process.
	lastTimeout = 3 * time.Second
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
	provider *sdk.TracerProvider
	tracer   otel.Tracer
	// giveUp ends the requests that are still in progress at the end of the process.
	giveUp context.CancelFunc

	waiting                   atomic.Int64
	exported, dropped, failed atomic.Uint64
}

// New returns an exporter, which sends until [Exporter.Run] has ended.
func New(o Options) (*Exporter, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("the endpoint of a collector is a URL of http or https without credentials, as https://collector.example:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}

	life, giveUp := context.WithCancel(context.Background())
	e := &Exporter{giveUp: giveUp}
	to := otlptrace.NewUnstarted(newClient(life, u.String(), o))
	e.provider = sdk.NewTracerProvider(
		sdk.WithIDGenerator(ids{}),
		sdk.WithSampler(sdk.AlwaysSample()), // a Tracer of ours has decided
		sdk.WithRawSpanLimits(sdk.SpanLimits{AttributeValueLengthLimit: -1, AttributeCountLimit: -1, EventCountLimit: -1, LinkCountLimit: -1, AttributePerEventCountLimit: -1, AttributePerLinkCountLimit: -1}),
		sdk.WithResource(resource.NewSchemaless(attributes(o.Resource)...)),
		sdk.WithBatcher(&counted{SpanExporter: to, e: e, endpoint: u.String(), log: o.Log},
			sdk.WithMaxQueueSize(queueLength), sdk.WithMaxExportBatchSize(batchLength),
			sdk.WithBatchTimeout(batchPause), sdk.WithExportTimeout(batchTimeout)),
	)
	e.tracer = e.provider.Tracer("jibe")
	return e, nil
}

// Counts are the spans that were sent, that found the queue full, and that the collector didn't take.
func (e *Exporter) Counts() (exported, dropped, failed uint64) {
	return e.exported.Load(), e.dropped.Load(), e.failed.Load()
}

// Record implements [trace.Sink]. The SDK doesn't tell what it drops, so the queue's bound is kept
// here, too.
func (e *Exporter) Record(s trace.Span) {
	if e.waiting.Add(1) > queueLength {
		e.waiting.Add(-1)
		e.dropped.Add(1)
		return
	}

	ctx := context.WithValue(context.Background(), idKey{}, s.Context)
	if s.Parent != (trace.SpanID{}) {
		ctx = otel.ContextWithSpanContext(ctx, spanContext(trace.Context{Trace: s.Trace, Span: s.Parent}))
	}
	links := make([]otel.Link, 0, len(s.Links))
	for _, l := range s.Links {
		links = append(links, otel.Link{SpanContext: spanContext(l)})
	}

	_, span := e.tracer.Start(ctx, s.Name, otel.WithTimestamp(s.Start), otel.WithSpanKind(otel.SpanKind(s.Kind)),
		otel.WithAttributes(attributes(s.Attributes)...), otel.WithLinks(links...))
	if s.Failed {
		span.SetStatus(codes.Error, "")
	}
	end := s.End
	if end.Before(s.Start) {
		end = s.Start
	}
	span.End(otel.WithTimestamp(end))
}

// Run sends spans until ctx ends, and then those that wait, within a few seconds.
func (e *Exporter) Run(ctx context.Context) error {
	<-ctx.Done()

	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	defer context.AfterFunc(last, e.giveUp)()
	_ = e.provider.Shutdown(context.WithoutCancel(ctx)) // what fails is counted
	return nil
}

// counted counts what becomes of spans, and logs once for each time that the collector fails.
type counted struct {
	sdk.SpanExporter
	e        *Exporter
	endpoint string
	log      *slog.Logger
	failing  bool
}

// ExportSpans implements [sdk.SpanExporter]. The SDK would log each error by means of its own.
func (c *counted) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.e.waiting.Add(-int64(len(spans)))
	if err == nil {
		c.e.exported.Add(uint64(len(spans)))
	} else {
		c.e.failed.Add(uint64(len(spans)))
	}
	if err == nil && c.failing {
		c.log.InfoContext(ctx, "the collector of traces takes spans again", "endpoint", c.endpoint)
	}
	if err != nil && !c.failing {
		c.log.WarnContext(ctx, "the collector of traces takes no spans; they are lost until it does", "endpoint", c.endpoint, "error", err)
	}
	c.failing = err != nil
	return nil
}

// ids gives spans the ids that they have: others name them before they are recorded.
type ids struct{}

type idKey struct{}

// NewIDs implements [sdk.IDGenerator].
func (ids) NewIDs(ctx context.Context) (otel.TraceID, otel.SpanID) {
	c, _ := ctx.Value(idKey{}).(trace.Context)
	return otel.TraceID(c.Trace), otel.SpanID(c.Span)
}

// NewSpanID implements [sdk.IDGenerator].
func (ids) NewSpanID(ctx context.Context, _ otel.TraceID) otel.SpanID {
	c, _ := ctx.Value(idKey{}).(trace.Context)
	return otel.SpanID(c.Span)
}

func spanContext(c trace.Context) otel.SpanContext {
	return otel.NewSpanContext(otel.SpanContextConfig{TraceID: otel.TraceID(c.Trace), SpanID: otel.SpanID(c.Span), TraceFlags: otel.FlagsSampled})
}

func attributes(of []trace.Attribute) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(of))
	for _, a := range of {
		out = append(out, attribute.String(a.Key, a.Value))
	}
	return out
}
