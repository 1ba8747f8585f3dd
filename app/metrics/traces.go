package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/internal/trace/otlp"
)

// spanCounts shows what became of spans.
type spanCounts struct {
	exporter *otlp.Exporter
	spans    *prometheus.Desc
}

func newSpanCounts(e *otlp.Exporter) spanCounts {
	return spanCounts{e, prometheus.NewDesc("jibe_trace_spans_total",
		"Spans of traces by what became of them: exported, dropped as too many waited, or failed as the collector didn't take them.", []string{"outcome"}, nil)}
}

// Describe implements prometheus.Collector.
func (c spanCounts) Describe(ch chan<- *prometheus.Desc) { ch <- c.spans }

// Collect implements prometheus.Collector.
func (c spanCounts) Collect(ch chan<- prometheus.Metric) {
	var counts [3]uint64
	if c.exporter != nil {
		counts[0], counts[1], counts[2] = c.exporter.Counts()
	}
	for i, outcome := range []string{"exported", "dropped", "failed"} {
		ch <- prometheus.MustNewConstMetric(c.spans, prometheus.CounterValue, float64(counts[i]), outcome)
	}
}

// exemplar names the trace of an operation, nil where it isn't traced.
func exemplar(c trace.Context) prometheus.Labels {
	if !c.Valid() {
		return nil
	}
	return prometheus.Labels{"trace_id": c.Trace.String(), "span_id": fmt.Sprintf("%x", c.Span[:])}
}

// observe observes a value that has to do with a trace.
func observe(o prometheus.Observer, value float64, of trace.Context) {
	if of.Valid() {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(value, exemplar(of))
			return
		}
	}
	o.Observe(value)
}
