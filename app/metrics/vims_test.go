package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/internal/trace"
)

// keptSpans is a sink that keeps everything.
type keptSpans struct {
	mu    sync.Mutex
	spans []trace.Span
}

func (k *keptSpans) Record(s trace.Span) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, s)
}

// seriesOf is the number of a series, -1 where there is none. Of a histogram it is the count.
func seriesOf(t *testing.T, collectors []prometheus.Collector, name string, labels ...string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(collectors...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName()+"="+l.GetValue())
			}
			if strings.Join(has, ",") != strings.Join(labels, ",") {
				continue
			}
			switch {
			case m.GetHistogram() != nil:
				return float64(m.GetHistogram().GetSampleCount())
			case m.GetCounter() != nil:
				return m.GetCounter().GetValue()
			}
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

func TestRequestsToAVIMAreMeasuredAndCarryTheTraceOfTheirOperation(t *testing.T) {
	t.Parallel()

	status, parent := http.StatusOK, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parent = r.Header.Get("Traceparent")
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	k := &keptSpans{}
	tracer := trace.New(k, 1)
	m := newVIMMeters()
	client := &http.Client{Transport: m.wrap("kube", http.DefaultTransport, tracer)}
	ask := func(ctx context.Context, method, path string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil && ctx.Err() == nil && status != 0 {
			t.Fatal(err)
		}
		if got := req.Header.Get("Traceparent"); got != "" {
			t.Errorf("the request of the caller was changed: %s", got)
		}
	}
	all := m.collectors()
	if got := seriesOf(t, all, "jibe_vim_up", "vim=kube"); got != -1 {
		t.Error("a VIM that was never asked has series")
	}
	operation := tracer.Operation("7bb7fc90-525f-417d-978e-99875fc63d82")
	ask(trace.With(t.Context(), operation), http.MethodPatch, "/apis/apps/v1/namespaces/a/deployments/amf?fieldManager=secret")
	if len(k.spans) != 1 || k.spans[0].Parent != operation.Span || k.spans[0].Name != "VIM PATCH" || parent != k.spans[0].Traceparent() {
		t.Errorf("the spans are %+v, the VIM was sent %q", k.spans, parent)
	}
	for _, a := range k.spans[0].Attributes {
		if strings.Contains(a.Value, "secret") {
			t.Errorf("the span shows the query: %+v", a)
		}
	}
	if ask(t.Context(), http.MethodGet, "/api/v1/pods?watch=true"); parent != "" || len(k.spans) != 1 {
		t.Errorf("a request for no operation was sent with %q", parent)
	}
	ask(t.Context(), http.MethodGet, "/api/v1/pods?watch=true")
	status = http.StatusServiceUnavailable
	ask(t.Context(), http.MethodGet, "/api")
	for series, want := range map[string]float64{
		"jibe_vim_request_duration_seconds code=200,method=PATCH,vim=kube": 1,
		"jibe_vim_request_duration_seconds code=200,method=WATCH,vim=kube": 2,
		"jibe_vim_watch_restarts_total vim=kube":                           1,
		"jibe_vim_errors_total cause=unavailable,vim=kube":                 1,
		"jibe_vim_errors_total cause=unreachable,vim=kube":                 0,
		"jibe_vim_up vim=kube":                                             0,
	} {
		name, labels, _ := strings.Cut(series, " ")
		if got := seriesOf(t, all, name, strings.Split(labels, ",")...); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	status = http.StatusConflict // an answer about what was asked
	if ask(t.Context(), http.MethodGet, "/api"); seriesOf(t, all, "jibe_vim_up", "vim=kube") != 1 {
		t.Error("a VIM that answers isn't up")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask(gone, http.MethodGet, "/api")
	if seriesOf(t, all, "jibe_vim_up", "vim=kube") != 1 {
		t.Error("a VIM is down as somebody wanted no answer any more")
	}
	s.Close()
	status = 0
	if ask(t.Context(), http.MethodGet, "/api"); seriesOf(t, all, "jibe_vim_up", "vim=kube") != 0 || seriesOf(t, all, "jibe_vim_errors_total", "cause=unreachable", "vim=kube") != 1 {
		t.Error("a VIM that is away is up")
	}
}

func TestMoreVIMsThanHaveSeriesShareOne(t *testing.T) {
	t.Parallel()

	m := newVIMMeters()
	for n := range mostVIMs + 20 {
		m.vim(fmt.Sprint("v", n)).up.Set(1)
	}
	if len(m.of) != mostVIMs+1 || m.vim("one more") != m.vim("another") || m.vim("v1") == m.vim("v2") {
		t.Errorf("%d VIMs have series", len(m.of))
	}
}

func TestOnlySoManyPackagesAndFoldersAreNamed(t *testing.T) {
	t.Parallel()

	of := map[string]int{"rare": 1, "often": 5, "a": 2, "b": 2}
	keys, others := most(of, 3, strings.Compare)
	if strings.Join(keys, " ") != "often a b" || others != 1 {
		t.Errorf("named are %q, and %d aren't", keys, others)
	}
	for dir, want := range map[string]string{"instances/a": ".", "instances/north/a": "north", "instances/north/east/a": "north"} {
		if got := folderOf(dir); got != want {
			t.Errorf("the folder of %s is %q", dir, got)
		}
	}
}
