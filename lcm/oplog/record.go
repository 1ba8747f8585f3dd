package oplog

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// Record is the one way in which an operation changes after its birth. It loads
// the operation and its instance, runs change, and puts both together with an
// event for every state that the operation passed. When another writer was faster, change
// is run again on fresh records, so it must not keep anything from an earlier run. An error
// of change is returned as it is, and nothing is written. Nothing is written either where
// change alters nothing.
//
// When the operation ends, Record closes it on the instance: it sets Open, LastState,
// Settled, OutstandingCommit and Units by the state in which the operation ended.
func (l *Log) Record(ctx context.Context, opID string, change func(op *lcm.Operation, inst *lcm.Instance) error) (*lcm.Operation, error) {
	return l.alter(ctx, opID, func(_ context.Context, _ *batch, op *lcm.Operation, inst *lcm.Instance) error {
		state, units, unitsAfter := op.State, inst.Units, op.UnitsAfter
		resources, resourcesAfter := inst.Resources, op.ResourcesAfter
		if err := change(op, inst); err != nil {
			return err
		}
		if op.ID != opID || inst.ID != op.Instance {
			return fmt.Errorf("operation %s: a record can't change whose it is", opID)
		}
		ended := op.State != state && op.State.Ended() && (inst.Open == op.ID || inst.Proposed == op.ID)
		if reflect.DeepEqual(inst.Units, units) { // change didn't set them itself
			if !reflect.DeepEqual(op.UnitsAfter, unitsAfter) || ended && settles(op, state) {
				inst.Units = op.UnitsAfter
			}
		}
		if reflect.DeepEqual(inst.Resources, resources) {
			if !reflect.DeepEqual(op.ResourcesAfter, resourcesAfter) || ended && settles(op, state) {
				inst.Resources = op.ResourcesAfter
			}
		}
		switch {
		case ended:
			closeOn(op, inst, state)
		case op.State.Ended() && inst.Care == op.ID:
			inst.Care = ""
		}
		return nil
	})
}

// alter loads an operation and its instance, and puts both as change leaves them, together with what change adds to
// the batch and an event for every state that the operation passed. change runs again where another writer was
// faster, and reads with the context that it is given. Where it alters nothing, nothing is written.
func (l *Log) alter(ctx context.Context, opID string, change func(ctx context.Context, b *batch, op *lcm.Operation, inst *lcm.Instance) error) (*lcm.Operation, error) {
	of, err := l.instanceOf(ctx, l.operations, opID)
	if err != nil {
		return nil, err
	}
	var done *lcm.Operation
	err = l.again(ctx, of, func(ctx context.Context) error {
		var b batch
		op, opWas, err := l.operations.hold(ctx, opID)
		if err != nil {
			return err
		}
		inst, instWas, err := l.instance(ctx, op.Instance)
		if err != nil {
			return err
		}
		state := op.State
		if err := change(ctx, &b, op, inst); err != nil {
			return err
		}
		b.transition(op, state)
		l.putOperation(&b, op, opWas, state)
		l.putInstance(&b, inst, instWas)
		done = op
		return l.commit(ctx, &b)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// settles says whether the instance's record takes over the units that the operation
// recorded last, even if there are none left, as after TERMINATE. A MODIFY_INFO that
// changed nothing at the VIM may have recorded none, and then doesn't settle them.
func settles(op *lcm.Operation, from lcm.State) bool {
	reached := op.State == lcm.Completed || op.State == lcm.RolledBack && from != lcm.Starting
	return reached && (op.UnitsAfter != nil || op.Type != lcm.ModifyInfo)
}

// closeOn writes an operation's end into its instance's record.
func closeOn(op *lcm.Operation, inst *lcm.Instance, from lcm.State) {
	if op.Proposed() { // what it proposed never counted
		inst.Withdraw = append(slices.Clip(inst.Withdraw), op.ID)
		if inst.Proposed == op.ID {
			inst.Proposed = ""
			if inst.Open != "" || inst.Last != op.ID {
				return // a repair came later
			}
		}
		inst.Open, inst.Last, inst.LastState = "", op.ID, op.State
		return
	}
	inst.Open = ""
	inst.Last, inst.LastState = op.ID, op.State
	moved := op.Before.Tree != op.After.Tree
	switch op.State {
	case lcm.Completed:
		inst.Settled = op.After
		if op.Modified.OfInstance() && op.After.Tree != "" {
			inst.OutstandingCommit = op.ID
		}
	case lcm.RolledBack:
		if from != lcm.Starting {
			inst.Settled = op.Before
		}
		if moved {
			inst.OutstandingCommit = op.ID
		}
	case lcm.Failed:
		inst.OutstandingCommit = op.ID
	}
}

// Retry asks for another attempt (SOL003 clause 5.4.14). An operation that isn't
// in FAILED_TEMP refuses it with [lcm.ErrState]; [ErrBusy] is returned where a
// newer operation is about to take its place.
func (l *Log) Retry(ctx context.Context, opID string) (*lcm.Operation, error) {
	return l.ask(ctx, opID, lcm.RetryAsked)
}

// Rollback asks for what was before (SOL003 clause 5.4.15). It is refused as Retry
// is, and where the operation's type doesn't allow it.
func (l *Log) Rollback(ctx context.Context, opID string) (*lcm.Operation, error) {
	return l.ask(ctx, opID, lcm.RollbackAsked)
}

// Fail ends the operation as FAILED (SOL003 clause 5.4.16). It is refused as Retry is.
func (l *Log) Fail(ctx context.Context, opID string) (*lcm.Operation, error) {
	return l.ask(ctx, opID, lcm.FailAsked)
}

// FailLeaving is Fail that adds to the operation's error what is left of it.
func (l *Log) FailLeaving(ctx context.Context, opID, left string) (*lcm.Operation, error) {
	return l.Record(ctx, opID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if inst.Prepared != "" && !op.State.Ended() {
			return ErrBusy{inst.ID, inst.Prepared, lcm.Prepared}
		}
		if err := op.Advance(lcm.FailAsked, l.now(), nil); err != nil || left == "" || op.Error == nil {
			return err
		}
		said := *op.Error
		said.Detail += "; " + left
		op.Error = &said

		return nil
	})
}

func (l *Log) ask(ctx context.Context, opID string, e lcm.Event) (*lcm.Operation, error) {
	return l.Record(ctx, opID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if inst.Prepared != "" && !op.State.Ended() {
			return ErrBusy{inst.ID, inst.Prepared, lcm.Prepared}
		}
		return op.Advance(e, l.now(), nil)
	})
}

// Cancel asks for the operation's end (SOL003 clause 5.4.17); mode is
// [lcm.Forceful] or [lcm.Graceful]. It is refused with [lcm.ErrState] in
// FAILED_TEMP and after the end.
func (l *Log) Cancel(ctx context.Context, opID, mode string) (*lcm.Operation, error) {
	return l.Record(ctx, opID, func(op *lcm.Operation, _ *lcm.Instance) error {
		return op.Cancel(mode, l.now())
	})
}

// Adopt changes an instance's record outside of any operation: head has moved without a
// change of intent, or the outstanding commit was made. change is run again when another
// writer was faster. An instance without a record gets none: [store.ErrNotFound].
func (l *Log) Adopt(ctx context.Context, id string, change func(inst *lcm.Instance) error) error {
	return l.again(ctx, id, func(ctx context.Context) error {
		var b batch
		inst, was, err := l.instances.hold(ctx, id)
		if err != nil {
			return err
		}
		if err := change(inst); err != nil {
			return err
		}
		if inst.ID != id {
			return fmt.Errorf("instance %s: a record can't change whose it is", id)
		}
		l.putInstance(&b, inst, was)
		return l.commit(ctx, &b)
	})
}

// ForgetVIM forgets that the instance was instantiated at the VIM of that identity under the name: an administrator says
// that it is gone for good. gone says that no VIM answers under the name; then that identity may be unknown, "". It does
// nothing where the record says otherwise by now.
func (l *Log) ForgetVIM(ctx context.Context, id, name, was string, gone bool) error {
	err := l.Adopt(ctx, id, func(i *lcm.Instance) error {
		if was == "" && !gone || i.VIMs[name] != was {
			return nil
		}
		delete(i.VIMs, name)
		if gone && !slices.Contains(i.GoneVIMs, name) {
			i.GoneVIMs = append(i.GoneVIMs, name)
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // it has ended
	}
	return err
}

// Created records a new instance, not yet instantiated, whose directory is at rev, and
// adds the event for its identifier. It does nothing where there is a record.
func (l *Log) Created(ctx context.Context, id string, v lcm.VNF, rev desired.Revision) error {
	return l.again(ctx, id, func(ctx context.Context) error {
		var b batch
		inst, was, err := l.instance(ctx, id)
		if err != nil || was != nil {
			return err
		}
		l.announce(&b, inst, v, rev.Dir)
		inst.Operated, inst.Settled = rev, rev
		l.putInstance(&b, inst, nil)
		return l.commit(ctx, &b)
	})
}

// Forget removes the instance's record and adds the event for its identifier's deletion.
// The operations stay. It returns [ErrBusy] while an operation has the instance, and does
// nothing where there is no record.
func (l *Log) Forget(ctx context.Context, id string) error {
	return l.again(ctx, id, func(ctx context.Context) error {
		var b batch
		inst, was, err := l.instances.hold(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if inst.Prepared != "" {
			return ErrBusy{id, inst.Prepared, lcm.Prepared}
		}
		if inst.Proposed != "" {
			return ErrBusy{id, inst.Proposed, lcm.Starting}
		}
		if inst.Open != "" {
			open, err := l.Operation(ctx, inst.Open)
			if err != nil {
				return err
			}
			return ErrBusy{id, open.ID, open.State}
		}
		remove(&b, l.instances, id, was)
		b.forgotten = append(b.forgotten, id)
		b.events = append(b.events, Event{Type: DeletedEvent, Time: l.now().UTC(), Instance: id, Dir: inst.Operated.Dir, VNF: inst.VNF})
		return l.commit(ctx, &b)
	})
}
