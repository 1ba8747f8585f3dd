package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// movedOn says whether git has something that no operation was made of yet, and that doesn't wait for
// its window.
func (x *attempts) movedOn(ctx context.Context) (bool, error) {
	inst, err := x.oplog.Instance(ctx, x.id)
	if err != nil {
		return false, nil
	}
	head, exists := x.repo.Lookup(x.id)
	if !exists {
		head = desired.Revision{Instance: x.id, Dir: inst.Operated.Dir, Commit: x.repo.Head()}
	}
	if x.unobeyed.at(head) || head.Tree == inst.Operated.Tree {
		return false, nil
	}
	bound, err := x.intents.bound(ctx, inst, head)
	return !bound, err
}

// bound says whether what head asks for may not begin now, by the instance's windows.
func (r *intentReader) bound(ctx context.Context, inst *lcm.Instance, head desired.Revision) (bool, error) {
	before, err := r.revisions.read(ctx, inst.Operated)
	if err != nil {
		return false, err
	}
	after, err := r.revisions.read(ctx, head)
	if err != nil {
		return false, nil // what can't be read is shown when nothing is under way
	}
	op, due, err := r.birth(ctx, inst, inst.Operated, head, before, after)
	if err != nil || !due {
		return false, nil
	}
	return r.closed(ctx, head, op.Type)
}

// closed says whether an operation of a type may not begin now for head. It isn't noted as waiting: once
// the operation under way has ended, another type of operation may be left.
func (r *intentReader) closed(ctx context.Context, head desired.Revision, t lcm.Type) (bool, error) {
	free, err := r.overridden(ctx, head)
	if err != nil || free.reason != "" {
		return false, err
	}
	_, why, err := r.gate.ask(ctx, r.id, head.Dir, t)
	return why != "", err
}

// pastReturn says whether an operation has done what its successor couldn't take into account: a hook has
// ended that the VNF was prepared by, or traffic was switched. It then goes on to its own end.
func pastReturn(j plan.Journal) bool {
	return j.Redirected || slices.ContainsFunc(j.Begun, func(name string) bool { return slices.Contains(j.Hooks, name) })
}

// overtakes says whether git's head asks for another operation than the one that waits in STARTING, or is
// PROCESSING, which could begin now: not where it changes nothing for the VNF, is not feasible, waits for
// its window, or says that it is to wait ("supersede: never").
func (r *intentReader) overtakes(ctx context.Context, op *lcm.Operation) (head desired.Revision, overtakes bool, err error) {
	head, exists := r.repo.Lookup(r.id)
	if !exists {
		head = desired.Revision{Instance: r.id, Dir: op.After.Dir, Commit: r.repo.Head()}
	}
	if op.State != lcm.Processing && op.State != lcm.Starting || head.Tree == op.After.Tree || pastReturn(op.Journal) || r.problems.unobeyed.at(head) {
		return head, false, nil
	}
	if before, err := r.waitedBefore(ctx, op, head); before || err != nil {
		return head, false, err
	}
	asked, err := r.revisions.read(ctx, op.After)
	if err != nil {
		return head, false, err
	}
	after, err := r.revisions.read(ctx, head)
	if err != nil {
		return head, false, nil // what can't be read is shown when the operation has ended
	}
	says := after
	if says == nil {
		says = asked
	}
	if says == nil || says.Suspend || says.Supersede == desired.SupersedeNever {
		return head, false, nil
	}
	due, err := r.due(ctx, head, asked, after)
	if err != nil && r.problems.stuck(ctx, head, err) {
		return head, false, nil
	}
	return head, due, err
}

// due says whether the operation that would take the place of one under way could begin now. It is the very
// one that [Next] would begin: what gave way to one that may not begin would have to be
// taken up again, and would give way again.
func (r *intentReader) due(ctx context.Context, head desired.Revision, asked, after *desired.Instance) (bool, error) {
	inst, err := r.oplog.Instance(ctx, r.id)
	if err != nil {
		return false, fmt.Errorf("record of instance %s: %w", r.id, err)
	}
	settings, err := r.repo.Settings()
	if err != nil {
		return false, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	full := after
	if after != nil && desired.IsInstantiated(after.State) {
		if full, err = r.checker.Complete(ctx, settings, asked, r.checker.unpinned(ctx, asked, after)); err != nil {
			return false, err
		}
	}
	next, due, err := r.successor(ctx, inst, head, asked, full)
	if err != nil || !due {
		return false, err
	}
	if closed, err := r.closed(ctx, head, next.Type); closed || err != nil {
		return false, err
	}
	if full != nil && desired.IsInstantiated(full.State) {
		if err := r.checker.Check(ctx, settings, asked, full); err != nil {
			return false, err
		}
	}
	return true, nil
}

// successor describes the operation that leads to head and takes the place of one that didn't come to its end.
// It begins at what was settled last, which is what its rollback brings back. Where what was operated on last
// or head doesn't run, or nothing differs, it begins at what was operated on last: what that has made or ended
// so far has to go or come back.
func (r *intentReader) successor(ctx context.Context, inst *lcm.Instance, head desired.Revision, before, after *desired.Instance) (op lcm.Operation, due bool, err error) {
	op, due, err = r.birth(ctx, inst, inst.Operated, head, before, after)
	if err != nil || !due {
		return op, due, err // nothing that matters has changed since
	}
	if inst.Settled.Tree != inst.Operated.Tree && before != nil && after != nil && desired.IsInstantiated(before.State) && desired.IsInstantiated(after.State) {
		settled, err := r.revisions.read(ctx, inst.Settled)
		if err != nil {
			return op, false, err
		}
		if from, differs, err := r.birth(ctx, inst, inst.Settled, head, settled, after); differs || err != nil {
			return from, differs, err
		}
	}
	return op, due, nil
}
