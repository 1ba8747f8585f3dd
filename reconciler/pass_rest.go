package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/window"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// lookAtRest begins the look at an instance on which nothing is in progress. The views follow what became of head.
func (p *pass) lookAtRest(_ context.Context, a Action) (ending, error) {
	switch a.Head {
	case HeadInSync:
		p.waits.clear(p.id)
	case HeadInEffect:
		p.headInEffect()
	case HeadWaits:
		p.problems.obeyed() // there is nothing to repair in it
	}
	waiting, _ := p.waits.at(p.id)
	p.s.Change.WaitUntil = waiting.Until
	if a.Head == HeadWaits || a.Head == HeadBlocked {
		p.retryWithin = func() time.Duration { return desired.Waits{Wait: p.s.Change.wait()}.Again(p.clocks.now(), headAgain) }
	}

	failed := p.s.failed()
	if failed != nil && !failed.Automatic {
		p.drifts.clear(p.id)
		p.repair.unlisted.clear(p.id) // it says itself why it failed
		if !a.Head.heldBack() {
			p.problems.obeyed()
		}

		return goOn, nil
	}

	p.s.Rest = RestFacts{Record: p.s.Record, Failed: failed, HeldBack: a.Head.heldBack()}

	return goOn, nil
}

// wait is when what waits on the instance may begin.
func (x *ChangeFacts) wait() window.Wait { return window.Wait{Until: x.WaitUntil} }

// lookAtStanding reads the intent that is compared with what runs.
func (p *pass) lookAtStanding(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Rest
	if x.At = p.s.Head; x.HeldBack {
		x.At = x.Record.Operated
	}
	var err error
	if x.Stands, err = p.revisions.read(ctx, x.At); err != nil {
		p.unwatched()
	}

	return goOn, err
}

// lookAtSight looks at what runs.
func (p *pass) lookAtSight(ctx context.Context, _ Action) (ending, error) {
	x, r := &p.s.Rest, p.repair
	l, pause, err := r.observe(ctx, x.Record)
	if err != nil {
		return over, err
	}
	if pause > 0 {
		x.Unseen, x.Pause = true, pause

		return goOn, nil
	}
	if !x.HeldBack {
		p.problems.obeyed()
	}
	if err := r.judge(l, x.At); err != nil {
		return over, err
	}

	p.sight = l
	x.Due = drifting(l.want.Desired, l.seen)
	x.Unconfirmed = len(x.Due) > 0 || (len(x.Record.VIMs) == 0 || len(x.Record.GoneVIMs) > 0 || r.identity.former.has(p.id)) && l.want.Source.Instance != nil
	x.Examined = len(x.Due) > 0 && p.drifts.known(p.id, signature(l.seen, x.Due), r.clocks.now())
	if x.Failed != nil {
		x.Resting, x.Pausing = r.clocks.rests(x.Failed), r.pause.of(x.Failed)
		x.Lacks = lacks(l.seen, x.Due)
	}

	return goOn, nil
}

// lookAtIdentity makes sure that the VIMs are those at which the instance was instantiated.
func (p *pass) lookAtIdentity(ctx context.Context, _ Action) (ending, error) {
	err := p.repair.identity.confirm(ctx, p.s.Rest.Record, p.sight.want.Source.Instance)
	if err == nil {
		return goOn, nil
	}
	p.problems.stuck(ctx, p.s.Rest.At, err)
	p.s.Rest.Unseen, p.s.Rest.Pause = true, p.repair.lookLater()

	return goOn, p.repair.quietly(ctx, err)
}

func (p *pass) lookAtExamination(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Rest.Due, err = p.repair.examine(ctx, p.sight, p.s.Rest.Due, p.s.Rest.At)

	return goOn, err
}

// lookAtFreed asks whether the VIM would take again what it refused.
func (p *pass) lookAtFreed(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Rest
	state := DriftFailing
	if x.Failed.Contended {
		state = DriftContended
	}
	p.drifts.state(p.id, state, x.Failed.ID, x.nextTry())
	x.Freed, x.Ask = p.repair.freed(ctx, x.Failed, p.sight, x.Due)

	return goOn, nil
}

func (p *pass) lookAtLastRepair(ctx context.Context, _ Action) (ending, error) {
	var err error
	p.s.Rest.Refused, err = p.repair.refusedLately(ctx, p.s.Rest.Record)

	return goOn, err
}

// lookAtHooks asks whether the hooks may run that the repair needs. The package's author has ruled out a repair without
// them, and an operation would only be refused, again and again.
func (p *pass) lookAtHooks(ctx context.Context, _ Action) (ending, error) {
	in := p.sight.want.Source.Instance
	err := p.repair.mayRun(ctx, lcm.Heal, true, in, in)
	if refused, ok := errors.AsType[*drivers.RefusedError](err); ok {
		p.s.Rest.Hooks = refused.Reason

		return goOn, nil
	}

	return goOn, err
}

// lookAtRepairWindow asks whether a repair may begin now. A file that can't be read binds no repair: none does that
// doesn't name HEAL.
func (p *pass) lookAtRepairWindow(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Rest
	if meets, why, err := p.repair.gate.ask(ctx, p.id, x.Record.Operated.Dir, lcm.Heal); err == nil && why != "" {
		x.Window, x.Again = WindowFacts{Type: lcm.Heal, Why: why, Until: meets.Until}, meets.Again(p.s.Now, awayAgain)
	}

	return goOn, nil
}

// unwatched is for an instance of which nothing can be compared with what runs.
func (p *pass) unwatched() {
	p.drifts.clear(p.id)
	p.repair.outside.clear(p.id)
	p.repair.unlisted.clear(p.id)
}

func (p *pass) leaveAlone(context.Context, Action) (ending, error) {
	p.unwatched()

	return over, nil
}

// showDrift shows what differs, and what is done about it.
func (p *pass) showDrift(_ context.Context, a Action) (ending, error) {
	x := &p.s.Rest
	p.s.Done |= DoneShow
	if len(x.Due) == 0 {
		p.drifts.clear(p.id)
	}
	if p.sight.want.Source.Package == nil && len(x.Due) > 0 && a.State == DriftHeld && !x.HeldBack { // else head's own problem stands
		p.problems.remains(x.At, p.sight.want.Source.Instance, objects(x.Due))
	}
	if x.Failed != nil {
		p.drifts.since(p.id, x.Failed.Started)
	}
	if a.State != DriftRepairing {
		p.drifts.state(p.id, a.State, "", time.Time{})
	}

	return goOn, nil
}

// refuseRepair shows why no repair begins.
func (p *pass) refuseRepair(ctx context.Context, a Action) (ending, error) {
	news := p.drifts.refused(p.id, a.Why)
	if news && p.s.Rest.Hooks != "" {
		p.repair.log.WarnContext(ctx, "drift is not put right", "error", a.Why)
	} else if news {
		p.repair.log.InfoContext(ctx, "drift waits for its window", "why", a.Why)
	}

	return over, nil
}

// beginRepair begins the operation that repairs the drift. An API request may have been first: its operation repairs as
// well.
func (p *pass) beginRepair(ctx context.Context, _ Action) (ending, error) {
	x := &p.s.Rest
	born, err := p.repair.begin(ctx, x.Record, x.Waiting, p.sight, x.Due)
	if errors.As(err, new(oplog.ErrBusy)) {
		return over, nil
	}
	if err != nil {
		return over, fmt.Errorf("begin the repair of instance %s: %w", p.id, err)
	}
	p.drifts.state(p.id, DriftRepairing, born.ID, time.Time{})
	p.again()

	return goOn, nil
}

// retryRepair has a repair that failed tried again, unless another decision was made meanwhile.
func (p *pass) retryRepair(ctx context.Context, _ Action) (ending, error) {
	op, err := p.oplog.Retry(ctx, p.s.Rest.Failed.ID)
	if errors.As(err, new(oplog.ErrBusy)) || errors.Is(err, lcm.ErrState) {
		return over, nil
	}
	if err != nil {
		return over, fmt.Errorf("try the repair of instance %s again: %w", p.id, err)
	}
	p.drifts.state(p.id, DriftRepairing, op.ID, time.Time{})
	p.again()

	return goOn, nil
}
