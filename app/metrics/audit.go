package metrics

import "github.com/prometheus/client_golang/prometheus"

// auditCollectors are what of the audit log is measured.
func auditCollectors(log AuditLog) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "jibe_audit_last_record",
			Help: "Number of the last record of the audit log. It never falls; where it does, records were removed."},
			func() float64 { return float64(log.End().Seq) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "jibe_audit_writable",
			Help: "1 while records can be kept, 0 while they can't and changes are refused, therefore."},
			func() float64 {
				if log.Ready() != nil {
					return 0
				}
				return 1
			}),
	}
}
