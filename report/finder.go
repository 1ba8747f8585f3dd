package report

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// finder finds what has become of commits. What it remembers can't change: it only saves work.
type finder struct {
	Config
	reached map[[2]string]bool // whether the history of a tip has a commit
}

// mostReached bounds what is remembered.
const mostReached = 20_000

func newFinder(c Config) *finder { return &finder{c, map[[2]string]bool{}} }

// targets are the instances that differ between a commit and its parent, and the rollouts, but for a
// commit of a rollout's own. broken is how many problems its files have by themselves.
func (f *finder) targets(ctx context.Context, s gitrepo.Step) (list []Target, broken int, err error) {
	if !s.OfRollout {
		names, err := f.Repo.RolloutsChanged(ctx, s.Parent, s.Commit)
		if err != nil {
			return nil, 0, fmt.Errorf("rollouts that commit %s changes: %w", s.Commit, err)
		}
		for _, name := range names {
			list = append(list, targetRollout(name))
		}
	}
	changes, _, err := f.Repo.Diff(ctx, s.Parent, s.Commit)
	if invalid := new(desired.InvalidError); errors.As(err, &invalid) {
		broken, err = len(invalid.Problems), nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("what commit %s changes: %w", s.Commit, err)
	}
	for _, c := range changes {
		list = append(list, Target{Instance: c.After.Instance, Dir: c.After.Dir})
	}
	return list, broken, nil
}

// outcome is what has become of a commit at an instance so far. was is what was found before, zero
// for nothing.
func (f *finder) outcome(ctx context.Context, commit string, t Target, was outcome) (outcome, error) {
	if was.Instance != "" && was.final() {
		return was, nil
	}
	// Read before the operations: one that is born in between is found, and nothing taken for done.
	head, _ := f.Repo.Lookup(t.Instance)
	operated := ""
	if e, ok := f.Oplog.InstanceEntry(t.Instance); ok {
		operated = e.Operated.Tree
	}
	op, err := f.operation(ctx, commit, t.Instance, was)
	switch {
	case err != nil:
		return outcome{}, fmt.Errorf("operation of commit %s on instance %s: %w", commit, t.Instance, err)
	case op != nil && op.GaveWay && !op.State.Ended(): // it rests until the one begins that takes its place
		return outcome{Target: t, fate: runs, Operation: op.ID, Type: op.Type, State: op.State}, nil
	case op != nil:
		return outcome{Target: t, fate: fateOf(op.State), Operation: op.ID, Type: op.Type, State: op.State}, nil
	case f.Refused(t.Instance):
		return outcome{Target: t, fate: refused}, nil
	case head.Tree == operated: // it was looked at, and nothing was to be done
		return outcome{Target: t, fate: unchanged}, nil
	}
	return outcome{Target: t, fate: waits}, nil
}

// operation is the one that brings a commit about at an instance, nil for none yet: the first whose
// revision has the commit in its history, or the one to which that gave way. Operations of one instance
// follow each other.
func (f *finder) operation(ctx context.Context, commit, instance string, was outcome) (*lcm.Operation, error) {
	op, err := f.first(ctx, commit, instance, was)
	for err == nil && op != nil && op.GaveWay && op.SupersededBy != "" {
		next, gone := f.Oplog.Operation(ctx, op.SupersededBy)
		if errors.Is(gone, store.ErrNotFound) {
			return op, nil
		}
		op, err = next, gone
	}
	return op, err
}

// first is the first operation whose revision has the commit in its history, nil for none.
func (f *finder) first(ctx context.Context, commit, instance string, was outcome) (*lcm.Operation, error) {
	if was.Operation != "" {
		op, err := f.Oplog.Operation(ctx, was.Operation)
		if !errors.Is(err, store.ErrNotFound) {
			return op, err
		}
	}
	var ids []string
	for e := range f.Oplog.OperationEntries(oplog.OperationQuery{Instance: instance}) {
		ids = append(ids, e.ID)
	}
	var found *lcm.Operation
	for _, id := range slices.Backward(ids) {
		op, err := f.Oplog.Operation(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was removed since
		}
		if err != nil {
			return nil, err
		}
		if op.Automatic && op.Before.Tree == op.After.Tree {
			continue // a repair: git said so all along
		}
		has, err := f.reaches(ctx, op.After.Commit, commit)
		if err != nil {
			return nil, err
		}
		if !has {
			break
		}
		if op.LeavesOut(commit) {
			continue // it was begun while this one waited
		}
		found = op
	}
	return found, nil
}

// reaches says whether the history that ends at tip has the commit.
func (f *finder) reaches(ctx context.Context, tip, commit string) (bool, error) {
	if tip == commit {
		return true, nil
	}
	key := [2]string{tip, commit}
	if has, known := f.reached[key]; known {
		return has, nil
	}
	has, err := f.Repo.Reaches(ctx, tip, commit)
	if err != nil {
		return false, err
	}
	if len(f.reached) >= mostReached {
		clear(f.reached)
	}
	f.reached[key] = has
	return has, nil
}
