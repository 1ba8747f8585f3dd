package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// lookAtSuspension asks whether head stops everything for the instance. What is left to begin when the operation has
// ended may be of another type, so that nothing is seen to wait for a window meanwhile.
func (p *pass) lookAtSuspension(ctx context.Context, _ Action) (ending, error) {
	op := p.s.Operation
	if !op.Automatic && !waitsForInstances(op) {
		p.drifts.clear(p.id)
	}
	if !op.Automatic && !op.Proposed() && !awaitsOthers(op) {
		p.attempts.needs.awaited.done(p.id)
	}
	p.s.Attempt.Operation = op
	if p.s.Suspended = p.suspended(ctx); p.s.Suspended {
		return goOn, nil
	}

	p.waits.clear(p.id)
	p.retryWithin = func() time.Duration { return p.attempts.deadlines.timeLeft(op) }

	return goOn, nil
}

// suspended reports whether head stops everything for the instance.
func (p *pass) suspended(ctx context.Context) bool {
	head, exists := p.repo.Lookup(p.id)
	if !exists {
		return false
	}
	now, err := p.revisions.read(ctx, head)

	return err == nil && now.Suspend // what can't be read isn't in effect; the operation has a tree of its own
}

// halt stops the clock of the operation in progress.
func (p *pass) halt(context.Context, Action) (ending, error) {
	p.clocks.halt()

	return over, nil
}

// lookAtProposed asks whether an operation that is only proposed may be looked at up to its grant.
func (p *pass) lookAtProposed(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Attempt
	var err error
	x.Pending, x.Again, err = p.proposals.begin(ctx, p.s.Operation)

	return goOn, err
}

func (p *pass) lookAtNeeds(ctx context.Context, _ Action) (ending, error) {
	g := p.attempts.needs
	what, err := g.ask(ctx, p.s.Operation)
	if err == nil && what == "" {
		g.awaited.done(p.id)
	}
	p.s.Attempt.Awaits = what

	return goOn, err
}

// lookAtOvertaking asks whether head takes the operation's place.
func (p *pass) lookAtOvertaking(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Attempt
	var err error
	x.Newer, x.Overtaken, err = p.intents.overtakes(ctx, x.Operation)

	return goOn, err
}

// lookAtCare finds what stands while the open operation waits, which is repaired meanwhile.
func (p *pass) lookAtCare(ctx context.Context, _ Action) (ending, error) {
	x, op := &p.s.Attempt, p.s.Operation
	p.attempts.needs.awaited.tell(op, x.Awaits)
	p.attempts.phases.enter(op, phaseNeeds)

	inst, err := p.oplog.Instance(ctx, p.id)
	if err != nil {
		return over, fmt.Errorf("record of instance %s: %w", p.id, err)
	}
	if inst.Open != op.ID {
		return goOn, nil // it was cancelled meanwhile
	}
	before, err := p.revisions.read(ctx, op.Before)
	if err != nil || before == nil || !desired.IsInstantiated(before.State) {
		return goOn, err // nothing runs yet
	}

	stands := *inst
	stands.Operated, stands.Open = op.Before, inst.Care
	p.s.Rest = RestFacts{Record: &stands, HeldBack: true, Waiting: op.ID}
	if inst.Care == "" {
		x.Care = true

		return goOn, nil
	}
	repair, err := p.oplog.Operation(ctx, inst.Care)
	if err != nil {
		return over, fmt.Errorf("operation %s: %w", inst.Care, err)
	}
	if repair.State == lcm.FailedTemp {
		x.Care, p.s.Rest.Failed = true, repair
	} else {
		x.Caring, x.Operation = true, repair
	}

	return goOn, nil
}

// tellWait records what the operation waits for. One that was cancelled meanwhile is looked at again.
func (p *pass) tellWait(ctx context.Context, a Action) (ending, error) {
	g, was := p.attempts.needs, p.s.Operation
	op, err := g.tell(ctx, was, func(op *lcm.Operation) { op.AddWait(g.clocks.now(), a.For) })
	if err != nil {
		return over, err
	}
	if op.State != was.State {
		return ending{true, neededAgain}, nil
	}
	g.log.InfoContext(ctx, "operation waits", "operation", op.ID, "type", op.Type, "for", a.For)
	p.s.Operation, p.s.Attempt.Operation, p.s.Attempt.Told = op, op, true

	return goOn, nil
}

// freeOperation lets an operation go on that has waited, with all its time.
func (p *pass) freeOperation(ctx context.Context, _ Action) (ending, error) {
	g, op := p.attempts.needs, p.s.Operation
	if err := g.endCare(ctx); err != nil {
		return over, err
	}
	g.clocks.halt()
	g.clocks.resume()
	g.log.InfoContext(ctx, "operation waits no more", "operation", op.ID, "type", op.Type)
	if _, err := g.tell(ctx, op, func(op *lcm.Operation) { op.AddToStory(g.clocks.now(), "nothing to wait for is left") }); err != nil {
		return over, err
	}
	p.again()
	p.s.Done |= DoneFree

	return goOn, nil
}

// at returns the context of the operation's present state, by which spans find their place.
func (p *pass) at(ctx context.Context) context.Context {
	return p.attempts.traces.at(ctx, p.s.Attempt.Operation)
}

// blind is for a look that failed: it ends the pass, and maybe the attempt.
func (p *pass) blind(ctx context.Context, a *attempt, err error) (ending, error) {
	return over, p.outcomes.blind(ctx, a, err)
}

// giveUp is for a step that failed, as blind is.
func (p *pass) giveUp(ctx context.Context, err error) (ending, error) {
	return over, p.outcomes.giveUp(ctx, p.attempt, err)
}

// attempted has the situation tell of the attempt what its record says by now.
func (p *pass) attempted() {
	p.s.Attempt.Operation, p.s.Attempt.Contended = p.attempt.op, p.attempt.contended
	if p.s.Operation != nil && p.s.Operation.ID == p.attempt.op.ID {
		p.s.Operation = p.attempt.op
	}
}

// lookAtTarget finds what the operation should bring about and who can do it, and makes sure that these are the VIMs at
// which the instance was instantiated.
func (p *pass) lookAtTarget(ctx context.Context, _ Action) (ending, error) {
	x, op := p.attempts, p.s.Attempt.Operation
	ctx = p.at(ctx)
	proposing := x.resolver.proposing(op)
	x.resolver.revisions, x.admission.resolver.revisions, x.hooks.revisions, x.grants.revisions = proposing, proposing, proposing, proposing
	a, err := x.begin(ctx, op, p.s.Record)
	if err != nil {
		return p.blind(ctx, &attempt{op: op, journal: op.Journal}, err)
	}
	if err := x.sameVIMs(ctx, a, p.s.Record); err != nil {
		if err := x.anywayWithoutGone(ctx, a, p.s.Record, err); err != nil {
			return p.blind(ctx, a, err)
		}
	}
	p.attempt = a
	p.attempted()

	return goOn, nil
}

// lookAtPlan observes the VIM, and computes what is left to do.
func (p *pass) lookAtPlan(ctx context.Context, _ Action) (ending, error) {
	x, a := p.attempts, p.attempt
	ctx = p.at(ctx)
	looking, seeing := x.traces.Start(ctx, "observe", trace.Internal)
	err := x.observe(looking, a)
	seeing.Stop(err != nil)
	if err == nil {
		err = x.sameVIMs(ctx, a, p.s.Record) // once more: what was seen may be of another cluster at the same address
	}
	if err != nil {
		return p.blind(ctx, a, err)
	}
	if err := x.outcomes.seen(ctx, a); err != nil {
		return over, err
	}

	_, planning := x.traces.Start(ctx, "plan", trace.Internal)
	x.clocks.resume()
	if a.op.Automatic {
		// A repair isn't the heal that a spent tombstone once asked for: it must not
		// run again the Job that this took down.
		a.want.Condemned = a.seen.Unspent(a.want.Condemned)
	}
	if a.op.State == lcm.Starting {
		a.journal = a.journal.Aim(a.want.Desired, a.seen)
	}
	p.s.Attempt.Steps = plan.Compute(a.want.Desired, a.seen, a.journal)
	planning.Stop(false)
	p.spans = [2]*trace.Active{seeing, planning}

	p.s.Attempt.Limit, p.s.Attempt.Left, p.s.Attempt.Grace = x.deadlines.timeout(a.op), x.deadlines.timeLeft(a.op), x.failureGrace
	p.attempted()

	return goOn, nil
}

// keepSpans has the look and the plan traced, as something comes of them.
func (p *pass) keepSpans() {
	for _, span := range p.spans {
		span.Keep()
	}
}

// obtainGrant obtains the grant, and records it with what the operation begins with.
func (p *pass) obtainGrant(ctx context.Context, _ Action) (ending, error) {
	x, a, steps := p.attempts, p.attempt, p.s.Attempt.Steps
	ctx = p.at(ctx)
	x.phases.enter(a.op, phaseGrant)
	p.keepSpans()
	admit := func() error { return x.admission.admit(ctx, a, steps) }
	ready, again, err := x.grants.obtain(ctx, a, admit)
	p.attempted()
	if err != nil {
		return p.giveUp(ctx, err)
	}
	if !ready {
		return ending{true, again}, nil
	}

	if a.op.Proposed() {
		if err := admit(); err != nil {
			return p.giveUp(ctx, err)
		}
		p.s.Attempt.Steps = nil // it waits for its pull request before any other

		return goOn, nil
	}
	if steps, err = x.grant(ctx, a, steps); err != nil {
		return p.giveUp(ctx, err)
	}
	p.s.Attempt.Steps, p.s.Attempt.Left = steps, x.deadlines.timeLeft(a.op)
	p.attempted()

	return goOn, nil
}

func (p *pass) park(ctx context.Context, _ Action) (ending, error) {
	return over, p.proposals.park(ctx, p.attempt)
}

// doUnseen does the first steps of the plan that no VIM shows.
func (p *pass) doUnseen(ctx context.Context, _ Action) (ending, error) {
	steps, ready, again, err := p.attempts.hooks.unobservable(p.at(ctx), p.attempt, p.s.Attempt.Steps)
	p.attempted()
	if err != nil || !ready {
		return ending{true, again}, err
	}
	p.s.Attempt.Steps, p.s.Attempt.Left = steps, p.attempts.deadlines.timeLeft(p.attempt.op)

	return goOn, nil
}

// lookAtAdmission asks whether a modification may begin, which asks for no grant.
func (p *pass) lookAtAdmission(ctx context.Context, _ Action) (ending, error) {
	ctx = p.at(ctx)
	if err := p.attempts.admission.admit(ctx, p.attempt, p.s.Attempt.Steps); err != nil {
		return p.giveUp(ctx, err)
	}

	return goOn, nil
}

// lookAtMoved asks whether git has something new that may begin.
func (p *pass) lookAtMoved(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Attempt.MovedOn, err = p.attempts.movedOn(ctx)

	return goOn, err
}

// lookAtFailure asks how long the failure stands that is waited for.
func (p *pass) lookAtFailure(_ context.Context, _ Action) (ending, error) {
	p.attempts.phases.enter(p.attempt.op, phaseWait)
	p.s.Attempt.Stood = p.clocks.stands(failureOf(plan.Next(p.s.Attempt.Steps)))

	return goOn, nil
}

// issue records that the batch is started, and says how often it was started before.
func (p *pass) issue(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Attempt
	batch := plan.Next(x.Steps)
	p.attempts.phases.enter(p.attempt.op, phaseOf(batch))
	fresh, err := p.attempts.issue(p.at(ctx), p.attempt, batch)
	if err != nil {
		return over, err
	}
	p.attempt.last = batch
	x.Issued = true
	x.Times, x.Quiet = p.clocks.pace(fresh)
	p.attempted()

	return goOn, nil
}

// start hands the batch to the driver.
func (p *pass) start(ctx context.Context, _ Action) (ending, error) {
	x, a, batch := p.attempts, p.attempt, plan.Next(p.s.Attempt.Steps)
	if err := x.tenure.held(); err != nil {
		return over, err
	}
	ctx = p.at(ctx)
	x.log.InfoContext(ctx, "steps started", "operation", a.op.ID, "revision", a.op.After.Commit, "steps", describe(batch))
	p.keepSpans()

	began := time.Now()
	doing, done := x.traces.Start(ctx, "do", trace.Internal)
	err := a.drv.Do(doing, a.want, batch...)
	done.End(err != nil)
	x.traces.steps(batch, done, began, err != nil)
	x.metrics.did(err, batch...)
	x.clocks.begun(err == nil)
	if err != nil {
		return p.giveUp(ctx, err)
	}
	if err := x.done(ctx, a, batch); err != nil {
		return over, err
	}

	p.s.Attempt.Batches++
	p.s.Attempt.Issued = false
	p.s.Seen = p.s.Seen.Without(PartPlan, PartAdmission, PartMoved, PartOvertaking, PartFailure)
	p.attempted()

	return goOn, nil
}

// end ends the attempt.
func (p *pass) end(ctx context.Context, a Action) (ending, error) {
	if p.s.Attempt.Awaits != "" && p.attempt == nil {
		p.attempts.needs.awaited.done(p.id)
	}
	if p.s.Attempt.Overtaken && p.attempt == nil && waitsForInstances(p.s.Operation) {
		if err := p.attempts.needs.endCare(ctx); err != nil {
			return over, err
		}
	}

	at := p.attempt
	if at == nil {
		at = &attempt{op: p.s.Operation, journal: p.s.Operation.Journal}
	}
	at.gaveWay = a.GaveWay

	return over, p.outcomes.broke(p.at(ctx), at, a.Cause, a.Problem)
}

// endOverdue ends the attempt with what the VIM noted last of the object that was waited for.
func (p *pass) endOverdue(ctx context.Context, _ Action) (ending, error) {
	x, a := p.attempts, p.attempt
	ctx = p.at(ctx)
	x.phases.enter(a.op, phaseWait)

	return over, x.outcomes.broke(ctx, a, causeTimeout, x.explained(ctx, a, plan.Next(p.s.Attempt.Steps)))
}

// endUndone ends a repair of what is undone each time.
func (p *pass) endUndone(ctx context.Context, _ Action) (ending, error) {
	p.attempt.contended = true

	return over, p.outcomes.broke(p.at(ctx), p.attempt, causeConflict, p.outcomes.undone(p.attempt))
}

func (p *pass) endUnproven(ctx context.Context, _ Action) (ending, error) {
	return over, p.outcomes.unproven(ctx, p.s.Attempt.Operation)
}

// complete ends the operation, as what is wanted is there.
func (p *pass) complete(ctx context.Context, _ Action) (ending, error) {
	p.keepSpans()

	return over, p.outcomes.converged(p.at(ctx), p.attempt)
}
