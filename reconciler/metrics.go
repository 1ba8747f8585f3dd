package reconciler

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// Metrics are the reconciler's, for a Prometheus registry. A nil one measures nothing.
type Metrics struct {
	passes     *prometheus.HistogramVec
	queue      prometheus.Gauge
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	repairs    *prometheus.CounterVec
	grants     *prometheus.HistogramVec
	failures   *prometheus.CounterVec
	phases     *prometheus.HistogramVec
	plans      *prometheus.HistogramVec
	steps      *prometheus.CounterVec
	waits      [urgencies]prometheus.Observer
	waited     *prometheus.HistogramVec
	oldest     prometheus.GaugeFunc
	trace      *trace.Tracer

	// passOK and passFailed are of passes: the hot path looks nothing up.
	passOK, passFailed prometheus.Observer
	// since is when the instance began to wait that has waited longest; the zero time where none
	// does.
	since atomic.Pointer[func() time.Time]
}

// NewMetrics makes the metrics; register them with [Metrics.Collectors]. Exemplars name what t
// traces, which may be nil.
func NewMetrics(t *trace.Tracer) *Metrics {
	m := &Metrics{trace: t,
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_reconcile_duration_seconds",
			Help:    "Duration of one look at one instance, by result.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2.5, 12),
		}, []string{"result"}),
		queue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "jibe_queue_length",
			Help: "Instances that wait to be looked at.",
		}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_lcm_operation_transitions_total",
			Help: "Changes of state of VNF LCM operations, by type and state entered.",
		}, []string{"type", "state"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_lcm_operation_duration_seconds",
			Help:    "Time from the start of a VNF LCM operation to its end, by type and end state.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2.2, 14),
		}, []string{"type", "state"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_drift_repairs_total",
			Help: "Objects that had drifted and were put right, by kind.",
		}, []string{"kind"}),
		grants: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_grant_duration_seconds",
			Help:    "Duration of questions for grants of VNF LCM operations, by who was asked and what came of it.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 9),
		}, []string{"by", "result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_lcm_operation_failures_total",
			Help: "Attempts of VNF LCM operations that failed, by type and cause.",
		}, []string{"type", "cause"}),
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_lcm_operation_phase_duration_seconds",
			Help:    "Time that VNF LCM operations spent in a phase without a break, by type and phase.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 11),
		}, []string{"type", "phase"}),
		plans: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_plan_steps",
			Help:    "Steps in the plan by which a VNF LCM operation begins, by type.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}, []string{"type"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "jibe_steps_total",
			Help: "Steps of plans that were done, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "jibe_queue_wait_seconds",
			Help:    "Time that instances waited to be looked at, by how urgent that was.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"priority"}),
	}
	m.oldest = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jibe_queue_oldest_timestamp_seconds",
		Help: "When the instance began to wait that has waited longest to be looked at, 0 where none waits.",
	}, func() float64 {
		if since := m.since.Load(); since != nil {
			if at := (*since)(); !at.IsZero() {
				return float64(at.UnixMilli()) / 1000
			}
		}
		return 0
	})
	m.passOK, m.passFailed = m.passes.WithLabelValues("ok"), m.passes.WithLabelValues("error")
	for u := range urgencies {
		m.waits[u] = m.waited.WithLabelValues(u.String())
	}
	return m
}

// granted counts an answer to the question for a grant.
func (m *Metrics) granted(by, result string, took time.Duration) {
	if m == nil {
		return
	}
	m.grants.WithLabelValues(by, result).Observe(took.Seconds())
}

// Collectors are all metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	if m == nil {
		return nil
	}
	return []prometheus.Collector{m.passes, m.queue, m.operations, m.durations, m.repairs, m.grants,
		m.failures, m.phases, m.plans, m.steps, m.waited, m.oldest}
}

// Operation counts an operation's change of state.
func (m *Metrics) Operation(op *lcm.Operation) {
	if m == nil {
		return
	}
	m.operations.WithLabelValues(string(op.Type), string(op.State)).Inc()
	if op.State.Ended() {
		took := op.StateEntered.Sub(op.Started).Seconds()
		duration := m.durations.WithLabelValues(string(op.Type), string(op.State))
		if traced, ok := duration.(prometheus.ExemplarObserver); ok && m.trace.Operation(op.ID).Valid() {
			traced.ObserveWithExemplar(took, prometheus.Labels{"trace_id": m.trace.Operation(op.ID).Trace.String()})
		} else {
			duration.Observe(took)
		}
	}
}

// Repaired counts an object that is repaired.
func (m *Metrics) Repaired(kind string) {
	if m != nil {
		m.repairs.WithLabelValues(kind).Inc()
	}
}

func (m *Metrics) pass(took time.Duration, err error, waiting int) {
	if m == nil {
		return
	}
	if err != nil {
		m.passFailed.Observe(took.Seconds())
	} else {
		m.passOK.Observe(took.Seconds())
	}
	m.queue.Set(float64(waiting))
}

// waitedInQueue notes how long an instance waited to be looked at.
func (m *Metrics) waitedInQueue(u urgency, waited time.Duration) {
	if m == nil {
		return
	}
	m.waits[u].Observe(waited.Seconds())
}

// cause is why an attempt failed, in one word of few.
type cause string

// The causes.
const (
	causeRefused   cause = "refused"   // rules, the driver or the VIM refuse it
	causeGrant     cause = "grant"     // not granted, or the grant can't be followed
	causeVIM       cause = "vim"       // what runs fails
	causeHook      cause = "hook"      // a hook or a coordination failed
	causeTimeout   cause = "timeout"   // its time was up
	causeConflict  cause = "conflict"  // a newer commit came, or somebody undoes what is done
	causeCancelled cause = "cancelled" // somebody cancelled it
	causeOther     cause = "other"
)

// failed counts an attempt that failed.
func (m *Metrics) failed(t lcm.Type, c cause) {
	if m == nil {
		return
	}
	m.failures.WithLabelValues(string(t), string(cmp.Or(c, causeOther))).Inc()
}

// left notes how long an operation was in a phase.
func (m *Metrics) left(t lcm.Type, p phase, took time.Duration) {
	if m == nil {
		return
	}
	m.phases.WithLabelValues(string(t), string(p)).Observe(took.Seconds())
}

// showOldest has since say when the instance began to wait that has waited longest.
func (m *Metrics) showOldest(since func() time.Time) {
	if m == nil {
		return
	}
	m.since.Store(&since)
}

// planned notes how many steps an operation begins with.
func (m *Metrics) planned(t lcm.Type, steps int) {
	if m == nil {
		return
	}
	m.plans.WithLabelValues(string(t)).Observe(float64(steps))
}

// did counts steps that were done.
func (m *Metrics) did(err error, steps ...plan.Step) {
	if m == nil {
		return
	}
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	for _, s := range steps {
		if s.Action != plan.Wait {
			m.steps.WithLabelValues(string(s.Action), outcome).Inc()
		}
	}
}
