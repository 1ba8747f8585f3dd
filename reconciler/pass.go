package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// pass is one look at one instance, from reading git to handing steps to the
// driver. It asks its parts in order; each part says by its fields what it may touch.
// Whatever interrupts a pass, the next one begins from facts.
type pass struct {
	id    string
	oplog *oplog.Log
	repo  desired.Repo

	intents     *intentReader
	outstanding outstanding
	problems    headProblems
	repair      *driftRepair
	attempts    *attempts
	outcomes    *outcomes
	clocks      clocks
	revisions   revisions
	drifts      *drifts
	requests    requests
	waits       *waits
	proposals   *proposalGate
}

// newPass puts together what looks at the instance, which is owned for the tenure.
func (r *Reconciler) newPass(id string, t tenure) *pass {
	log := r.Log.With("instance", id)
	writes := committer{id, t, r.commits}
	p := &pass{
		id:          id,
		oplog:       r.Oplog,
		repo:        r.Repo,
		revisions:   r.revisions,
		drifts:      r.drifts,
		requests:    r.requests,
		waits:       r.waits,
		outstanding: outstanding{id, log, r.Oplog, r.Repo, writes},
		problems:    headProblems{id, r.Repo, r.unobeyed, r.Now},
		clocks:      clocks{r.memory, id, r.Now},
	}
	p.intents = &intentReader{
		id: id, log: log, oplog: r.Oplog, repo: r.Repo, revisions: r.revisions, checker: r.checker, problems: p.problems, judge: r.judge,
		pins: &r.pins, commits: writes, now: r.Now, running: r.View().running, enqueue: r.Moved,
		gate: r.gate(), waits: r.waits, audit: r.Overridden,
	}
	left := deadlines{starting: max(r.StartTimeout, r.grantWait()), attempt: r.Timeout, byType: r.Timeouts, clocks: p.clocks}
	seals := r.Seals.complete()
	vims := providedVIMs{id, log, r.Repo, seals.VIM, writes}
	p.outcomes = &outcomes{
		id: id, log: log, oplog: r.Oplog, repo: r.Repo, revisions: r.revisions, clocks: p.clocks, deadlines: left, drifts: r.drifts,
		pause: repairPause(r.RepairPause), provided: vims, failureGrace: r.FailureGrace, metrics: r.Metrics, unseen: r.unseen, unlisted: r.unlisted,
		look: func(u urgency) { r.line.add(id, u) }, await: func(after time.Duration) { r.line.addAfter(id, atWork, after) },
	}
	identity := vimIdentity{id, r.Oplog, r.vims, r.formerVIMs}
	hooked := &hookSteps{
		id: id, log: log, oplog: r.Oplog, revisions: r.revisions, checker: r.checker, runner: r.Hooks, underway: r.underway,
		clocks: p.clocks, outcomes: p.outcomes, metrics: r.Metrics, phases: r.phases, traces: r.traces, vims: vims, reveal: r.Reveal, seals: seals, judge: r.judge, timeout: r.HookTimeout, enqueue: r.Enqueue,
		peers: r.Peers, baseURL: r.BaseURL, tenure: t, member: r.Member,
	}
	p.proposals = &proposalGate{
		id: id, log: log, oplog: r.Oplog, repo: r.Repo, revisions: r.revisions, forge: r.Proposals, commits: writes, clocks: p.clocks, outcomes: p.outcomes,
		intents: p.intents, gate: r.gate(), waiting: r.proposed, phases: r.phases, enqueue: r.Enqueue, merged: r.ProposalMerged,
	}
	p.attempts = &attempts{
		proposals: p.proposals,
		needs: &needsGate{id, log, r.needing(), r.awaited, p.clocks, r.phases, p.outcomes, p.intents, func(ctx context.Context, waiting *lcm.Operation) (time.Duration, error) {
			return p.repair.beside(ctx, waiting)
		}},
		id: id, log: log, tenure: t, oplog: r.Oplog, repo: r.Repo, resolver: r.resolver, identity: identity,
		admission: admission{resolver: r.resolver, checker: r.checker, permit: r.judge, unused: r.stillUnused},
		grants: &grantSteps{
			id: id, log: log, oplog: r.Oplog, repo: r.Repo, revisions: r.revisions, nfvo: r.NFVO, calls: r.asking, commits: writes, clocks: p.clocks, deadlines: left,
			outcomes: p.outcomes, metrics: r.Metrics, traces: r.traces, seals: seals, base: r.BaseURL, enqueue: r.Enqueue,
		},
		hooks: hooked, clocks: p.clocks, deadlines: left, outcomes: p.outcomes, metrics: r.Metrics, phases: r.phases, traces: r.traces, unobeyed: r.unobeyed, intents: p.intents, inUse: r.inUse, failureGrace: r.FailureGrace,
	}
	mayRun := func(ctx context.Context, t lcm.Type, automatic bool, before, after *desired.Instance) error {
		return r.checker.permitted(ctx, r.Repo.Settings, t, automatic, before, after)
	}
	p.repair = &driftRepair{
		id: id, log: log, oplog: r.Oplog, repo: r.Repo, packages: r.Packages, resolver: r.resolver, identity: identity, problems: p.problems,
		drifts: r.drifts, away: r.away, unseen: r.unseen, clocks: p.clocks, pause: repairPause(r.RepairPause), metrics: r.Metrics,
		checker: r.checker, outside: r.outside, unlisted: r.unlisted, inUse: r.inUse, gate: r.gate(), mayRun: mayRun, operate: p.attempts.operate,
	}
	return p
}

// headAgain is after how long a head that isn't obeyed is checked again.
const headAgain = 15 * time.Second

// run makes the pass and returns after how long to look again (0: when something moves). With
// an error, that is what is left until a deadline: the pass is tried again before it.
func (p *pass) run(ctx context.Context) (time.Duration, error) {
	again, sooner, err := p.parts(ctx)
	if err == nil && sooner > 0 && (again == 0 || again > sooner) {
		again = sooner
	}
	return again, err
}

// parts asks the parts in their order. sooner is when what is proposed wants to be looked at again at the latest.
func (p *pass) parts(ctx context.Context) (again, sooner time.Duration, err error) {
	inst, err := p.oplog.Instance(ctx, p.id)
	if err != nil {
		return 0, 0, fmt.Errorf("record of instance %s: %w", p.id, err)
	}
	if inst.Open == "" && inst.Operated.Tree == "" {
		p.repair.inUse.clear(p.id)
	}
	if inst.Prepared != "" {
		if resolved, err := p.requests.resolve(ctx, inst.Prepared); err != nil {
			return preparedPause, 0, err
		} else if !resolved {
			p.requests.later(p.id)
			return 0, sooner, nil
		}
		if inst, err = p.oplog.Instance(ctx, p.id); err != nil {
			return 0, 0, err
		}
	}
	if inst.OutstandingCommit != "" {
		if err := p.outstanding.commit(ctx, inst); errors.Is(err, errCommitting) {
			return 0, 0, err
		} else if err != nil {
			p.problems.outstanding(inst, err)
			return 0, 0, err
		}
		p.problems.obeyed()
		if inst, err = p.oplog.Instance(ctx, p.id); err != nil {
			return 0, 0, err
		}
	}
	if err := p.proposals.tidy(ctx, inst); err != nil {
		return 0, 0, err
	}
	merged := false // and not begun
	if inst.Proposed == "" {
		p.proposals.waiting.done(p.id)
	} else if inst, merged, sooner, err = p.proposals.look(ctx, inst); err != nil {
		return 0, 0, err
	}
	var op *lcm.Operation
	if inst.Open == "" {
		p.attempts.needs.awaited.done(p.id)
	} else {
		if op, err = p.oplog.Operation(ctx, inst.Open); err != nil {
			return 0, 0, fmt.Errorf("operation %s: %w", inst.Open, err)
		}
	}
	if inst.Care != "" && (op == nil || !waitsForInstances(op)) {
		if err := p.oplog.EndCare(ctx, p.id); err != nil {
			return 0, 0, fmt.Errorf("end the repair of instance %s: %w", p.id, err)
		}
		if inst, err = p.oplog.Instance(ctx, p.id); err != nil {
			return 0, 0, err
		}
	}
	if behind, err := p.behind(ctx, inst, op); err != nil {
		return 0, 0, err
	} else if behind {
		return behindPause, 0, nil
	}
	if op == nil || op.State == lcm.FailedTemp {
		heldBack := merged
		if !merged {
			if op, heldBack, err = p.intents.next(ctx, inst, op); err != nil {
				return 0, 0, err
			}
		}
		if op != nil && op.State == lcm.FailedTemp && op.GaveWay {
			// The commit that it gave way to has gone, or may not begin any more.
			if op, err = p.oplog.Retry(ctx, op.ID); err != nil {
				return 0, 0, fmt.Errorf("carry operation %s on, as the commit that it gave way to isn't operated on: %w", inst.Open, err)
			}
			p.attempts.log.InfoContext(ctx, "an operation goes on, as the commit that it gave way to isn't operated on", "operation", op.ID)
		}
		if op == nil || op.State == lcm.FailedTemp {
			again, err = p.repair.look(ctx, op, heldBack)
			if soon := p.waits.again(p.id, p.intents.now()); heldBack && !merged && (again == 0 || again > soon) {
				again = soon
			}
			return again, sooner, err
		}
	}
	if !op.Automatic && !waitsForInstances(op) {
		p.drifts.clear(p.id)
	}
	if p.suspended(ctx) {
		return 0, sooner, nil // its end is a commit, which brings the instance back here
	}
	p.waits.clear(p.id) // what is left to begin when it has ended may be of another type
	again, err = p.attempts.operate(ctx, op)
	if err != nil {
		again = p.attempts.deadlines.timeLeft(op)
	}
	return again, sooner, err
}

// suspended says whether a person has stopped everything for the instance. The
// clock of the operation under way stands still meanwhile.
func (p *pass) suspended(ctx context.Context) bool {
	head, exists := p.repo.Lookup(p.id)
	if !exists {
		return false
	}
	now, err := p.revisions.read(ctx, head)
	if err != nil || !now.Suspend {
		return false // what can't be read is not obeyed; the operation has a tree of its own
	}
	p.clocks.halt()
	return true
}
