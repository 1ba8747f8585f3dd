package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/sol/notify"
)

// deliveries counts, at each scrape, what subscribers were sent and wait for. Series end with
// their subscription, of which there are at most 1,000.
type deliveries struct {
	states                                                     func() []notify.State
	unproven                                                   func() int
	delivered, dropped, failures, waiting, lag, last, lastFail *prometheus.Desc
	unprovenDesc                                               *prometheus.Desc
}

func newDeliveries(of Subscriptions) *deliveries {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"subscription"}, labels...), nil)
	}
	return &deliveries{
		states: of.States, unproven: of.Unproven,
		unprovenDesc: prometheus.NewDesc("jibe_subscriptions_unproven", "Subscriptions that are not served, as their records in the store were not written by this installation.", nil, nil),
		delivered:    desc("jibe_notifications_delivered_total", "Notifications that the subscriber has taken."),
		dropped:      desc("jibe_notifications_dropped_total", "Notifications that were given up, as the subscriber didn't take them for as long as they are kept."),
		failures:     desc("jibe_notification_failures_total", "Deliveries that were in vain, by reason; each is tried again.", "reason"),
		waiting:      desc("jibe_notifications_waiting", "Notifications that the subscriber is still to be sent."),
		lag:          desc("jibe_notification_lag_seconds", "Age of the oldest notification that the subscriber is still to be sent, 0 where there is none."),
		last:         desc("jibe_notification_last_delivery_timestamp_seconds", "When the subscriber last took a notification."),
		lastFail:     desc("jibe_notification_last_failure_timestamp_seconds", "When a delivery was last in vain."),
	}
}

// Describe implements prometheus.Collector.
func (d *deliveries) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range []*prometheus.Desc{d.delivered, d.dropped, d.failures, d.waiting, d.lag, d.last, d.lastFail, d.unprovenDesc} {
		ch <- x
	}
}

// Collect implements prometheus.Collector.
func (d *deliveries) Collect(ch chan<- prometheus.Metric) {
	count := func(x *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(x, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(ch, d.unprovenDesc, float64(d.unproven()))
	for _, s := range d.states() {
		count(d.delivered, s.Delivery.Delivered, s.ID)
		count(d.dropped, s.Delivery.Dropped, s.ID)
		for reason, n := range s.Delivery.Failures {
			count(d.failures, n, s.ID, reason)
		}
		gauge(ch, d.waiting, float64(s.Delivery.Waiting), s.ID)
		gauge(ch, d.lag, s.Delivery.Lag, s.ID)
		if !s.Delivery.LastDelivery.IsZero() {
			gauge(ch, d.last, stamp(s.Delivery.LastDelivery), s.ID)
		}
		if !s.Delivery.LastFailure.IsZero() {
			gauge(ch, d.lastFail, stamp(s.Delivery.LastFailure), s.ID)
		}
	}
}
