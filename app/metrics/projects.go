package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// maxProjects bounds the projects that metrics tell of one by one.
const maxProjects = 500

// projectUse are the metrics of what projects use. It counts nothing where there is no file of
// a project.
type projectUse struct {
	settings         func() (*desired.Settings, error)
	projects         func(ctx context.Context) ([]reconciler.ProjectUse, error)
	instances, vnfcs *prometheus.Desc
}

func newProjectUse(repo Repo, view View) *projectUse {
	return &projectUse{
		settings:  repo.Settings,
		projects:  view.Projects,
		instances: prometheus.NewDesc("jibe_project_instances", "VNF instances that are instantiated, by project.", []string{"project"}, nil),
		vnfcs:     prometheus.NewDesc("jibe_project_vnfcs", "VNFCs by the scale levels in git, by project.", []string{"project"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *projectUse) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.instances
	ch <- c.vnfcs
}

// countTime is how long a scrape waits for what projects use.
const countTime = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *projectUse) Collect(ch chan<- prometheus.Metric) {
	settings, err := c.settings()
	if err != nil || len(settings.Projects) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTime) //nolint:contextcheck // a scrape has none
	defer cancel()
	list, err := c.projects(ctx)
	if err != nil {
		return // the next scrape counts on
	}
	for _, p := range list[:min(len(list), maxProjects)] {
		ch <- prometheus.MustNewConstMetric(c.instances, prometheus.GaugeValue, float64(p.InstancesUsed), p.Name)
		ch <- prometheus.MustNewConstMetric(c.vnfcs, prometheus.GaugeValue, float64(p.VNFCsUsed), p.Name)
	}
}
