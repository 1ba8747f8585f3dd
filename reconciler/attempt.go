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
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// staleBatches bounds the batches of one pass; a plan that still has something
// to do then is looked at again after a pause, as the cache may be behind.
const (
	staleBatches = 16
	stalePause   = 200 * time.Millisecond
)

// attempt is the state of an operation while a pass works on it.
type attempt struct {
	op *lcm.Operation
	// hooks has the package whose hooks take part, also where nothing shall run any more and
	// want has none. skipsHooks says that they are skipped, and skipped holds the lines that
	// the operation's story still lacks about that.
	hooks      hooks.Side
	skipsHooks bool
	skipped    []string
	drv        drivers.Driver
	want       drivers.Rendering
	seen       plan.Observed
	// journal runs ahead of the record by what needs no record of its own.
	journal plan.Journal
	// last is the batch that was started last.
	last []plan.Step
	// stale says that want was made of other params than those that count by now.
	stale bool
	// contended says that somebody undoes what is done.
	contended bool
	// gaveWay says that the attempt ends for a newer commit.
	gaveWay bool
	// drain is how long connections get after traffic was switched, or before a
	// graceful termination.
	drain time.Duration
	// vim is the name of the instance's main VIM, and onlyVIM that of a file under vims/ where the instance
	// runs nowhere else.
	vim, onlyVIM string
	// blind says that its VIM couldn't be seen.
	blind bool
	// gone are the names of VIMs that it does without, as they are gone for good.
	gone []string
}

// tell records what runs, as it was seen last.
func (a *attempt) tell(op *lcm.Operation) {
	op.UnitsAfter, op.ResourcesAfter = live(a.seen), inUse(a.seen)
	op.VIM = a.vim
}

// attempts does for the open operation of one instance what [Next] asks for: it observes, plans, records and
// hands steps to the driver. How an attempt ends is for outcomes to record.
type attempts struct {
	id  string
	log *slog.Logger
	// needs finds which other instances the operation has to wait for.
	needs     *needsGate
	tenure    tenure
	oplog     *oplog.Log
	repo      desired.Repo
	resolver  resolver
	identity  vimIdentity
	admission admission
	grants    *grantSteps
	hooks     *hookSteps
	clocks    clocks
	deadlines deadlines
	outcomes  *outcomes
	unobeyed  *unobeyed
	inUse     *vimsInUse
	intents   *intentReader
	metrics   *Metrics
	phases    *phases
	traces    *traces
	// failureGrace is how long a failure must stand before it is believed.
	failureGrace time.Duration
}

// anywayWithoutGone has a termination go on that couldn't confirm its VIMs, where it can without those that are gone.
func (x *attempts) anywayWithoutGone(ctx context.Context, a *attempt, record *lcm.Instance, why error) (err error) {
	if err := x.withoutGone(ctx, a, record, why); err != nil {
		return err
	}
	if a.drv, err = x.resolver.vims.driver(ctx, a.want.Source.Instance, a.gone...); err != nil {
		return err
	}

	return x.sameVIMs(ctx, a, record)
}

// withoutGone has a termination go on without those VIMs that can't be reached and are gone for good: nothing runs there that
// could be ended. What runs at its other VIMs is. why is the error for which they weren't asked, which is returned where
// that doesn't hold.
func (x *attempts) withoutGone(ctx context.Context, a *attempt, record *lcm.Instance, why error) error {
	if !errors.Is(why, drivers.ErrUnavailable) || drivers.Answered(why) || a.op.Type != lcm.Terminate || a.op.State == lcm.RollingBack || a.want.Source.Instance == nil {
		return why
	}
	gone, err := x.identity.gone(ctx, record, a.want.Source.Instance)
	if err != nil {
		return err
	}
	if len(gone) == 0 {
		return why
	}

	a.gone = gone
	what := "VIM " + strings.Join(gone, ", ") + " was forgotten as gone for good, and doesn't answer: nothing of the VNF is ended there"
	if slices.ContainsFunc(a.op.Story, func(l lcm.StoryLine) bool { return l.Text == what }) {
		return nil
	}
	op, err := x.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.AddToStory(x.clocks.now(), what)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record that operation %s does without its VIM: %w", a.op.ID, err)
	}
	a.op = op
	return nil
}

// sameVIMs makes sure that the VIMs are those at which the instance was instantiated.
func (x *attempts) sameVIMs(ctx context.Context, a *attempt, record *lcm.Instance) error {
	ctx, cancel := x.deadlines.bound(ctx, a.op)
	defer cancel()
	return x.identity.confirm(ctx, record, a.want.Source.Instance, a.gone...)
}

// observe looks at the VIM.
func (x *attempts) observe(ctx context.Context, a *attempt) (err error) {
	ctx, cancel := x.deadlines.bound(ctx, a.op)
	defer cancel()
	a.seen, err = a.drv.Observe(ctx, a.want)
	return err
}

// begin finds what the operation should bring about and who can do it.
func (x *attempts) begin(ctx context.Context, op *lcm.Operation, record *lcm.Instance) (*attempt, error) {
	target, other := op.After, op.Before
	if op.State == lcm.RollingBack {
		target, other = other, target
	}
	a := &attempt{op: op, journal: op.Journal, contended: op.Contended}
	a.journal.Known = op.UnitsBefore
	a.journal.Operation = string(op.Type)
	a.journal.Rollback = op.State == lcm.RollingBack
	if op.Type == lcm.ModifyInfo || op.State != lcm.Starting {
		a.journal.Granted = true
	}
	if err := x.resolver.ofInstance(x.id, op.Before, op.After, op.Beside); err != nil {
		return nil, err
	}
	if err := x.admission.brings(ctx, op); err != nil {
		return nil, err
	}
	var err error
	if a.want, a.drv, err = x.resolver.resolve(ctx, target, other); err != nil {
		// The credentials of a VIM that is gone may be gone as well.
		if err := x.withoutGone(ctx, a, record, err); err != nil {
			return nil, err
		}
		op = a.op
		if a.want, a.drv, err = x.resolver.resolve(ctx, target, other, a.gone...); err != nil {
			return nil, err
		}
	}
	if op.Type == lcm.ModifyInfo && a.want.Source.Package == nil {
		a.drv = nowhere{} // it moves nothing of what an earlier operation left
	}
	x.inUse.note(x.repo, a.want.Source.Instance)
	settings, err := x.repo.Settings()
	if err != nil {
		return nil, err
	}
	if at, err := settings.MainPlace(a.want.Source.Instance); err == nil { // it was found a moment ago
		a.vim, a.onlyVIM = at.Name, onlyVIM(at, a.want.Source.Instance)
	}
	if err := x.inBounds(ctx, a, settings); err != nil {
		return nil, err
	}
	if op.State == lcm.Processing && len(op.Journal.Issued) == 0 {
		// An attempt that is made again meets the rules of now. What an operation has begun under
		// others goes on.
		if err := x.admission.confine(ctx, a); err != nil {
			return nil, err
		}
	}
	if err := x.hooks.takeHooks(ctx, a); err != nil {
		return nil, err
	}
	if err := x.hooks.takeParams(a); err != nil {
		return nil, err
	}
	after, err := x.resolver.read(ctx, op.After)
	if err != nil {
		return nil, err
	}
	asked := undertaking{operation: op.Type, rollback: a.journal.Rollback, params: op.Params, after: after}
	if a.drain, err = asked.assemble(&a.want, x.repo.Settings); err != nil {
		return nil, err
	}
	a.want.Coordinated = a.hooks.Coordinated(op.Type)
	return a, nil
}

// grant records that the operation may do the steps, and returns those that are left.
func (x *attempts) grant(ctx context.Context, a *attempt, steps []plan.Step) ([]plan.Step, error) {
	if err := x.admission.admit(ctx, a, steps); err != nil {
		return nil, err
	}
	planned := len(steps)
	a.journal, steps = a.journal.Pass(steps)
	steps, err := x.hooks.skipEmptyHooks(ctx, a, steps)
	if err != nil {
		return nil, err
	}
	var begun []string // one write says that it may, and what it begins with
	if batch := plan.Next(steps); len(batch) > 0 && batch[0].Action != plan.Hook {
		var fresh bool
		if a.journal, fresh = a.journal.Issue(batch); fresh {
			begun = describe(batch)
		}
	}
	op, err := x.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if len(op.Journal.Targets) == 0 {
			op.UnitsBefore, op.ResourcesBefore = live(a.seen), inUse(a.seen)
		}
		a.tell(op)
		if err := op.Advance(lcm.Granted, x.clocks.now(), nil); err != nil {
			return err
		}
		op.AddToStory(x.clocks.now(), append(slices.Clone(a.skipped), begun...)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	x.metrics.planned(op.Type, planned)
	x.metrics.did(nil, plan.Step{Action: plan.Grant})
	a.skipped = nil
	known := a.journal.Known
	a.op, a.journal = op, op.Journal
	a.journal.Known = known
	return steps, nil
}

// issue records that the batch is about to be started, so that a failure seen
// afterwards is known to be this attempt's.
//
// fresh is false where all of it was started in this attempt before.
func (x *attempts) issue(ctx context.Context, a *attempt, batch []plan.Step) (fresh bool, err error) {
	noted, fresh := a.journal.Issue(batch)
	if !fresh && len(a.journal.Hooks) == len(a.op.Journal.Hooks) {
		return false, nil
	}
	a.journal = noted
	op, err := x.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if fresh {
			op.AddToStory(x.clocks.now(), describe(batch)...)
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("record the steps of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	return fresh, nil
}

// done records what of the batch was done and can't be seen at the VIM. It is done once more
// where that can't be recorded.
func (x *attempts) done(ctx context.Context, a *attempt, batch []plan.Step) error {
	noted, more := a.journal.Done(batch)
	if !more {
		return nil
	}
	op, err := x.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = noted
		return nil
	})
	if err != nil {
		return fmt.Errorf("record what operation %s posted: %w", a.op.ID, err)
	}
	a.op, a.journal = op, noted
	return nil
}

func describe(steps []plan.Step) []string {
	ds := make([]string, 0, len(steps))
	for _, s := range steps {
		ds = append(ds, s.String())
	}
	return ds
}

// explained is overdue with what the VIM noted last of the object that was waited
// for.
func (x *attempts) explained(ctx context.Context, a *attempt, batch []plan.Step) *lcm.ProblemDetails {
	problem := x.deadlines.overdue(a.op, batch, nil)
	if len(batch) > 0 {
		if said := a.drv.Explain(ctx, a.want, batch[0].Object); said != "" {
			problem.Detail += "; its last event was: " + said
		}
	}
	return problem
}
