package automation

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// records are operations as the log has them.
type records []*lcm.Operation

func (r records) InstanceEntry(string) (*oplog.InstanceEntry, bool) { return nil, false }

func (r records) Operation(_ context.Context, id string) (*lcm.Operation, error) {
	for _, op := range r {
		if op.ID == id {
			return op, nil
		}
	}
	return nil, store.ErrNotFound
}

func (r records) OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry] {
	return func(yield func(oplog.OperationEntry) bool) {
		for _, op := range r {
			if !op.Started.Before(q.From) && !yield(oplog.OperationEntry{ID: op.ID, Instance: op.Instance, State: op.State, Automatic: op.Automatic, Started: op.Started}) {
				return
			}
		}
	}
}

func TestWhatCameOfAnAttemptIsToldByTheTreesOfOperationsAndElseUnknown(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	op := func(before, after string, state lcm.State, more ...func(*lcm.Operation)) *lcm.Operation {
		o := &lcm.Operation{ID: before + after + string(state), Before: desired.Revision{Tree: before}, After: desired.Revision{Tree: after}, State: state, Started: began.Add(time.Second)}
		for _, f := range more {
			f(o)
		}
		return o
	}
	automatic := func(o *lcm.Operation) { o.Automatic = true }
	earlier := func(o *lcm.Operation) { o.Started = began.Add(-10 * time.Second) }
	superseded := func(o *lcm.Operation) { o.SupersededBy = "x" }
	for name, c := range map[string]struct {
		ops     records
		head    string // its tree
		reached bool
		entry   oplog.InstanceEntry
		later   time.Duration
		want    rollout.Found
	}{
		"no operation yet":                          {head: "new", reached: true, want: rollout.Waiting},
		"its operation is under way":                {ops: records{op("old", "new", lcm.Processing)}, head: "new", reached: true, want: rollout.UnderWay},
		"its operation waits for a person":          {ops: records{op("old", "new", lcm.FailedTemp)}, head: "new", reached: true, want: rollout.FailedTemp},
		"it was completed":                          {ops: records{op("old", "new", lcm.Completed)}, head: "new", reached: true, want: rollout.Completed},
		"what was granted moved the tree":           {ops: records{op("old", "granted", lcm.Completed)}, head: "granted", reached: true, want: rollout.Completed},
		"it was rolled back":                        {ops: records{op("old", "new", lcm.RolledBack)}, head: "old", want: rollout.Failed},
		"a newer commit took its place":             {ops: records{op("old", "new", lcm.Failed, superseded)}, head: "other", want: rollout.Superseded},
		"a person's commit was folded into it":      {ops: records{op("old", "other", lcm.Completed)}, head: "other", want: rollout.Superseded},
		"only a repair has run":                     {ops: records{op("new", "new", lcm.Completed, automatic)}, head: "new", reached: true, want: rollout.Waiting},
		"an earlier operation left the same tree":   {ops: records{op("old", "older", lcm.Completed, earlier)}, head: "new", reached: true, want: rollout.Waiting},
		"nothing had to be done":                    {head: "new", reached: true, entry: oplog.InstanceEntry{Operated: desired.Revision{Tree: "new"}, Settled: desired.Revision{Tree: "new"}}, want: rollout.Completed},
		"another replica's record is still to come": {head: "old", want: rollout.Waiting},
		"the records are lost":                      {head: "old", later: time.Hour, want: rollout.Unknown},
	} {
		r := NewRollouts(RolloutConfig{Oplog: c.ops, Now: func() time.Time { return began.Add(time.Second + c.later) }})
		f := rollout.Fact{Instance: "i", Reached: c.reached}
		a := desired.Attempt{Prior: "old", Tree: "new", Began: began}
		if err := r.find(t.Context(), &f, a, desired.Head{Revision: desired.Revision{Tree: c.head}}, &c.entry); err != nil || f.Found != c.want {
			t.Errorf("%s: found %q, %v; want %q", name, f.Found, err, c.want)
		}
	}
}
