package process_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/process"
)

// collector takes spans by OTLP over HTTP, and notifications, and keeps the traces.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	traces map[string][]seenSpan
	// parents are the traceparents that notifications bore.
	parents []string
	wrong   []string // what it was sent that it shouldn't have been
}

// seenSpan is a span with the process that sent it.
type seenSpan struct {
	*tracepb.Span
	process string
}

const collectorToken = "Bearer for-the-collector-alone"

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{traces: map[string][]seenSpan{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData // an ExportTraceServiceRequest on the wire
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Authorization") != collectorToken {
			c.wrong = append(c.wrong, fmt.Sprintf("%v: %v", r.Header, err))
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, rs := range data.GetResourceSpans() {
			from := attribute(rs.GetResource().GetAttributes(), "service.instance.id")
			if name := attribute(rs.GetResource().GetAttributes(), "service.name"); name != "jibe" || from == "" {
				c.wrong = append(c.wrong, "a resource of service "+name+", instance "+from)
			}
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					id := hex.EncodeToString(s.GetTraceId())
					c.traces[id] = append(c.traces[id], seenSpan{s, from})
				}
			}
		}
	})
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.parents = append(c.parents, r.Header.Get("Traceparent"))
		w.WriteHeader(http.StatusNoContent)
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

func attribute(of []*commonpb.KeyValue, key string) string {
	for _, a := range of {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// traceOf is the id of an operation's trace.
func traceOf(operation string) string { return strings.ReplaceAll(operation, "-", "") }

// whole waits for spans with these names, and for every parent of a span of the trace to be
// there. It returns them by name.
func (c *collector) whole(t *testing.T, trace string, names ...string) map[string][]seenSpan {
	t.Helper()
	var byName map[string][]seenSpan
	kit.Eventually(t, func() error {
		c.mu.Lock()
		spans := slices.Clone(c.traces[trace])
		c.mu.Unlock()
		byName = map[string][]seenSpan{}
		ids := map[string]bool{"": true}
		for _, s := range spans {
			byName[s.GetName()] = append(byName[s.GetName()], s)
			ids[string(s.GetSpanId())] = true
		}
		for _, name := range names {
			if len(byName[name]) == 0 {
				return fmt.Errorf("the trace has no span %q, but %q", name, slices.Sorted(maps.Keys(byName)))
			}
		}
		for _, s := range spans {
			if !ids[string(s.GetParentSpanId())] {
				return fmt.Errorf("the parent of the span %q isn't in the trace, which has %q", s.GetName(), slices.Sorted(maps.Keys(byName)))
			}
		}
		return nil
	})
	return byName
}

// below fails unless every span of the one name belongs to one of the other; "" is none.
func below(t *testing.T, spans map[string][]seenSpan, parent string, children ...string) {
	t.Helper()
	for _, child := range children {
		for _, s := range spans[child] {
			if parent == "" && len(s.GetParentSpanId()) > 0 {
				t.Errorf("the span %q has a parent", child)
			}
			if parent != "" && !slices.ContainsFunc(spans[parent], func(p seenSpan) bool { return string(p.GetSpanId()) == string(s.GetParentSpanId()) }) {
				t.Errorf("the span %q doesn't belong to a span %q", child, parent)
			}
			if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
				t.Errorf("the span %q ends before it begins", child)
			}
		}
	}
}

func TestOneTraceTellsOfAnOperationFromItsRequestOrPushToItsEndAlsoThroughAKill(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	c := newCollector(t)
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("# of the collector\nAuthorization: "+collectorToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--otlp-endpoint", c.URL, "--otlp-headers-file", headers}
	f, n := newGranted(t, "  wait: 1h\n", args...)
	f.Want(t, http.StatusCreated, http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": c.URL + "/callback"}, nil)

	// A request of a client that traces.
	n.Decide(inZone("zone-1"))
	const client, clientSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	id := f.makes()
	a := f.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+id+"/instantiate", simple, nil, "Traceparent", "00-"+client+"-"+clientSpan+"-01")
	op := a.ID()
	if got := a.Header.Get("Traceresponse"); !strings.HasPrefix(got, "00-"+traceOf(op)+"-") {
		t.Errorf("the answer names the trace %q, and the operation is %s", got, op)
	}
	f.Await(t, op, "COMPLETED")
	root := "operation INSTANTIATE"
	spans := c.whole(t, traceOf(op), root, "request", "commit", "starting", "attempt", "grant", "observe", "plan", "do", "step apply", "phase apply", "notification")
	below(t, spans, "", root)
	below(t, spans, root, "request", "starting", "attempt", "notification")
	below(t, spans, "starting", "grant")
	below(t, spans, "do", "step apply")
	if got := hex.EncodeToString(spans["request"][0].GetLinks()[0].GetTraceId()); got != client {
		t.Errorf("the request has a link to the trace %s", got)
	}
	ofClient := c.begun(t, client, "request") // its parent is the client's to record
	if p := hex.EncodeToString(ofClient[0].GetParentSpanId()); p != clientSpan {
		t.Errorf("in the client's trace the request belongs to the span %s", p)
	}
	first := spans[root][0].process
	asks := n.Asked()
	if got := asks[len(asks)-1].Header.Get("Traceparent"); !strings.HasPrefix(got, "00-"+traceOf(op)+"-") {
		t.Errorf("the NFVO was asked with the traceparent %q", got)
	}
	c.mu.Lock()
	told := slices.ContainsFunc(c.parents, func(p string) bool { return strings.HasPrefix(p, "00-"+traceOf(op)+"-") })
	c.mu.Unlock()
	if !told {
		t.Error("no notification bore the trace")
	}

	shown := f.Want(t, http.StatusOK, http.MethodGet, "/metrics", nil, nil, "Accept", "application/openmetrics-text; version=1.0.0")
	for _, metric := range []string{"jibe_lcm_operation_duration_seconds_bucket", "jibe_http_request_duration_seconds_bucket"} {
		if !slices.ContainsFunc(strings.Split(string(shown.Body), "\n"), func(l string) bool {
			return strings.HasPrefix(l, metric) && strings.Contains(l, ` # {`) && strings.Contains(l, `trace_id="`+traceOf(op)+`"`)
		}) {
			t.Errorf("%s has no exemplar that names the operation's trace", metric)
		}
	}

	// A push, whose operation is under way when the process is killed.
	n.Decide(func(nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{Raw: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }}
	})
	asked := len(n.Asked())
	f.push(map[string]string{amfDir + "/vnf.yaml": amfText})
	kit.Eventually(t, func() error {
		if len(n.Asked()) == asked {
			return fmt.Errorf("the NFVO wasn't asked")
		}
		return nil
	})
	asks = n.Asked()
	op = asks[len(asks)-1].Text("vnfLcmOpOccId")
	if spans := c.begun(t, traceOf(op), "push"); spans[0].process != first {
		t.Error("the push was recorded by another process")
	}
	f.Kill()
	n.Decide(inZone("zone-1"))
	f.Server = process.Start(t, f.Data, args...)
	f.Await(t, op, "COMPLETED")
	spans = c.whole(t, traceOf(op), root, "push", "commit", "starting", "attempt", "grant", "observe", "plan", "do", "step apply")
	below(t, spans, "", root)
	below(t, spans, root, "push", "starting", "attempt")
	below(t, spans, "starting", "grant")
	below(t, spans, "do", "step apply")
	if second := spans[root][0].process; second == first {
		t.Error("one process recorded both ends of the operation")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wrong) > 0 {
		t.Errorf("the collector was sent %q", c.wrong)
	}
	for id, spans := range c.traces {
		for _, s := range spans {
			if strings.Contains(s.String(), f.Token) || strings.Contains(s.String(), "for-the-collector-alone") {
				t.Errorf("trace %s shows a secret: %s", id, s)
			}
		}
	}
}

// begun waits for spans of a name in a trace that goes on.
func (c *collector) begun(t *testing.T, trace, name string) (found []seenSpan) {
	t.Helper()
	kit.Eventually(t, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = slices.DeleteFunc(slices.Clone(c.traces[trace]), func(s seenSpan) bool { return s.GetName() != name })
		if len(found) == 0 {
			return fmt.Errorf("no span %q was sent", name)
		}
		return nil
	})
	return found
}
