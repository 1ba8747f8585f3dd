package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// head looks up the instance's directory at the branch's head.
func (p *pass) lookAtHead(context.Context, Action) (ending, error) {
	p.s.Head, p.s.Exists = p.repo.Lookup(p.id)
	if !p.s.Exists {
		p.s.Head = desired.Revision{Instance: p.id, Dir: p.s.Record.Operated.Dir, Commit: p.repo.Head()}
		p.problems.obeyed()
	}

	return goOn, nil
}

// blocked takes down why head can't be brought about. Only what is the fault of the instance's file is such a reason,
// and any other error fails the pass. The obstacle may go without a commit, so head is checked again.
func (p *pass) blocked(ctx context.Context, err error) (ending, error) {
	if err == nil {
		return goOn, nil
	}
	p.waits.clear(p.id)
	if !p.problems.stuck(ctx, p.s.Head, err) {
		return over, err
	}
	p.s.Change.Blocked = true

	return goOn, nil
}

// begun is for a pass that has begun to bring head about, or has nothing to do for it.
func (p *pass) headInEffect() {
	p.waits.clear(p.id)
	p.problems.obeyed()
}

func (p *pass) lookAtIntents(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Change
	err := p.revisions.ofInstance(p.id, p.s.Record.Operated)
	if err == nil {
		x.Before, err = p.revisions.read(ctx, p.s.Record.Operated)
	}
	if err == nil {
		x.After, err = p.revisions.read(ctx, p.s.Head)
	}
	if w, ok := p.waits.at(p.id); ok && w.Commit != "" && w.tree == p.s.Head.Tree {
		x.SeenWaiting = w.Type
	}

	return p.blocked(ctx, err)
}

func (p *pass) lookAtFailed(ctx context.Context, _ Action) (ending, error) {
	x, failed := &p.s.Change, p.s.Operation
	var err error
	if x.FailedFrom, err = p.revisions.read(ctx, failed.Before); err == nil {
		x.FailedTo, err = p.revisions.read(ctx, failed.After)
	}

	return p.blocked(ctx, err)
}

func (p *pass) lookAtPermit(ctx context.Context, _ Action) (ending, error) {
	return p.blocked(ctx, p.intents.judge(p.s.Change.Before, p.s.Change.After))
}

func (p *pass) lookAtSeenWindow(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Change.Window, err = p.intents.window(ctx, p.s.Head, p.s.Change.SeenWaiting)

	return p.blocked(ctx, err)
}

func (p *pass) lookAtWindow(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Change.Window, err = p.intents.window(ctx, p.s.Head, p.s.Change.Next.Type)

	return p.blocked(ctx, err)
}

func (p *pass) lookAtOverride(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Change.Override, err = p.intents.overridden(ctx, p.s.Head)

	return p.blocked(ctx, err)
}

func (p *pass) lookAtFeasibility(ctx context.Context, _ Action) (ending, error) {
	return p.blocked(ctx, p.intents.feasible(ctx, p.s.Change.Before, p.s.Change.After))
}

func (p *pass) lookAtPins(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Change
	if !desired.IsInstantiated(x.After.State) {
		x.Edits = unpinned(p.s.Record, x.Before, x.After)

		return goOn, nil
	}
	var err error
	p.full, x.Edits, err = p.intents.unfilled(ctx, x.Before, x.After)

	return p.blocked(ctx, err)
}

func (p *pass) lookAtPinsAtRest(ctx context.Context, _ Action) (ending, error) {
	p.waits.clear(p.id)
	p.s.Change.After, p.full, p.s.Change.Edits = p.intents.unpinnedAtRest(ctx, p.s.Head)

	return goOn, nil
}

func (p *pass) lookAtSuccessor(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Change
	describe := p.intents.successor
	if p.s.failed() == nil {
		describe = p.intents.newest
	}
	op, due, err := describe(ctx, p.s.Record, p.s.Head, x.Before, x.After)
	x.Next, x.Due = &op, due

	return p.blocked(ctx, err)
}

// lookAtRequest has the operation be the one of the request whose commit head is. That one may have begun meanwhile.
func (p *pass) lookAtRequest(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Change
	op := *x.Next
	var err error
	if x.Requested, err = p.intents.requested(ctx, &op, p.s.Head); err != nil {
		return p.blocked(ctx, err)
	}
	x.Next = &op
	if !x.Requested {
		return goOn, nil
	}

	old, err := p.oplog.Operation(ctx, op.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return p.blocked(ctx, fmt.Errorf("operation %s of instance %s: %w", op.ID, p.id, err))
	}
	x.Begun = err == nil && !old.State.Ended()

	return goOn, nil
}

func (p *pass) reject(ctx context.Context, a Action) (ending, error) { return p.blocked(ctx, a.Err) }

// fillIn commits what the author of head left open. The commit brings the instance back here.
func (p *pass) fillIn(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Change
	edits, subject := x.Edits, "Leave the VIM of "+p.s.Head.Dir+" open, which is to be terminated"
	if p.full != nil {
		if err := p.intents.notePinned(ctx, p.s.Record, x.After, p.full); err != nil {
			return p.blocked(ctx, err)
		}
		subject = tidySubject(x.Edits[:len(x.Edits)-1], p.s.Head.Dir)
		edits = slices.Concat(p.intents.spent(ctx, p.s.Record, x.After), x.Edits)
	}
	if err := p.intents.fillIn(ctx, p.s.Head, subject, edits, x.Override); err != nil {
		return p.blocked(ctx, err)
	}
	p.headInEffect()

	return p.leaveAlone(ctx, Action{})
}

// pinAtRest pins what runs. Care of the instance doesn't depend on it.
func (p *pass) pinAtRest(ctx context.Context, _ Action) (ending, error) {
	p.intents.pinAtRest(ctx, p.s.Record, p.s.Head, p.s.Change.After, p.full, p.s.Change.Edits)
	p.again()
	p.s.Done |= DonePinAtRest

	return goOn, nil
}

func (p *pass) createRecord(ctx context.Context, _ Action) (ending, error) {
	p.s.Done |= DoneRecord

	return p.blocked(ctx, p.intents.introduce(ctx, p.s.Record, p.s.Change.After, p.s.Change.Next.VNF))
}

func (p *pass) fastForward(ctx context.Context, _ Action) (ending, error) {
	if err := p.intents.adopt(ctx, p.s.Record, p.s.Head, p.s.Exists); err != nil {
		return p.blocked(ctx, err)
	}
	p.headInEffect()
	p.again()

	return goOn, nil
}

func (p *pass) rollBack(ctx context.Context, _ Action) (ending, error) {
	failed := p.s.Operation.ID
	if _, err := p.oplog.Rollback(ctx, failed); err != nil {
		return p.blocked(ctx, fmt.Errorf("roll operation %s back: %w", failed, err))
	}
	p.headInEffect()
	p.again()

	return goOn, nil
}

// begin begins the operation that leads to head. An API request may have been first: its commit brings the instance
// back here. A commit that had its operation already, and is head again, needs none.
func (p *pass) begin(ctx context.Context, a Action) (ending, error) {
	x := &p.s.Change
	op := *x.Next
	if a.Override {
		op.AddToStory(p.s.Now, x.Override.story())
	}
	if op.RequestedBy == "" {
		op.RequestedBy = p.intents.author(ctx, p.s.Head)
	}

	born, err := p.oplog.Born(ctx, op)
	if errors.As(err, new(oplog.ErrBusy)) {
		p.headInEffect()

		return p.leaveAlone(ctx, a)
	}
	if err != nil {
		return p.blocked(ctx, fmt.Errorf("record the operation of commit %s on instance %s: %w", p.s.Head.Commit, p.id, err))
	}
	if born.State.Ended() {
		return p.fastForward(ctx, a)
	}

	log := p.intents.log
	if a.Override {
		log.WarnContext(ctx, "windows are overridden", "operation", born.ID, "by", x.Override.by, "reason", x.Override.reason)
		p.intents.audit(ctx, born, x.Override.by, x.Override.reason)
	}
	if x.Requested {
		log.WarnContext(ctx, "the record of a request was lost, its operation begins by what git says", "operation", born.ID, "revision", p.s.Head.Commit)
	}
	log.InfoContext(ctx, "operation begins", "operation", born.ID, "type", born.Type, "revision", p.s.Head.Commit)
	p.headInEffect()
	p.again()

	return goOn, nil
}

// retry carries an operation on that gave way to a commit which has gone, or can't begin any more.
func (p *pass) retry(ctx context.Context, _ Action) (ending, error) {
	op, err := p.oplog.Retry(ctx, p.s.Operation.ID)
	if err != nil {
		return over, fmt.Errorf("carry operation %s on, as the commit that it gave way to isn't operated on: %w", p.s.Operation.ID, err)
	}
	p.attempts.log.InfoContext(ctx, "an operation goes on, as the commit that it gave way to isn't operated on", "operation", op.ID)
	p.again()

	return goOn, nil
}

// forgetRecord drops the record of an instance that git no longer has.
func (p *pass) forgetRecord(ctx context.Context, _ Action) (ending, error) {
	p.waits.clear(p.id)
	if err := p.intents.forget(ctx, p.s.Record); err != nil {
		return over, err
	}
	p.again()

	return goOn, nil
}
