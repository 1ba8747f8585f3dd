package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
)

// rolloutMetrics are the metrics of rollouts that haven't ended, and of those whose files aren't obeyed.
type rolloutMetrics struct {
	list                       func(ctx context.Context) ([]automation.RolloutStatus, error)
	state, instances, unmerged *prometheus.Desc
}

func newRolloutMetrics(r Rollouts) *rolloutMetrics {
	return &rolloutMetrics{
		list:      r.List,
		state:     prometheus.NewDesc("jibe_rollout_phase", "1 for the phase in which a rollout is that hasn't ended; \"problem\" is one whose file isn't obeyed.", []string{"rollout", "phase"}, nil),
		instances: prometheus.NewDesc("jibe_rollout_instances", "VNF instances of a rollout that hasn't ended, by what has become of them.", []string{"rollout", "state"}, nil),
		unmerged: prometheus.NewDesc("jibe_rollout_waiting_for_merge_since_timestamp_seconds",
			"Since when nothing was merged of what a rollout proposes, that waits for the merge of its pull request.", []string{"rollout"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *rolloutMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.state
	ch <- c.instances
	ch <- c.unmerged
}

// maxRollouts bounds the rollouts that metrics tell of one by one.
const maxRollouts = 200

// Collect implements prometheus.Collector.
func (c *rolloutMetrics) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime) //nolint:contextcheck // a scrape has none
	defer cancel()
	list, err := c.list(ctx)
	if err != nil {
		return // the next scrape counts on
	}
	told := 0
	for _, st := range list {
		if !st.Ended.IsZero() || st.Phase == rollout.Aborted || told == maxRollouts {
			continue
		}
		told++
		phase := string(st.Phase)
		if st.Problem != "" {
			phase = "problem"
		}
		ch <- prometheus.MustNewConstMetric(c.state, prometheus.GaugeValue, 1, st.Name, phase)
		for state, n := range map[string]int{"completed": st.Counts.Completed, "already": st.Counts.Already, "failed": st.Counts.Failed,
			"underWay": st.Counts.UnderWay, "proposed": st.Counts.Proposed, "pending": st.Counts.Pending, "passed": st.Counts.Passed, "takenBack": st.Counts.Back} {
			ch <- prometheus.MustNewConstMetric(c.instances, prometheus.GaugeValue, float64(n), st.Name, state)
		}
		if st.Phase == rollout.Merging && st.Proposal != nil {
			gauge(ch, c.unmerged, stamp(st.Proposal.Unmerged), st.Name)
		}
	}
}
