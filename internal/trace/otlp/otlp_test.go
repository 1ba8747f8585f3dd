package otlp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/internal/trace/otlp"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func newExporter(t *testing.T, endpoint string) *otlp.Exporter {
	t.Helper()
	e, err := otlp.New(otlp.Options{Endpoint: endpoint, Transport: http.DefaultTransport, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// run runs the exporter; stop ends it and waits for that.
func run(t *testing.T, e *otlp.Exporter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func span(n byte) trace.Span {
	now := time.Now()
	return trace.Span{Context: trace.Context{Trace: trace.ID{1}, Span: trace.SpanID{n + 1}}, Name: "s", Kind: trace.Client, Start: now, End: now}
}

// counted counts the spans that a collector takes; before the first answer it says refuse times
// that it is busy.
func counted(t *testing.T, refuse int32, spans *atomic.Int32) *httptest.Server {
	t.Helper()
	var refused atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if refused.Add(1) <= refuse {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for _, rs := range data.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				spans.Add(int32(len(ss.GetSpans())))
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestACollectorThatIsBusyIsSentTheSpansAgain(t *testing.T) {
	var spans atomic.Int32
	e := newExporter(t, counted(t, 2, &spans).URL)
	stop := run(t, e)
	defer stop()
	e.Record(span(0))
	kit.Eventually(t, func() error {
		if exported, dropped, failed := e.Counts(); exported != 1 || dropped != 0 || failed != 0 || spans.Load() != 1 {
			return fmt.Errorf("exported %d, dropped %d, failed %d, arrived %d", exported, dropped, failed, spans.Load())
		}
		return nil
	})
}

func TestASpanArrivesAsItWasRecorded(t *testing.T) {
	bodies := make(chan []byte, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
	}))
	defer s.Close()
	e, err := otlp.New(otlp.Options{Endpoint: s.URL + "/own/path", Transport: http.DefaultTransport, Log: slog.New(slog.DiscardHandler),
		Resource: []trace.Attribute{{Key: "service.name", Value: "jibe"}}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1000, 7)
	root := trace.Span{Context: trace.Context{Trace: trace.ID{1}, Span: trace.SpanID{2}}, Name: "operation", Kind: trace.Internal, Start: began, End: began.Add(-time.Second)}
	child := trace.Span{Context: trace.Context{Trace: trace.ID{1}, Span: trace.SpanID{3}}, Parent: root.Span, Name: "request", Kind: trace.Server, Start: began, End: began.Add(time.Second),
		Failed: true, Attributes: []trace.Attribute{{Key: "url.path", Value: "/x"}}}
	for n := range 200 { // more than the SDK keeps by itself
		child.Links = append(child.Links, trace.Context{Trace: trace.ID{9}, Span: trace.SpanID{byte(n + 1)}})
	}

	e.Record(root)
	e.Record(child)
	run(t, e)()

	var data tracepb.TracesData
	if err := proto.Unmarshal(<-bodies, &data); err != nil {
		t.Fatal(err)
	}
	from := data.GetResourceSpans()[0]
	if a := from.GetResource().GetAttributes(); len(a) != 1 || a[0].GetKey() != "service.name" || from.GetScopeSpans()[0].GetScope().GetName() != "jibe" {
		t.Errorf("the sender is %v", from.GetResource())
	}
	spans := from.GetScopeSpans()[0].GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans arrived", len(spans))
	}
	for i, want := range []trace.Span{root, child} {
		got := spans[i]
		if trace.ID(got.GetTraceId()) != want.Trace || trace.SpanID(got.GetSpanId()) != want.Span || got.GetName() != want.Name ||
			int(got.GetKind()) != int(want.Kind) || got.GetStartTimeUnixNano() != uint64(began.UnixNano()) || got.GetFlags()&1 == 0 ||
			(got.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR) != want.Failed || len(got.GetLinks()) != len(want.Links) {
			t.Errorf("%s arrived as %v", want.Name, got)
		}
	}
	if len(spans[0].GetParentSpanId()) != 0 || trace.SpanID(spans[1].GetParentSpanId()) != root.Span || spans[0].GetEndTimeUnixNano() != uint64(began.UnixNano()) ||
		spans[1].GetAttributes()[0].GetValue().GetStringValue() != "/x" || trace.SpanID(spans[1].GetLinks()[199].GetSpanId()) != (trace.SpanID{200}) {
		t.Errorf("they belong elsewhere: %v", spans)
	}
}

func TestWhatWaitsAtTheEndIsSentBeforeIt(t *testing.T) {
	var spans atomic.Int32
	e := newExporter(t, counted(t, 0, &spans).URL)
	for n := range 100 {
		e.Record(span(byte(n)))
	}
	run(t, e)() // it is asked to end before it can have begun
	if spans.Load() != 100 {
		t.Errorf("%d of 100 spans arrived", spans.Load())
	}
}

func TestACollectorThatHangsHoldsNobodyUpAndWhatIsTooMuchIsCounted(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	e := newExporter(t, s.URL)
	stop := run(t, e)
	const many = 20000
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		for n := range many {
			e.Record(span(byte(n)))
		}
	}()
	<-recorded // would never be closed if Record waited for the collector
	if _, dropped, _ := e.Counts(); dropped < many-8192-512 || dropped >= many {
		t.Errorf("%d of %d spans were dropped", dropped, many)
	}
	stop() // would not return if the end waited for the collector
	exported, dropped, failed := e.Counts()
	if exported != 0 || dropped+failed != many {
		t.Errorf("exported %d, dropped %d, failed %d of %d", exported, dropped, failed, many)
	}
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	for _, bad := range []string{"", "collector:4318", "ftp://collector.example", "https://me:secret@collector.example", "https://"} {
		if _, err := otlp.New(otlp.Options{Endpoint: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
