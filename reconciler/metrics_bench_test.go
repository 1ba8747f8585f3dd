package reconciler

import (
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// BenchmarkMetricsOfAnOperation is all that the reconciler measures of an operation that begins,
// does one step and ends, with the passes that this takes. BenchmarkMetricsOfALook is that of a look
// at what is at rest.
func BenchmarkMetricsOfAnOperation(b *testing.B) {
	m := NewMetrics(nil)
	op := lcm.Operation{ID: "3a5c1f0e-0000-4000-8000-00000000000c", Type: lcm.Scale, Started: time.Now(), StateEntered: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		for _, state := range []lcm.State{lcm.Starting, lcm.Processing, lcm.Completed} {
			op.State = state
			m.Operation(&op)
			m.waitedInQueue(atWork, time.Millisecond)
			m.pass(time.Millisecond, nil, 1)
		}
		m.planned(op.Type, 1)
		m.did(nil, plan.Step{Action: plan.Scale})
		m.left(op.Type, phase("apply"), time.Millisecond)
		m.left(op.Type, phase("wait"), time.Millisecond)
	}
}

func BenchmarkMetricsOfALook(b *testing.B) {
	m := NewMetrics(nil)
	b.ReportAllocs()
	for b.Loop() {
		m.waitedInQueue(idle, time.Millisecond)
		m.pass(time.Millisecond, nil, 1)
	}
}
