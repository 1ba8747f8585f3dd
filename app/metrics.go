package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// scrapeTimeout bounds how long a scrape may read the store.
const scrapeTimeout = 10 * time.Second

// inventory tells at each scrape how many instances there are and in which state
// the operations are that haven't ended: what alerts are made of.
type inventory struct {
	repo      *gitrepo.Repo
	ops       *oplog.Log
	log       *slog.Logger
	instances *prometheus.Desc
	open      *prometheus.Desc
	problems  *prometheus.Desc
	healthy   *prometheus.Desc
}

func newInventory(repo *gitrepo.Repo, ops *oplog.Log, log *slog.Logger) *inventory {
	return &inventory{
		repo: repo, ops: ops, log: log,
		instances: prometheus.NewDesc("jibe_instances", "VNF instances in the desired repository.", nil, nil),
		open: prometheus.NewDesc("jibe_lcm_operations_open",
			"VNF LCM operations that have not ended, by type and state; FAILED_TEMP waits for a person.", []string{"type", "state"}, nil),
		problems: prometheus.NewDesc("jibe_desired_problems", "Files at the head of the desired repository that can't be obeyed.", nil, nil),
		healthy:  prometheus.NewDesc("jibe_desired_repository_healthy", "1 while the desired repository's branch is followed, else 0.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (i *inventory) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{i.instances, i.open, i.problems, i.healthy} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (i *inventory) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(i.instances, float64(len(i.repo.List())))
	gauge(i.problems, float64(len(i.repo.Problems())))
	healthy := 1.0
	if i.repo.Health() != nil {
		healthy = 0
	}
	gauge(i.healthy, healthy)
	records, err := i.ops.Instances(ctx, "", 0)
	if err != nil {
		i.log.WarnContext(ctx, "operations can't be counted", "error", err)
		return
	}
	type kind struct{ typ, state string }
	count := map[kind]int{}
	for _, rec := range records {
		if rec.Open == "" {
			continue
		}
		if op, err := i.ops.Operation(ctx, rec.Open); err == nil {
			count[kind{string(op.Type), string(op.State)}]++
		}
	}
	for k, n := range count {
		gauge(i.open, float64(n), k.typ, k.state)
	}
}
