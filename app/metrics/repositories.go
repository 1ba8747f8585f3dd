package metrics

import (
	"cmp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
)

// mostRepositories is how many package repositories have a series of their own.
const mostRepositories = 200

// packageSources say which package repositories there are, and which fail.
type packageSources interface {
	Repositories() []desired.Repository
	Failing() []*packages.RepositoryError
}

// repositoryMetrics says, at each scrape, which package repositories could be fetched and read when that was tried last.
type repositoryMetrics struct {
	packages packageSources
	up       *prometheus.Desc
}

func newRepositoryMetrics(c packageSources) *repositoryMetrics {
	return &repositoryMetrics{packages: c,
		up: prometheus.NewDesc("jibe_package_repository_up", "1 where a package repository could be fetched and read when that was tried last, 0 where not.", []string{"repository"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *repositoryMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.up }

// Collect implements prometheus.Collector.
func (m *repositoryMetrics) Collect(ch chan<- prometheus.Metric) {
	up := map[string]int{}
	for _, r := range m.packages.Repositories() {
		up[r.Name] = 1
	}
	for _, x := range m.packages.Failing() {
		up[x.Repository] = 0
	}
	// Those that fail are shown first.
	names, _ := most(up, mostRepositories, func(a, b string) int { return cmp.Or(cmp.Compare(up[a], up[b]), strings.Compare(a, b)) })
	for _, name := range names {
		gauge(ch, m.up, float64(up[name]), name)
	}
}
