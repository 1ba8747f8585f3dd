package oplog_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func rev(tree string) desired.Revision {
	return desired.Revision{Instance: "amf", Dir: "instances/amf", Commit: "c" + tree, Tree: tree}
}

func newOp(id string, t lcm.Type, before, after string) lcm.Operation {
	return lcm.Operation{ID: id, Instance: "amf", Type: t, Before: rev(before), After: rev(after),
		VNF: lcm.VNF{Name: "amf-1", VnfdID: "vnfd"}}
}

// counting counts Puts, to show what an operation costs, and can fail them.
type counting struct {
	store.Store
	mu   sync.Mutex
	puts int
	fail func(recs []store.Record) error
}

func (c *counting) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	c.mu.Lock()
	c.puts++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		if err := fail(recs); err != nil {
			return nil, err
		}
	}
	return c.Store.Put(ctx, recs...)
}

func newLog(t *testing.T) (*oplog.Log, *counting) {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "jibe.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &counting{Store: s}
	var mu sync.Mutex
	now := epoch
	return open(t, c, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}), c
}

// open is what a start does.
func open(t interface {
	Context() context.Context
	Fatal(...any)
}, s store.Store, now func() time.Time) *oplog.Log {
	l, err := oplog.Open(t.Context(), s, now)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// notified lists the outbox as "created", "op1 STARTING", ….
func notified(t *testing.T, l *oplog.Log) []string {
	t.Helper()
	events, err := l.Events(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var last uint64
	for _, e := range events {
		if e.Seq <= last || e.Instance != "amf" || e.Time.IsZero() {
			t.Errorf("event %+v after %d", e, last)
		}
		last = e.Seq
		if e.Type == oplog.OperationEvent {
			out = append(out, e.Operation.ID+" "+string(e.Operation.State))
		} else {
			out = append(out, string(e.Type))
		}
	}
	return out
}

func wantNotified(t *testing.T, l *oplog.Log, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, notified(t, l)); diff != "" {
		t.Errorf("outbox (-want +got):\n%s", diff)
	}
}

func instance(t *testing.T, l *oplog.Log) *lcm.Instance {
	t.Helper()
	inst, err := l.Instance(t.Context(), "amf")
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func advance(t *testing.T, l *oplog.Log, id string, events ...lcm.Event) *lcm.Operation {
	t.Helper()
	op, err := l.Record(t.Context(), id, func(op *lcm.Operation, _ *lcm.Instance) error {
		for _, e := range events {
			if err := op.Advance(e, epoch, &lcm.ProblemDetails{Status: 500, Detail: "because " + string(e)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("record %v: %v", events, err)
	}
	return op
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func born(t *testing.T, l *oplog.Log, op lcm.Operation) *lcm.Operation {
	t.Helper()
	o, err := l.Born(t.Context(), op)
	must(t, err)
	return o
}
