package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/lcm"
)

// Metrics are the reconciler's, for a Prometheus registry.
type Metrics struct {
	passes     *prometheus.HistogramVec
	queue      prometheus.Gauge
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	repairs    *prometheus.CounterVec
	grants     *prometheus.HistogramVec
}

// NewMetrics makes the metrics; register them with [Metrics.Collectors].
func NewMetrics() *Metrics {
	return &Metrics{
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
	}
}

// granted counts an answer to the question for a grant.
func (m *Metrics) granted(by, result string, took time.Duration) {
	m.grants.WithLabelValues(by, result).Observe(took.Seconds())
}

// Collectors are all metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.passes, m.queue, m.operations, m.durations, m.repairs, m.grants}
}

// Operation counts an operation's change of state.
func (m *Metrics) Operation(op *lcm.Operation) {
	m.operations.WithLabelValues(string(op.Type), string(op.State)).Inc()
	if op.State.Ended() {
		m.durations.WithLabelValues(string(op.Type), string(op.State)).Observe(op.StateEntered.Sub(op.Started).Seconds())
	}
}

// Repaired counts an object that is repaired.
func (m *Metrics) Repaired(kind string) { m.repairs.WithLabelValues(kind).Inc() }

func (m *Metrics) pass(took time.Duration, err error, waiting int) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.passes.WithLabelValues(result).Observe(took.Seconds())
	m.queue.Set(float64(waiting))
}
