package oplog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// Rebuilt says what of an instance was put by [Log.Rebuild].
type Rebuilt struct {
	Instance         bool
	Operations, Open int
}

// rebuildBatch is how many operations are put at once.
const rebuildBatch = 100

// Rebuild puts the records that the store lacks of an instance, as [lcm.Rebuild] has made them: all of
// them where it has none, and what is newer than those it has where it went back to an older state. What the
// store has and git doesn't contradict stays. Nobody is notified, as nothing has happened. forgotten
// says that the instance isn't there any more: then it gets no record, and its operations alone come back. emptied
// says that the store had lost everything: what isn't there was lost then, and not pruned, also where
// something was put since. Rebuild may be interrupted and run again.
func (l *Log) Rebuild(ctx context.Context, inst *lcm.Instance, ops []*lcm.Operation, forgotten, emptied bool) (done Rebuilt, err error) {
	err = l.again(ctx, inst.ID, func(ctx context.Context) error {
		done = Rebuilt{}
		stored, was, err := l.instance(ctx, inst.ID)
		if err != nil {
			return err
		}
		if was != nil && stored.Proposed != "" { // it waits as it did
			ops = slices.DeleteFunc(slices.Clone(ops), func(op *lcm.Operation) bool { return op.ID == stored.Proposed && !op.State.Ended() })
		}
		first, behind, err := l.behind(ctx, stored, was != nil, inst, ops)
		if err != nil {
			return err
		}
		var b batch
		for i, op := range ops {
			put, err := l.rebuildOperation(ctx, &b, op, emptied || i >= first && (behind || was == nil))
			if err != nil {
				return err
			}
			if !put {
				continue
			}
			done.Operations++
			if !op.State.Ended() {
				done.Open++
			}
			if len(b.operations) == rebuildBatch && op.State.Ended() { // the open one comes with the instance
				if err := l.commit(ctx, &b); err != nil {
					return err
				}
				b = batch{}
			}
		}
		if behind || was == nil && !forgotten {
			done.Instance = true
			if err := l.rebuildInstance(ctx, &b, inst, stored, was); err != nil {
				return err
			}
		}
		if len(b.recs) == 0 && b.err == nil {
			return nil
		}
		return l.commit(ctx, &b)
	})
	if err != nil {
		return done, fmt.Errorf("rebuild the records of instance %s: %w", inst.ID, err)
	}
	return done, nil
}

// behind says whether the instance's record is older than what git says, and which is the first operation
// that may be lacking. Whatever began before that and isn't there was pruned.
func (l *Log) behind(ctx context.Context, stored *lcm.Instance, known bool, inst *lcm.Instance, ops []*lcm.Operation) (first int, behind bool, err error) {
	if !known || len(ops) == 0 {
		return 0, false, nil
	}
	last := ops[len(ops)-1]
	switch at := slices.IndexFunc(ops, func(op *lcm.Operation) bool { return op.ID == stored.Last }); {
	case at >= 0:
		first = at + 1
	case stored.Last != "": // it isn't in git yet: the others began before it, or after
		newest, err := l.Operation(ctx, stored.Last)
		if errors.Is(err, store.ErrNotFound) {
			return len(ops), false, nil
		} else if err != nil {
			return 0, false, err
		}
		// Commits tell the second only.
		from := newest.Started.Truncate(time.Second)
		if first = slices.IndexFunc(ops, func(op *lcm.Operation) bool { return !op.Started.Before(from) }); first < 0 {
			first = len(ops)
		}
	}
	behind = first < len(ops)
	if behind && stored.Prepared != "" && stored.Prepared == last.ID {
		behind = false // whoever resolves the request begins it
	}
	if !behind && stored.Last == last.ID {
		// Its end is known, or has come to git.
		behind = stored.Open == last.ID && last.State.Ended() || stored.OutstandingCommit == last.ID && inst.OutstandingCommit == ""
	}
	return first, behind, nil
}

// rebuildOperation adds the operation's record to the batch where it isn't there and lacking, or where the store has
// it still open and git tells its end.
func (l *Log) rebuildOperation(ctx context.Context, b *batch, op *lcm.Operation, lacking bool) (put bool, err error) {
	if err := checkBirth(*op); err != nil {
		return false, err
	}
	stored, was, err := l.operations.hold(ctx, op.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if !lacking {
			return false, nil
		}
		l.putOperation(b, op, nil, lcm.Prepared)
		return true, nil
	case err != nil:
		return false, err
	case stored.State.Ended() || !op.State.Ended():
		return false, nil
	}
	from := stored.State
	stored.State, stored.StateEntered, stored.Error = op.State, op.StateEntered, op.Error
	stored.Before, stored.After = op.Before, op.After
	stored.AddToStory(l.now(), "its end was lost by the store; "+string(op.State)+" is what git says")
	l.putOperation(b, stored, was, from)
	return true, nil
}

// rebuildInstance adds the instance's record to the batch. What git doesn't know of stays as it was.
func (l *Log) rebuildInstance(ctx context.Context, b *batch, inst, stored *lcm.Instance, was *record[lcm.Instance]) error {
	next := *inst
	next.Seq = max(inst.Seq, stored.Seq+1)
	next.Proposed = stored.Proposed
	for _, id := range stored.Withdraw {
		if !slices.Contains(next.Withdraw, id) {
			next.Withdraw = append(next.Withdraw, id)
		}
	}
	next.Care = ""
	next.Prepared, next.Units, next.Resources = stored.Prepared, stored.Units, stored.Resources
	next.VIMs, next.GoneVIMs = stored.VIMs, stored.GoneVIMs
	if stored.Open != "" && stored.Open != next.Open {
		open, held, err := l.operations.hold(ctx, stored.Open)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		ends := slices.ContainsFunc(b.operations, func(op *lcm.Operation) bool { return op.ID == stored.Open })
		if err == nil && !ends && !open.State.Ended() { // Jibe began it by itself, and something followed
			from := open.State
			open.State, open.StateEntered, open.SupersededBy = lcm.Failed, l.now().UTC(), next.Last
			open.Error = &lcm.ProblemDetails{Status: 500, Title: "Record lost", Detail: "how it ended is not known: the store lost the record, and git tells of a newer operation"}
			l.putOperation(b, open, held, from)
		}
	}
	l.putInstance(b, &next, was)
	return nil
}
