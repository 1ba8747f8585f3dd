package oplog_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// BenchmarkStores holds records in Redis against those in a file, at 50,000 instances and 100,000 operations, half of which may be pruned:
// how long a start reads, what a page of 100 operations costs, and how many operations are pruned a second.
func BenchmarkStores(b *testing.B) {
	const n = 50_000
	file := func(b *testing.B) store.Store {
		s, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"))
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	server := func(b *testing.B) store.Store {
		s, err := redis.Open(b.Context(), redis.Options{URL: redisserver.Start(b, "--appendfsync", "everysec").URL()})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	for _, kind := range []struct {
		name string
		open func(b *testing.B) store.Store
	}{{"file", file}, {"redis", server}} {
		s := kind.open(b)
		b.Cleanup(func() { _ = s.Close() })
		fill(b, s, n, 2*n)
		var ids []string
		var recs []store.Record
		began := open(b, s, time.Now)
		for e := range began.OperationEntries(oplog.OperationQuery{}) {
			op := newOp(e.ID, lcm.Scale, "t0", "t1")
			op.Instance, op.State, op.Started = e.Instance, lcm.Completed, e.Started
			op.Story = []lcm.StoryLine{{Text: strings.Repeat("x", 1500)}}
			value, err := json.Marshal(op)
			if err != nil {
				b.Fatal(err)
			}
			if recs, ids = append(recs, store.Record{Key: "operation/" + e.ID, Value: value}), append(ids, e.ID); len(recs) == 1000 {
				if _, err := s.Put(b.Context(), recs...); err != nil {
					b.Fatal(err)
				}
				recs = nil
			}
		}
		if len(ids) != 2*n {
			b.Fatalf("%d operations", len(ids))
		}
		b.Run(fmt.Sprint("open/", kind.name), func(b *testing.B) {
			for b.Loop() {
				open(b, s, time.Now)
			}
		})
		b.Run(fmt.Sprint("page/", kind.name), func(b *testing.B) {
			i := 0
			for b.Loop() {
				i++
				ops, err := began.Operations(b.Context(), fmt.Sprintf("%08x", uint32(i)*2654435761%0xf0000000), 100)
				if err != nil || len(ops) != 100 {
					b.Fatalf("%d operations, %v", len(ops), err)
				}
			}
		})
		b.Run(fmt.Sprint("prune/", kind.name), func(b *testing.B) {
			l := open(b, s, func() time.Time { return time.Now().Add(20 * 365 * 24 * time.Hour) })
			removed := 0
			for i := 0; b.Loop(); i++ {
				if removed > 0 {
					continue // there are none left: what one costs was measured
				}
				var err error
				if removed, err = l.Prune(b.Context(), oplog.Keep{Age: time.Hour}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(removed)/b.Elapsed().Seconds(), "operations/s")
			}
			if removed == 0 {
				b.Fatal("nothing was pruned")
			}
		})
	}
}
