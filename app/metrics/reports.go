package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/report"
)

// reportMetrics show what the forge was told, and what it is still to be told.
type reportMetrics struct {
	reporter           *report.Reporter
	reports            *prometheus.Desc
	outstanding, since *prometheus.Desc
}

func newReportMetrics(r *report.Reporter) *reportMetrics {
	return &reportMetrics{
		reporter: r,
		reports: prometheus.NewDesc("jibe_forge_reports_total",
			"What the forge was told or asked, by kind (status of a commit, comment on a pull request, look at pull requests) and outcome: sent, failed (it is tried again) or dropped (it is not).", []string{"kind", "outcome"}, nil),
		outstanding: prometheus.NewDesc("jibe_forge_reports_outstanding", "Commits and pull requests of which the forge doesn't know the newest yet.", nil, nil),
		since:       prometheus.NewDesc("jibe_forge_report_outstanding_since_timestamp_seconds", "When the oldest of them began to wait, while one does.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *reportMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.reports, m.outstanding, m.since} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *reportMetrics) Collect(ch chan<- prometheus.Metric) {
	if m.reporter == nil {
		return
	}
	c := m.reporter.Counts()
	for _, k := range report.Kinds() {
		for outcome, of := range map[string]map[report.Kind]uint64{"sent": c.Sent, "failed": c.Failed, "dropped": c.Dropped} {
			ch <- prometheus.MustNewConstMetric(m.reports, prometheus.CounterValue, float64(of[k]), string(k), outcome)
		}
	}
	gauge(ch, m.outstanding, float64(c.Outstanding))
	if !c.Since.IsZero() {
		gauge(ch, m.since, stamp(c.Since))
	}
}
