package oplog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// Park has an operation, which is in STARTING and open, wait for its pull request: the instance is free for repairs
// until [Log.Merged], and for nothing else. change, which may run again, completes the operation's record. Park does
// nothing to one that waits already, or has ended meanwhile.
func (l *Log) Park(ctx context.Context, opID string, change func(op *lcm.Operation)) (*lcm.Operation, error) {
	return l.Record(ctx, opID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if op.State != lcm.Starting || !op.Proposed() || inst.Open != op.ID {
			return nil
		}
		inst.Open, inst.Proposed = "", op.ID
		change(op)
		return nil
	})
}

// Merged begins what was proposed: the desired branch has it at rev, in its own words. The operation is open from then
// on, leads from what was operated on last to rev, and takes the place of a repair in FAILED_TEMP. change, which may
// run again, completes the operation's record. Merged returns [ErrBusy] while a repair is under way. It is idempotent,
// and does nothing to an operation that has ended meanwhile.
func (l *Log) Merged(ctx context.Context, opID string, rev desired.Revision, change func(op *lcm.Operation) error) (*lcm.Operation, error) {
	op, err := l.alter(ctx, opID, func(ctx context.Context, b *batch, op *lcm.Operation, inst *lcm.Instance) error {
		if op.State != lcm.Starting || !op.Proposed() {
			return nil
		}
		if inst.Open != op.ID {
			if err := l.supersede(ctx, b, op, inst); err != nil {
				return err
			}
		}
		p := *op.Proposal
		p.Merged = rev.Commit
		op.Proposal = &p
		op.Before, op.After = inst.Operated, rev
		inst.Proposed, inst.Open, inst.Last, inst.LastState = "", op.ID, op.ID, ""
		inst.Withdraw = append(slices.Clip(inst.Withdraw), op.ID)
		operates(op, inst)
		return change(op)
	})
	if err != nil {
		return nil, fmt.Errorf("begin what operation %s proposed: %w", opID, err)
	}
	return op, nil
}

// Withdrawn notes that the pull request and the branch of an operation are gone.
func (l *Log) Withdrawn(ctx context.Context, instance, opID string) error {
	err := l.Adopt(ctx, instance, func(inst *lcm.Instance) error {
		inst.Withdraw = slices.DeleteFunc(slices.Clone(inst.Withdraw), func(id string) bool { return id == opID })
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
