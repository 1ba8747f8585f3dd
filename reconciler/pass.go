package reconciler

import (
	"cmp"
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// pass is one look at one instance, from reading git to handing steps to the driver. It decides nothing: it asks [Next],
// carries out the action, and asks again. What it asks about and what it does is for its members, whose fields are all
// that each may touch. Whatever interrupts a pass, the next one begins from facts.
type pass struct {
	id    string
	oplog *oplog.Log
	repo  desired.Repo
	// s is what is known by now.
	s Situation
	// full is the intent of head with all filled in, and seen and attempt are what drivers need of what was looked at.
	full    *desired.Instance
	sight   sight
	attempt *attempt
	spans   [2]*trace.Active
	// retryWithin is the time until a deadline, within which a pass that fails is made again; nil is none.
	retryWithin func() time.Duration
	// reasons shows what the instance waits for.
	reasons *reasons

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
		reasons:     r.reasons,
		outstanding: outstanding{id, log, r.Oplog, r.Repo, r.revisions, writes},
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
		needs: &needsGate{id, log, r.needing(), r.awaited, p.clocks},
		id:    id, log: log, tenure: t, oplog: r.Oplog, repo: r.Repo, resolver: r.resolver, identity: identity,
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
		checker: r.checker, outside: r.outside, unlisted: r.unlisted, inUse: r.inUse, gate: r.gate(), mayRun: mayRun,
	}
	p.s.Forge = r.Proposals != nil

	return p
}

// headAgain is after how long a head that isn't obeyed is checked again.
const headAgain = 15 * time.Second

// mostRounds bounds the actions of one pass. None comes near it: it is for a decision that an action doesn't change.
const mostRounds = 512

// run makes the pass and returns after how long to look again (0: when something moves). With
// an error, that is what is left until a deadline: the pass is tried again before it.
func (p *pass) run(ctx context.Context) (time.Duration, error) {
	for range mostRounds {
		p.s.Now = p.clocks.now()
		a := Next(p.s)

		end, err := p.carryOut(ctx, a)
		if err != nil {
			p.problems.unproven(ctx, err)
		}
		if err != nil && p.retryWithin != nil {
			return p.retryWithin(), err
		}
		if err != nil {
			return 0, err
		}
		if end.ended || a.Do.ends() {
			p.reasons.note(p.id, reasonOf(a, p.s), p.s.Now)
			return within(cmp.Or(end.again, a.Wait), p.s.lookAgain()), nil
		}
	}

	return stalePause, nil
}

// ending is how an action leaves a pass: it may end it, and say when to look again.
type ending struct {
	ended bool
	again time.Duration
}

// goOn is of an action that leaves the pass to ask again, and over one that ends it.
var (
	goOn = ending{}
	over = ending{ended: true}
)

// carryOut does one action.
func (p *pass) carryOut(ctx context.Context, a Action) (ending, error) {
	if a.Do != Look {
		return doing[a.Do](p, ctx, a)
	}

	p.s.Seen = p.s.Seen.With(a.Part)

	return looking[a.Part](p, ctx, a)
}

// again has everything read again: an action has changed the facts. What is for once in a pass isn't forgotten, and
// proposals move by what others do alone.
func (p *pass) again() {
	next := Situation{Forge: p.s.Forge, Proposal: p.s.Proposal, Done: p.s.Done &^ DoneShow}
	if p.s.Seen.Has(PartProposal) {
		next.Seen = next.Seen.With(PartProposal)
	}
	p.s, p.full, p.sight, p.attempt, p.retryWithin = next, nil, sight{}, nil, nil
}

// carry is an action, or a look, as a pass does it.
type carry func(p *pass, ctx context.Context, a Action) (ending, error)

// looking reads the parts, and doing carries out the verbs.
var (
	looking = [partCount]carry{
		PartRecord:       (*pass).lookAtRecord,
		PartProposal:     (*pass).lookAtProposal,
		PartOperation:    (*pass).lookAtOperation,
		PartBehind:       (*pass).lookAtBehind,
		PartProof:        (*pass).lookAtProof,
		PartSuspension:   (*pass).lookAtSuspension,
		PartHead:         (*pass).lookAtHead,
		PartPinsAtRest:   (*pass).lookAtPinsAtRest,
		PartIntents:      (*pass).lookAtIntents,
		PartFailed:       (*pass).lookAtFailed,
		PartPermit:       (*pass).lookAtPermit,
		PartSeenWindow:   (*pass).lookAtSeenWindow,
		PartOverride:     (*pass).lookAtOverride,
		PartFeasible:     (*pass).lookAtFeasibility,
		PartPins:         (*pass).lookAtPins,
		PartSuccessor:    (*pass).lookAtSuccessor,
		PartRequest:      (*pass).lookAtRequest,
		PartWindow:       (*pass).lookAtWindow,
		PartRest:         (*pass).lookAtRest,
		PartStanding:     (*pass).lookAtStanding,
		PartSight:        (*pass).lookAtSight,
		PartIdentity:     (*pass).lookAtIdentity,
		PartExamination:  (*pass).lookAtExamination,
		PartFreed:        (*pass).lookAtFreed,
		PartLastRepair:   (*pass).lookAtLastRepair,
		PartHooks:        (*pass).lookAtHooks,
		PartRepairWindow: (*pass).lookAtRepairWindow,
		PartProposed:     (*pass).lookAtProposed,
		PartNeeds:        (*pass).lookAtNeeds,
		PartOvertaking:   (*pass).lookAtOvertaking,
		PartCare:         (*pass).lookAtCare,
		PartTarget:       (*pass).lookAtTarget,
		PartPlan:         (*pass).lookAtPlan,
		PartAdmission:    (*pass).lookAtAdmission,
		PartMoved:        (*pass).lookAtMoved,
		PartFailure:      (*pass).lookAtFailure,
	}
	doing = [verbCount]carry{
		Rest:              (*pass).rest,
		ResolveRequest:    (*pass).resolveRequest,
		LeaveToRequest:    (*pass).leaveToRequest,
		CommitOutcome:     (*pass).commitOutcome,
		ClosePullRequests: (*pass).closePullRequests,
		EndSideRepair:     (*pass).endSideRepair,
		ForgetRecord:      (*pass).forgetRecord,
		Reject:            (*pass).reject,
		FillIn:            (*pass).fillIn,
		PinAtRest:         (*pass).pinAtRest,
		CreateRecord:      (*pass).createRecord,
		FastForward:       (*pass).fastForward,
		RollBack:          (*pass).rollBack,
		Begin:             (*pass).begin,
		Retry:             (*pass).retry,
		LeaveAlone:        (*pass).leaveAlone,
		ShowDrift:         (*pass).showDrift,
		RefuseRepair:      (*pass).refuseRepair,
		BeginRepair:       (*pass).beginRepair,
		RetryRepair:       (*pass).retryRepair,
		Halt:              (*pass).halt,
		TellWait:          (*pass).tellWait,
		FreeOperation:     (*pass).freeOperation,
		ObtainGrant:       (*pass).obtainGrant,
		Park:              (*pass).park,
		DoUnseen:          (*pass).doUnseen,
		Issue:             (*pass).issue,
		Start:             (*pass).start,
		End:               (*pass).end,
		EndOverdue:        (*pass).endOverdue,
		EndUndone:         (*pass).endUndone,
		EndUnproven:       (*pass).endUnproven,
		EndForeign:        (*pass).endForeign,
		Complete:          (*pass).complete,
	}
)

func (p *pass) rest(context.Context, Action) (ending, error) { return over, nil }
