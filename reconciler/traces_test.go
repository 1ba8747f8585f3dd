package reconciler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
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

// named are the spans of a trace that have the name.
func (k *keptSpans) named(of trace.ID, name string) []trace.Span {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.spans), func(s trace.Span) bool { return s.Trace != of || s.Name != name })
}

// shows waits until the metrics have a series with this number, or count for a histogram.
func (w *world) shows(want float64, name string, labels ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s%v is %v", name, labels, want), func() bool {
		reg := prometheus.NewRegistry()
		reg.MustRegister(w.metrics.Collectors()...)
		families, err := reg.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				var values []string
				for _, l := range m.GetLabel() {
					values = append(values, l.GetValue())
				}
				if f.GetName() == name && slices.Equal(values, labels) {
					return m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount()) == want
				}
			}
		}
		return false
	})
}

func TestAHookIsPartOfItsAttemptAndAnotherAttemptIsAnotherSpan(t *testing.T) {
	t.Parallel()

	k := &keptSpans{}
	tracer := trace.New(k, 1)
	w, _, s := machines(t, func(c *reconciler.Config) { c.Packages, c.Trace = driven{}, tracer })
	fails := func(fail bool) {
		s.then(func(_ context.Context, c hooks.Call) error {
			if fail && c.Input.Hook == "scale_start" {
				return &hooks.FailedError{Path: c.Path, Reason: "exit status 1"}
			}
			return nil
		})
	}
	fails(true)
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.FailedTemp)
	w.shows(1, "jibe_lcm_operation_failures_total", "hook", "SCALE")
	w.shows(1, "jibe_steps_total", "hook", "error")
	fails(false)
	if _, err := w.log.Retry(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Completed)
	root := tracer.Operation(op.ID)
	w.until("the operation is recorded", func() bool { return len(k.named(root.Trace, "operation SCALE")) == 1 })
	attempts, run := k.named(root.Trace, "attempt"), k.named(root.Trace, "hook")
	if len(attempts) != 2 || attempts[0].Parent != root.Span || attempts[1].Parent != root.Span || !attempts[0].Failed || attempts[1].Failed {
		t.Fatalf("the attempts are %+v", attempts)
	}
	if len(run) < 3 || run[0].Parent != attempts[0].Span || !run[0].Failed {
		t.Fatalf("the hooks are %+v", run)
	}
	for _, h := range run[1:] {
		if h.Parent != attempts[1].Span || h.Failed {
			t.Errorf("a hook of the second attempt is %+v", h)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.calls[len(s.calls)-1]
	if c := trace.Parse(last.Traceparent); c.Trace != root.Trace || c.Span != run[len(run)-1].Span {
		t.Errorf("the last hook was run with %q", last.Traceparent)
	}
}

func TestFailuresAreCountedByCauseAndTimeByPhase(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = time.Minute })
	w.cloud.Refuse(web, "no room for it")
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.RolledBack)
	w.shows(1, "jibe_lcm_operation_failures_total", "refused", "INSTANTIATE")

	w = newWorld(t, func(c *reconciler.Config) { c.Timeout = time.Minute })
	w.failToScale("it crashes")
	w.last(lcm.Scale, lcm.FailedTemp)
	w.shows(1, "jibe_lcm_operation_failures_total", "vim", "SCALE")
	w.shows(1, "jibe_lcm_operation_phase_duration_seconds", "wait", "SCALE")
	w.shows(1, "jibe_plan_steps", "INSTANTIATE")
	w.shows(0, "jibe_queue_oldest_timestamp_seconds")

	w = newWorld(t, func(c *reconciler.Config) { c.Timeout = 50 * time.Millisecond })
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.FailedTemp)
	w.shows(1, "jibe_lcm_operation_failures_total", "timeout", "INSTANTIATE")
}
