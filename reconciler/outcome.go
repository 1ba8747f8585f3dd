package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// wait decides how long to wait for the batch, or that it is in vain.
func (p *pass) wait(ctx context.Context, a *attempt, batch []plan.Step) (time.Duration, error) {
	left := p.timeLeft(a.op)
	if left <= 0 {
		return 0, p.broke(ctx, a, p.explained(ctx, a, batch))
	}
	if a.op.Automatic && p.movedOn(ctx) {
		return 0, p.broke(ctx, a, &lcm.Problem{Status: 409, Title: title(a.op), Detail: "gives way to a newer commit while it waits: " + batch[0].String()})
	}
	i := slices.IndexFunc(batch, func(s plan.Step) bool { return s.Failure != "" })
	if i < 0 {
		p.stands("")
		return left, nil
	}
	reason := batch[i].Object + ": " + batch[i].Failure
	if stood := p.stands(reason); stood < p.FailureGrace {
		return min(left, p.FailureGrace-stood), nil
	}
	return 0, p.broke(ctx, a, &lcm.Problem{Status: 500, Title: title(a.op), Detail: reason})
}

// movedOn says whether git has something that no operation was made of yet.
func (p *pass) movedOn(ctx context.Context) bool {
	inst, err := p.Log.Instance(ctx, p.id)
	head, exists := p.Repo.Lookup(p.id)
	return err == nil && !p.problems.at(head) && (!exists || head.Tree != inst.Operated.Tree)
}

func (p *pass) timeLeft(op *lcm.Operation) time.Duration {
	from := op.AttemptStarted
	if from.IsZero() {
		from = op.Started
	}
	for _, later := range []time.Time{p.started, p.clock()} {
		if from.Before(later) {
			from = later
		}
	}
	return from.Add(p.timeout(op)).Sub(p.Now())
}

func (p *pass) timeout(op *lcm.Operation) time.Duration {
	if op.State == lcm.Starting {
		return p.StartTimeout
	}
	if t, ok := p.Timeouts[op.Type]; ok {
		return t
	}
	return p.Timeout
}

// overdue says what was left, or what stood in the way, when the time was up.
func (p *pass) overdue(op *lcm.Operation, batch []plan.Step, trouble error) *lcm.Problem {
	detail := fmt.Sprintf("not done within %s", p.timeout(op))
	if len(batch) > 0 {
		detail += "; what is left is: " + batch[0].String()
		if n := len(batch) - 1; n > 0 {
			detail += fmt.Sprintf(" (and %d more)", n)
		}
	}
	if trouble != nil {
		detail += "; the last error was: " + sentence(trouble)
	}
	return &lcm.Problem{Status: 500, Title: title(op), Detail: detail}
}

// explained is overdue with what the VIM noted last of the object that was waited
// for.
func (p *pass) explained(ctx context.Context, a *attempt, batch []plan.Step) *lcm.Problem {
	problem := p.overdue(a.op, batch, nil)
	if len(batch) > 0 {
		if said := a.drv.Explain(ctx, a.want, batch[0].Object); said != "" {
			problem.Detail += "; its last event was: " + said
		}
	}
	return problem
}

// blind is for a pass that can't see the VIM. Once an operation has begun, the
// time for which its VIM is away doesn't count against it; what was asked to be
// cancelled isn't waited for.
func (p *pass) blind(ctx context.Context, a *attempt, err error) error {
	if !errors.Is(err, drivers.ErrUnavailable) || a.op.State == lcm.Starting {
		return p.giveUp(ctx, a, err)
	}
	if done, err := p.cancelled(ctx, a, false); done || err != nil {
		return err
	}
	p.halt()
	return err
}

// cancelled ends a cancelled operation in FAILED_TEMP: at once if FORCEFUL, else
// when nothing that was started is still under way.
func (p *pass) cancelled(ctx context.Context, a *attempt, waiting bool) (bool, error) {
	if a.op.CancelMode == "" || a.op.CancelMode == "GRACEFUL" && waiting && p.timeLeft(a.op) > 0 {
		return false, nil
	}
	return true, p.broke(ctx, a, &lcm.Problem{Status: 500, Title: title(a.op), Detail: "cancelled on request (" + a.op.CancelMode + ")"})
}

// giveUp sorts an error: what can never succeed ends the attempt, anything else
// is returned to be tried again until the time is up.
func (p *pass) giveUp(ctx context.Context, a *attempt, err error) error {
	var refused *drivers.RefusedError
	var denied *DeniedError
	var invalid *desired.Problem
	switch {
	case errors.As(err, &refused) && refused.Owner != "" && p.leaving(ctx, refused.Owner):
		return p.await(ctx, a, refused)
	case errors.As(err, &denied):
		return p.broke(ctx, a, &lcm.Problem{Status: 403, Title: "Grant refused", Detail: denied.Reason})
	case errors.As(err, &refused) && refused.MayPass && p.timeLeft(a.op) > 0 && p.doubts(refused.Subject()) < p.FailureGrace:
		return err
	case errors.As(err, &refused), errors.As(err, &invalid):
		broke := p.broke(ctx, a, &lcm.Problem{Status: 422, Title: title(a.op), Detail: sentence(err)})
		if refused != nil && refused.Awaited {
			p.obstructed(a.op)
		}
		return broke
	case p.timeLeft(a.op) <= 0:
		return p.broke(ctx, a, p.overdue(a.op, nil, err))
	}
	return err
}

// ownerPause is how often it is looked whether an instance that terminates has given up
// its objects.
const ownerPause = 250 * time.Millisecond

// await leaves the operation until the instance that has what it needs is gone: it is
// being terminated, or will be. That time doesn't count against the operation.
func (p *pass) await(ctx context.Context, a *attempt, refused *drivers.RefusedError) error {
	if done, err := p.cancelled(ctx, a, false); done || err != nil {
		return err
	}
	told := "wait for the termination of VNF instance " + refused.Owner + ", which still has " + refused.Object
	if n := len(a.op.Story); n == 0 || a.op.Story[n-1].Text != told {
		if _, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			op.Tell(p.Now(), told)
			return nil
		}); err != nil {
			return fmt.Errorf("record what operation %s waits for: %w", a.op.ID, err)
		}
	}
	p.halt()
	p.queue.AddAfter(p.id, ownerPause)
	return nil
}

// leaving says whether an instance is on its way out: it is being terminated, or git says
// that it shall be.
func (p *pass) leaving(ctx context.Context, instance string) bool {
	record, err := p.Log.Instance(ctx, instance)
	if err != nil {
		return false
	}
	if record.Open != "" {
		if op, err := p.Log.Operation(ctx, record.Open); err == nil && op.Type == lcm.Terminate {
			return true
		}
	}
	ran, err := p.read(ctx, record.Operated)
	if err != nil || ran == nil || ran.State != desired.Instantiated {
		return false
	}
	head, exists := p.Repo.Lookup(instance)
	if !exists {
		return true
	}
	shall, err := p.read(ctx, head)
	return err == nil && shall.State != desired.Instantiated
}

// sentence is an error in one line: several that came together stand side by side.
func sentence(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// broke ends the attempt: in ROLLED_BACK while nothing was touched, else in
// FAILED_TEMP.
func (p *pass) broke(ctx context.Context, a *attempt, problem *lcm.Problem) error {
	p.memory.ended(p.id)
	problem.Detail = hooks.Redact(problem.Detail, a.want.Source.Secrets) // a VIM likes to quote what it refuses
	event := lcm.Broke
	if a.op.State == lcm.Starting {
		event = lcm.Refused
	}
	op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if err := op.Advance(event, p.Now(), problem); err != nil {
			return err
		}
		op.Journal = a.journal
		op.Fight = a.fight
		op.HookProcess, op.DrainFrom = nil, time.Time{}
		if a.drv != nil {
			op.UnitsAfter, op.ResourcesAfter = live(a.seen), inUse(a.seen)
			inst.Units, inst.Resources = op.UnitsAfter, op.ResourcesAfter
		}
		return nil
	})
	return p.ended(ctx, op, err)
}

func (p *pass) converged(ctx context.Context, a *attempt) error {
	if a.fight && len(a.op.Journal.Issued) > 0 {
		return p.broke(ctx, a, p.fought(a)) // whether it stands this time shows after a pause
	}
	withdrawn, err := p.withdrawn(a.op)
	if err != nil {
		return err
	}
	// Before the end: who is told of it may at once ask for a VNF there.
	vims := withdrawn
	if a.op.State != lcm.RollingBack {
		vims = a.op.Modified.With(withdrawn)
	}
	if err := p.publish(ctx, a.op, vims.VIMs); err != nil {
		if done, err := p.cancelled(ctx, a, false); done || err != nil {
			return err
		}
		return p.giveUp(ctx, a, err)
	}
	p.memory.ended(p.id)
	op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if err := op.Advance(lcm.Converged, p.Now(), nil); err != nil {
			return err
		}
		op.Journal = a.journal
		op.UnitsAfter, op.ResourcesAfter = live(a.seen), inUse(a.seen)
		inst.Units, inst.Resources = op.UnitsAfter, op.ResourcesAfter
		op.Modified = op.Modified.With(withdrawn)
		return nil
	})
	return p.ended(ctx, op, err)
}

// ended tells people what became of the operation, and looks again: git may
// have moved on meanwhile, or be owed a commit.
func (p *pass) ended(ctx context.Context, op *lcm.Operation, err error) error {
	if err != nil {
		return fmt.Errorf("record the end of an operation of instance %s: %w", p.id, err)
	}
	level, detail := slog.LevelInfo, ""
	if op.Error != nil {
		level, detail = slog.LevelWarn, op.Error.Detail
	}
	p.log.Log(ctx, level, "operation changed state", "operation", op.ID, "type", op.Type, "state", op.State, "error", detail)
	if op.State.Ended() && op.After.Commit != "" {
		p.Repo.Note(op.After.Commit, noteLine(op))
	}
	p.Enqueue(p.id)
	return nil
}

func noteLine(op *lcm.Operation) string {
	line := fmt.Sprintf("%s %s %s %s %s", op.StateEntered.UTC().Format(time.RFC3339), op.Instance, op.Type, op.State, op.ID)
	if op.Error != nil {
		line += ": " + op.Error.Detail
	}
	return line
}

func title(op *lcm.Operation) string { return string(op.Type) + " failed" }

func live(o plan.Observed) []plan.Unit {
	return slices.DeleteFunc(slices.Clone(o.Units), func(u plan.Unit) bool { return u.Deleting })
}

// inUse are the resources that live units use, or all of them share.
func inUse(o plan.Observed) []plan.Resource {
	leaving := make(map[string]bool)
	for _, u := range o.Units {
		leaving[u.Key] = u.Deleting
	}
	return slices.DeleteFunc(slices.Clone(o.Resources), func(r plan.Resource) bool { return leaving[r.Unit] })
}
