package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lookAtRecord reads the instance's record. The views of what waits follow it.
func (p *pass) lookAtRecord(ctx context.Context, _ Action) (ending, error) {
	inst, err := p.oplog.Instance(ctx, p.id)
	if err != nil {
		return over, fmt.Errorf("record of instance %s: %w", p.id, err)
	}
	p.s.Record = inst

	if inst.Open == "" && inst.Operated.Tree == "" {
		p.repair.inUse.clear(p.id)
	}
	if inst.Open == "" {
		p.attempts.needs.awaited.done(p.id)
	}
	if inst.Proposed == "" {
		p.proposals.waiting.done(p.id)
	}

	return goOn, nil
}

// lookAtProposal sees what became of what is proposed.
func (p *pass) lookAtProposal(ctx context.Context, _ Action) (ending, error) {
	inst, merged, again, err := p.proposals.look(ctx, p.s.Record)
	if err != nil {
		return over, err
	}
	p.s.Record, p.s.Proposal = inst, ProposalFacts{Merged: merged, Again: again}
	if inst.Proposed == "" {
		p.proposals.waiting.done(p.id)

		return goOn, nil
	}
	if op, err := p.oplog.Operation(ctx, inst.Proposed); err == nil {
		now, _ := op.Waiting()
		p.s.Proposal.For = now.For
	}

	return goOn, nil
}

func (p *pass) lookAtOperation(ctx context.Context, _ Action) (ending, error) {
	var err error
	if p.s.Operation, err = p.oplog.Operation(ctx, p.s.Record.Open); err != nil {
		return over, fmt.Errorf("operation %s: %w", p.s.Record.Open, err)
	}

	return goOn, nil
}

func (p *pass) lookAtBehind(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Behind, err = p.behind(ctx, p.s.Record, p.s.Operation)

	return goOn, err
}

// lookAtProof asks git for the revisions that the record of the operation names.
func (p *pass) lookAtProof(ctx context.Context, _ Action) (ending, error) {
	p.s.Foreign = p.revisions.ofOperation(ctx, p.id, p.s.Operation)

	return goOn, nil
}

// endForeign ends an operation whose record names what git doesn't prove: nothing of it may run.
func (p *pass) endForeign(ctx context.Context, _ Action) (ending, error) {
	op := p.s.Operation

	return over, p.outcomes.giveUp(ctx, &attempt{op: op, journal: op.Journal}, p.s.Foreign)
}

// resolveRequest finds out what became of a request whose member is gone.
func (p *pass) resolveRequest(ctx context.Context, _ Action) (ending, error) {
	resolved, err := p.requests.resolve(ctx, p.s.Record.Prepared)
	if err != nil {
		p.retryWithin = func() time.Duration { return preparedPause }

		return over, err
	}
	if !resolved {
		p.s.RequestWaits = true

		return goOn, nil
	}
	p.again()
	p.s.Done |= DoneRequest

	return goOn, nil
}

func (p *pass) leaveToRequest(context.Context, Action) (ending, error) {
	p.requests.later(p.id)

	return over, nil
}

// commitOutcome commits what an operation has ended with.
func (p *pass) commitOutcome(ctx context.Context, _ Action) (ending, error) {
	err := p.outstanding.commit(ctx, p.s.Record)
	if errors.Is(err, errCommitting) {
		return over, err
	}
	if err != nil {
		p.problems.outstanding(p.s.Record, err)

		return over, err
	}
	p.problems.obeyed()
	p.again()

	return goOn, nil
}

func (p *pass) closePullRequests(ctx context.Context, _ Action) (ending, error) {
	p.s.Done |= DoneWithdraw

	return goOn, p.proposals.tidy(ctx, p.s.Record)
}

// endSideRepair ends the repair of what stood while an operation waited.
func (p *pass) endSideRepair(ctx context.Context, _ Action) (ending, error) {
	if err := p.oplog.EndCare(ctx, p.id); err != nil {
		return over, fmt.Errorf("end the repair of instance %s: %w", p.id, err)
	}
	p.again()

	return goOn, nil
}
