package oplog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// Prepare is the first step of a request's operation: it reserves the instance
// before the commit is made. The record is invisible until [Log.Commit]. It
// returns [ErrBusy] while another operation has the instance, unless that is an
// automatic one in FAILED_TEMP, which the new one will supersede. It is idempotent.
func (l *Log) Prepare(ctx context.Context, op lcm.Operation) error {
	if err := checkBirth(op); err != nil {
		return err
	}
	return l.again(ctx, op.Instance, func(ctx context.Context) error {
		var b batch
		inst, was, err := l.instance(ctx, op.Instance)
		if err != nil {
			return err
		}
		if inst.Prepared == op.ID {
			return nil
		}
		if other, err := l.Prepared(ctx, op.ID); err == nil {
			return fmt.Errorf("prepare operation %s on instance %s: the id is taken by an operation on instance %s", op.ID, op.Instance, other.Instance)
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if _, err := l.Operation(ctx, op.ID); err == nil {
			return nil // it has been committed
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if inst.Prepared != "" {
			return ErrBusy{inst.ID, inst.Prepared, lcm.Prepared}
		}
		if inst.Proposed != "" {
			return ErrBusy{inst.ID, inst.Proposed, lcm.Starting}
		}
		if inst.Open != "" {
			open, err := l.Operation(ctx, inst.Open)
			if err != nil {
				return err
			}
			if !open.Automatic || open.State != lcm.FailedTemp {
				return ErrBusy{inst.ID, open.ID, open.State}
			}
		}
		if inst.OutstandingCommit != "" {
			// The directory still has the content that failed, and a change on top would keep it.
			return ErrBusy{inst.ID, inst.OutstandingCommit, inst.LastState}
		}
		op := op
		op.State, op.Member = lcm.Prepared, l.member
		if op.StateEntered.IsZero() {
			op.StateEntered = l.now().UTC()
		}
		if was == nil {
			l.announce(&b, inst, op.VNF, op.After.Dir)
		}
		inst.Prepared = op.ID
		put(&b, l.prepared, op.ID, nil, &op)
		l.putInstance(&b, inst, was)
		return l.commit(ctx, &b)
	})
}

// Commit is the last step of a request's operation: its commit is durable at
// after. The operation becomes visible in STARTING (a MODIFY_INFO in PROCESSING)
// together with its event. It returns [store.ErrNotFound] for an operation that
// was never prepared or was abandoned. It is idempotent.
func (l *Log) Commit(ctx context.Context, opID string, after desired.Revision) (*lcm.Operation, error) {
	instance, err := l.instanceOf(ctx, l.prepared, opID)
	if errors.Is(err, store.ErrNotFound) {
		return l.committed(ctx, opID)
	}
	if err != nil {
		return nil, err
	}
	var done *lcm.Operation
	err = l.again(ctx, instance, func(ctx context.Context) error {
		var b batch
		op, prepared, err := l.prepared.hold(ctx, opID)
		if errors.Is(err, store.ErrNotFound) {
			done, err = l.committed(ctx, opID)
			return err
		}
		if err != nil {
			return err
		}
		inst, was, err := l.instance(ctx, op.Instance)
		if err != nil {
			return err
		}
		op.After, op.Member = after, ""
		if err := l.begin(ctx, &b, op, inst); err != nil {
			return err
		}
		inst.Prepared = ""
		remove(&b, l.prepared, op.ID, prepared)
		l.putOperation(&b, op, nil, lcm.Prepared)
		l.putInstance(&b, inst, was)
		done = op
		return l.commit(ctx, &b)
	})
	return done, err
}

// committed returns an operation that is no longer prepared.
func (l *Log) committed(ctx context.Context, opID string) (*lcm.Operation, error) {
	op, err := l.Operation(ctx, opID)
	if err != nil {
		return nil, fmt.Errorf("commit: neither prepared nor begun: %w", err)
	}
	return op, nil
}

// Abandon removes a prepared operation whose commit was not made. It does nothing where
// there is none.
func (l *Log) Abandon(ctx context.Context, opID string) error {
	instance, err := l.instanceOf(ctx, l.prepared, opID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.again(ctx, instance, func(ctx context.Context) error {
		var b batch
		op, prepared, err := l.prepared.hold(ctx, opID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		inst, was, err := l.instance(ctx, op.Instance)
		if err != nil {
			return err
		}
		remove(&b, l.prepared, opID, prepared)
		if inst.Prepared == opID {
			inst.Prepared = ""
			l.putInstance(&b, inst, was)
		}
		return l.commit(ctx, &b)
	})
}

// Born begins an operation that no request asked for, because of a push or of drift. The
// caller derives op.ID from the cause, so that one cause begins one operation: if the
// operation exists, it is returned unchanged. An open operation in FAILED_TEMP
// becomes FAILED, superseded, in the same Put. It returns [ErrBusy] while another
// runs or is prepared.
func (l *Log) Born(ctx context.Context, op lcm.Operation) (*lcm.Operation, error) {
	return l.give(ctx, op, func(b *batch, op *lcm.Operation, inst *lcm.Instance, known bool) error {
		if inst.Prepared != "" {
			return ErrBusy{inst.ID, inst.Prepared, lcm.Prepared}
		}
		if inst.Proposed != "" && !op.Automatic {
			return ErrBusy{inst.ID, inst.Proposed, lcm.Starting}
		}
		if !known {
			l.announce(b, inst, op.VNF, op.After.Dir)
		}
		return l.begin(ctx, b, op, inst)
	})
}

// give puts an operation that has no record yet, as begin leaves it and its instance; begin may run again. If the
// operation exists, it is returned unchanged. known says that the instance has a record.
func (l *Log) give(ctx context.Context, op lcm.Operation, begin func(b *batch, op *lcm.Operation, inst *lcm.Instance, known bool) error) (*lcm.Operation, error) {
	if err := checkBirth(op); err != nil {
		return nil, err
	}
	var done *lcm.Operation
	err := l.again(ctx, op.Instance, func(ctx context.Context) error {
		var b batch
		old, err := l.Operation(ctx, op.ID)
		if err == nil {
			done = old
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		inst, was, err := l.instance(ctx, op.Instance)
		if err != nil {
			return err
		}
		op := op
		op.State = lcm.Prepared
		if err := begin(&b, &op, inst, was != nil); err != nil {
			return err
		}
		l.putOperation(&b, &op, nil, lcm.Prepared)
		l.putInstance(&b, inst, was)
		done = &op
		return l.commit(ctx, &b)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// begin supersedes an open operation in FAILED_TEMP, if there is one, and moves
// op out of Prepared. The caller puts op and inst.
func (l *Log) begin(ctx context.Context, b *batch, op *lcm.Operation, inst *lcm.Instance) error {
	now := l.now()
	if err := l.supersede(ctx, b, op, inst); err != nil {
		return err
	}
	if inst.LastState == lcm.Failed {
		failed, err := l.Operation(ctx, inst.Last)
		if err != nil {
			return err
		}
		op.Journal = op.Journal.Inherit(failed.Journal)
	}
	op.VNF = vnf(op.VNF, inst.VNF)
	if op.UnitsBefore == nil {
		op.UnitsBefore, op.ResourcesBefore = inst.Units, inst.Resources
	}
	if err := op.Advance(lcm.Committed, now, nil); err != nil {
		return err
	}
	inst.Open, inst.Last, inst.LastState = op.ID, op.ID, ""
	if !op.Proposed() {
		operates(op, inst)
	}
	inst.OutstandingCommit = "" // the newer operation makes the outstanding commit obsolete
	inst.VNF = op.VNF
	inst.Seq++
	b.transition(op, lcm.Prepared)
	return nil
}

// operates says in the instance's record that the operation brings its revision about.
func operates(op *lcm.Operation, inst *lcm.Instance) {
	inst.Operated = op.After
	if op.Type == lcm.Instantiate {
		inst.PinnedVIM, inst.VIMs, inst.GoneVIMs = op.PinnedVIM, nil, nil
	}
}

// supersede ends an open operation in FAILED_TEMP, if there is one, as op takes its place. The caller puts op and
// inst.
func (l *Log) supersede(ctx context.Context, b *batch, op *lcm.Operation, inst *lcm.Instance) error {
	if inst.Open == "" {
		return nil
	}
	old, was, err := l.operations.hold(ctx, inst.Open)
	if err != nil {
		return err
	}
	if old.State != lcm.FailedTemp {
		return ErrBusy{inst.ID, old.ID, old.State}
	}
	if err := old.Advance(lcm.Superseded, l.now(), nil); err != nil {
		return err
	}
	old.SupersededBy = op.ID
	op.Journal = op.Journal.Inherit(old.Journal)
	l.putOperation(b, old, was, lcm.FailedTemp)
	b.transition(old, lcm.FailedTemp)
	return nil
}

// announce adds the event for a new identifier, for an instance that has no record yet.
func (l *Log) announce(b *batch, inst *lcm.Instance, v lcm.VNF, dir string) {
	inst.VNF = v
	b.events = append(b.events, Event{Type: CreatedEvent, Time: l.now().UTC(), Instance: inst.ID, Dir: dir, VNF: v})
}

func checkBirth(op lcm.Operation) error {
	for noun, id := range map[string]string{"operation": op.ID, "instance": op.Instance} {
		if id == "" || len(id) > 256 || strings.ContainsAny(id, "/\x00") {
			return fmt.Errorf("begin %s: %s id %.64q can't be one", op.Type, noun, id)
		}
	}
	if op.Type == "" {
		return fmt.Errorf("begin operation %s: it has no type", op.ID)
	}
	return nil
}
