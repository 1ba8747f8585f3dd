package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/reconciler"
)

// orphanMetrics counts, at each scrape, the objects that belong to no VNF, as the last survey found them.
type orphanMetrics struct {
	known   func() reconciler.Orphans
	objects *prometheus.Desc
}

func newOrphanMetrics(v View) *orphanMetrics {
	return &orphanMetrics{known: v.KnownOrphans,
		objects: prometheus.NewDesc("jibe_orphaned_objects", "Objects of this installation at a VIM that belong to no VNF: the lines of jibe get orphans.", []string{"vim"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *orphanMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.objects
}

// Collect implements prometheus.Collector.
func (m *orphanMetrics) Collect(ch chan<- prometheus.Metric) {
	count, known := map[string]int{}, m.known()
	for _, vim := range known.VIMs {
		count[vim] = 0
	}
	for _, o := range known.Orphans {
		count[o.VIM]++
	}
	vims, others := most(count, mostVIMs, strings.Compare)
	for _, vim := range vims {
		gauge(ch, m.objects, float64(count[vim]), vim)
	}
	if len(vims) < len(count) {
		gauge(ch, m.objects, float64(others), otherSeries)
	}
}
