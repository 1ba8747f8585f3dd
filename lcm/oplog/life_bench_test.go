package oplog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// weighing counts the bytes that are put.
type weighing struct {
	store.Store
	bytes, puts atomic.Int64
}

func (w *weighing) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	w.puts.Add(1)
	for _, r := range recs {
		w.bytes.Add(int64(len(r.Key) + len(r.Value)))
	}
	return w.Store.Put(ctx, recs...)
}

// BenchmarkLife is the whole life of a SCALE of a VNF with twenty units: reserved, begun,
// granted with its first steps, more steps, converged; and what is read of it meanwhile.
func BenchmarkLife(b *testing.B) {
	for _, subscribed := range []bool{true, false} {
		b.Run(fmt.Sprintf("subscribed=%t", subscribed), func(b *testing.B) { benchmarkLife(b, subscribed) })
	}
}

func benchmarkLife(b *testing.B, subscribed bool) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	s := &weighing{Store: db}
	l := open(b, s, time.Now)
	l.SetSubscribed(subscribed)
	units := make([]plan.Unit, 20)
	for n := range units {
		name := fmt.Sprintf("amf-vdu1-7d9f8b6c5-%05d", n)
		units[n] = plan.Unit{Key: "Pod/vnf-amf/" + name, ID: fmt.Sprintf("5e0a3f6c-9d7e-4c5b-8f1a-%012d", n), Name: name, Kind: "Deployment", VDU: "vdu1", Ready: true,
			Owner: "Deployment/vnf-amf/amf-vdu1", Metadata: map[string]string{"node": "worker-1", "address": fmt.Sprint("10.1.2.", n), "image": "registry.example/amf:1.4.2"}}
	}
	b.ReportAllocs()
	ctx := b.Context()
	n := 0
	for b.Loop() {
		n++
		id, inst := fmt.Sprintf("op-%d", n), fmt.Sprintf("inst-%d", n%50)
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		read := func() {
			i, err := l.Instance(ctx, inst)
			must(err)
			_, err = l.Operation(ctx, i.Open)
			must(err)
		}
		must(l.Prepare(ctx, lcm.Operation{ID: id, Instance: inst, Type: lcm.Scale, RequestedBy: "nfvo", Before: rev("t0"), Params: json.RawMessage(`{"type":"SCALE_OUT","aspectId":"vdu1","numberOfSteps":1}`)}))
		_, err := l.Commit(ctx, id, rev("t1"))
		must(err)
		record := func(change func(op *lcm.Operation) error) {
			read()
			_, err := l.Record(ctx, id, func(op *lcm.Operation, _ *lcm.Instance) error { return change(op) })
			must(err)
		}
		record(func(op *lcm.Operation) error {
			op.UnitsBefore, op.UnitsAfter = units[:19], units[:19]
			op.Journal.Issued = []plan.StepKey{"apply:Deployment/vnf-amf/amf-vdu1"}
			op.AddToStory(epoch, "apply Deployment/vnf-amf/amf-vdu1: replicas 19 to 20")
			return op.Advance(lcm.Granted, time.Now(), nil)
		})
		record(func(op *lcm.Operation) error {
			op.Journal.Issued = append(op.Journal.Issued, "wait:Deployment/vnf-amf/amf-vdu1")
			op.AddToStory(epoch, "wait for Deployment/vnf-amf/amf-vdu1")
			return nil
		})
		record(func(op *lcm.Operation) error {
			op.UnitsAfter = units
			return op.Advance(lcm.Converged, time.Now(), nil)
		})
		if n%100 == 0 && subscribed {
			end, err := l.End(ctx)
			must(err)
			must(l.DropThrough(ctx, end))
		}
	}
	b.ReportMetric(float64(s.bytes.Load())/float64(n), "put-B/op")
	b.ReportMetric(float64(s.puts.Load())/float64(n), "puts/op")
}
