package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/reconciler"
)

// proposalMetrics show which operations wait for their pull requests to be merged.
type proposalMetrics struct {
	waiting      func() []reconciler.ProposalWait
	count, since *prometheus.Desc
}

func newProposalMetrics(v View) *proposalMetrics {
	return &proposalMetrics{
		waiting: v.WaitingForPullRequests,
		count: prometheus.NewDesc("jibe_lcm_operations_waiting_for_merge",
			"VNF LCM operations that wait in STARTING for their pull request to be merged, by type and whether the forge can be asked (forge: there, away).", []string{"type", "forge"}, nil),
		since: prometheus.NewDesc("jibe_lcm_operations_waiting_for_merge_since_timestamp_seconds",
			"When the VNF LCM operation was asked for that has waited longest for its pull request to be merged, by type.", []string{"type"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *proposalMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.count
	ch <- m.since
}

// Collect implements prometheus.Collector.
func (m *proposalMetrics) Collect(ch chan<- prometheus.Metric) {
	type kind struct{ typ, forge string }
	counts, oldest := map[kind]int{}, map[string]time.Time{}
	for _, w := range m.waiting() {
		k := kind{string(w.Type), "there"}
		if w.Away {
			k.forge = "away"
		}
		counts[k]++
		if since, known := oldest[k.typ]; !known || w.Since.Before(since) {
			oldest[k.typ] = w.Since
		}
	}
	for k, n := range counts {
		gauge(ch, m.count, float64(n), k.typ, k.forge)
	}
	for typ, since := range oldest {
		gauge(ch, m.since, stamp(since), typ)
	}
}
