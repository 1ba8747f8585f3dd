package oplog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// BenchmarkFollow is what it costs to take over an operation that another process has begun and
// carried on, with its instance.
func BenchmarkFollow(b *testing.B) {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const operations, instances = 2000, 500
	for range b.N {
		b.StopTimer()
		writer, follower := shared(b, s), shared(b, s)
		for i := range operations {
			op := newOp(uuid.NewString(), lcm.Scale, "t0", "t1")
			op.Instance = fmt.Sprintf("inst-%d-%s", i%instances, op.ID[:4])
			if _, err := writer.Born(b.Context(), op); err != nil {
				b.Fatal(err)
			}
			if _, err := writer.Record(b.Context(), op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
				return op.Advance(lcm.Granted, time.Now(), nil)
			}); err != nil {
				b.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		b.StartTimer()
		go func() { done <- follower.Follow(ctx) }()
		if err := follower.Sync(ctx); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*operations)/b.Elapsed().Seconds(), "operations/s")
}

func shared(b *testing.B, s *bolt.Store) *oplog.Log {
	l, err := oplog.Open(b.Context(), s, time.Now, oplog.Shared())
	if err != nil {
		b.Fatal(err)
	}
	return l
}
