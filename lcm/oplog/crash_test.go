package oplog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

var errCrash = errors.New("the process was killed")

// mortal is a store whose process dies at a Put, before it is durable or after:
// whoever called can't tell.
type mortal struct {
	store.Store
	dieBefore, dieAfter bool
}

func (m *mortal) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if m.dieBefore {
		return nil, errCrash
	}
	out, err := m.Store.Put(ctx, recs...)
	if m.dieAfter && err == nil {
		return nil, errCrash
	}
	return out, err
}

// TestACrashAtAnyPutLosesNothingAndDoublesNothing makes random calls, kills some
// at their Put, repeats those as a restarted process does, and then compares the
// outbox with the records.
func TestACrashAtAnyPutLosesNothingAndDoublesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var runs atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		db, err := bolt.Open(filepath.Join(dir, fmt.Sprint(runs.Add(1))))
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		m := &mortal{Store: db}
		now := func() time.Time { return epoch.Add(time.Hour) }
		l := open(r, m, now)
		ctx := t.Context()
		// call makes the call; if it dies, a new process makes it again.
		call := func(what string, f func() error) {
			switch rapid.IntRange(0, 5).Draw(r, "fate of "+what) {
			case 0:
				m.dieBefore = true
			case 1:
				m.dieAfter = true
			}
			err := f()
			m.dieBefore, m.dieAfter = false, false
			if errors.Is(err, errCrash) {
				l = open(r, m, now)
				err = f()
			}
			if err != nil && !errors.Is(err, oplog.ErrBusy{}) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, lcm.ErrState) {
				r.Fatalf("%s: %v", what, err)
			}
		}
		n, pruned := 0, 0
		fresh := func() lcm.Operation {
			n++
			return newOp(fmt.Sprintf("op%02d", n), rapid.SampledFrom([]lcm.Type{lcm.Instantiate, lcm.Heal, lcm.ModifyInfo}).Draw(r, "type"),
				fmt.Sprint("t", n-1), fmt.Sprint("t", n))
		}
		// id is most often that of the operation that has the instance.
		id := func() string {
			inst, err := l.Instance(ctx, "amf")
			if err != nil {
				r.Fatal(err)
			}
			which := rapid.IntRange(0, 5).Draw(r, "which")
			switch {
			case which == 0:
				return fmt.Sprintf("op%02d", n+1)
			case which < 4 && inst.Open != "":
				return inst.Open
			case inst.Prepared != "":
				return inst.Prepared
			}
			return fmt.Sprintf("op%02d", max(1, n))
		}
		r.Repeat(map[string]func(*rapid.T){
			"prepare": func(r *rapid.T) {
				op := fresh()
				op.After = desired.Revision{}
				call("prepare", func() error { return l.Prepare(ctx, op) })
			},
			"commit": func(r *rapid.T) {
				id := id()
				call("commit", func() error { _, err := l.Commit(ctx, id, rev("t"+id)); return err })
			},
			"abandon": func(r *rapid.T) {
				id := id()
				call("abandon", func() error { return l.Abandon(ctx, id) })
			},
			"born": func(r *rapid.T) {
				op := fresh()
				op.Automatic = rapid.Bool().Draw(r, "automatic")
				call("born", func() error { _, err := l.Born(ctx, op); return err })
			},
			"record": func(r *rapid.T) {
				id := id()
				want := rapid.SliceOfN(rapid.SampledFrom([]lcm.Event{lcm.Granted, lcm.Granted, lcm.Converged, lcm.Broke, lcm.Broke, lcm.Refused}), 1, 2).Draw(r, "events")
				call("record", func() error {
					_, err := l.Record(ctx, id, func(op *lcm.Operation, _ *lcm.Instance) error {
						for _, e := range want {
							if err := op.Advance(e, epoch, nil); err != nil {
								return err
							}
						}
						return nil
					})
					return err
				})
			},
			"ask": func(r *rapid.T) {
				id := id()
				which := rapid.IntRange(0, 3).Draw(r, "ask")
				call("ask", func() (err error) {
					switch which {
					case 0:
						_, err = l.Retry(ctx, id)
					case 1:
						_, err = l.Rollback(ctx, id)
					case 2:
						_, err = l.Fail(ctx, id)
					case 3:
						_, err = l.Cancel(ctx, id, lcm.Forceful)
					}
					return err
				})
			},
			"pay": func(r *rapid.T) {
				call("pay", func() error {
					return l.Adopt(ctx, "amf", func(inst *lcm.Instance) error { inst.OutstandingCommit = ""; return nil })
				})
			},
			"prune": func(r *rapid.T) {
				was := l.Counts().Operations
				call("prune", func() error { _, err := l.Prune(ctx, oplog.Keep{Age: 1, PerInstance: 2}); return err })
				pruned += was - l.Counts().Operations
			},
			"forget": func(r *rapid.T) {
				call("forget", func() error { return l.Forget(ctx, "other") })
			},
			"create": func(r *rapid.T) {
				call("create", func() error { return l.Created(ctx, "other", lcm.VNF{Name: "other"}, rev("t")) })
			},
			"": func(r *rapid.T) {
				consistent(t, r, l, pruned)
				if rapid.IntRange(0, 4).Draw(r, "compare with a start") > 0 {
					return
				}
				if diff := cmp.Diff(entries(t, open(r, db, now)), entries(t, l)); diff != "" {
					r.Fatalf("entries (-as a start reads them +as they are kept):\n%s", diff)
				}
			},
		})
	})
}

// consistent compares the instance's record, the operations and the outbox.
func consistent(t *testing.T, r *rapid.T, l *oplog.Log, pruned int) {
	ctx := t.Context()
	inst, err := l.Instance(ctx, "amf")
	if err != nil {
		r.Fatal(err)
	}
	ops, err := l.Operations(ctx, "", 0)
	if err != nil {
		r.Fatal(err)
	}
	prepared, err := l.Unresolved(ctx)
	if err != nil {
		r.Fatal(err)
	}
	events, err := l.Events(ctx, 0, 0)
	if err != nil {
		r.Fatal(err)
	}
	notified := map[string][]lcm.State{}
	created := 0
	for _, e := range events {
		if e.Type == oplog.OperationEvent {
			notified[e.Operation.ID] = append(notified[e.Operation.ID], e.Operation.State)
		} else if e.Instance == "amf" {
			created++
		}
	}
	if len(ops)+len(prepared) > 0 && created != 1 {
		r.Fatalf("the identifier's creation was notified %d times", created)
	}
	if inst.Seq != uint64(len(ops)+pruned) {
		r.Fatalf("seq %d with %d operations, and %d that were removed", inst.Seq, len(ops), pruned)
	}
	var open, waiting []string
	for _, p := range prepared {
		waiting = append(waiting, p.ID)
	}
	for _, op := range ops {
		if !op.State.Ended() {
			open = append(open, op.ID)
		}
		states := notified[op.ID]
		if len(states) == 0 || states[len(states)-1] != op.State {
			r.Fatalf("%s is %s, notified were %v", op.ID, op.State, states)
		}
		from := lcm.Prepared
		if op.Type == lcm.ModifyInfo {
			from = lcm.Starting
		}
		for _, s := range states {
			if path := lcm.Path(from, s); len(path) != 1 {
				r.Fatalf("%s: notified were %v: no single transition is from %s to %s", op.ID, states, from, s)
			}
			from = s
		}
	}
	one := func(id string) []string {
		if id == "" {
			return nil
		}
		return []string{id}
	}
	if !slices.Equal(open, one(inst.Open)) || !slices.Equal(waiting, one(inst.Prepared)) {
		r.Fatalf("open %q and prepared %q, but the instance says %q and %q", open, waiting, inst.Open, inst.Prepared)
	}
}
