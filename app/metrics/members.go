package metrics

import "github.com/prometheus/client_golang/prometheus"

// memberCollectors show the replicas as this one sees them.
func memberCollectors(m Member, owned func() int) []prometheus.Collector {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	return []prometheus.Collector{
		gauge("jibe_members", "Replicas that serve this installation, as this one sees them.", func() float64 { return float64(len(m.Living())) }),
		gauge("jibe_member_session_held", "1 while this replica's session in the store is held, else 0: it begins nothing then.", func() float64 {
			if m.Session() == nil {
				return 0
			}
			return 1
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "jibe_member_sessions_lost_total",
			Help: "Sessions of this replica in the store that ended before it gave them back, counted when the next one began.",
		}, func() float64 { return float64(m.Lost()) }),
		gauge("jibe_instances_owned", "Instances whose lease this replica holds.", func() float64 { return float64(owned()) }),
	}
}
