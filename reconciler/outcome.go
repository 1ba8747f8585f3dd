package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/plan"
)

// outcomes decides how an attempt of an operation of one instance ends, and records it: it
// is the only one that ends operations. An attempt that it doesn't end is tried again.
type outcomes struct {
	id        string
	log       *slog.Logger
	oplog     *oplog.Log
	repo      desired.Repo
	revisions revisions
	clocks    clocks
	deadlines deadlines
	drifts    *drifts
	pause     repairPause
	provided  providedVIMs
	// failureGrace is how long a refusal that may pass must stand before it is believed.
	failureGrace time.Duration
	metrics      *Metrics
	unseen       *unseenVIMs
	unlisted     *unlisted
	// look has the instance looked at again, await after a while.
	look  func(urgency)
	await func(after time.Duration)
}

// blind is for a pass that can't see the VIM. Once an operation has begun, the
// time for which its VIM is away doesn't count against it; an operation that was cancelled
// doesn't wait.
func (o *outcomes) blind(ctx context.Context, a *attempt, err error) error {
	o.unlisted.note(o.id, cmp.Or(a.op.After.Dir, a.op.Before.Dir), err, a.want.Source.Secrets, o.clocks.now())
	if errors.Is(err, drivers.ErrUnavailable) {
		kind, alone := unlistedKind(err)
		what := a.unseenVIM()
		if alone {
			what = "kind " + kind.Kind + " at VIM " + kind.VIM + ", which " + cannotBeListed
		} else {
			o.unseen.mark(a.onlyVIM, hooks.Redact(sentence(err), a.want.Source.Secrets), o.clocks.now())
		}
		a.blind = true
		if !alone || o.clocks.now().Sub(kind.Since) >= unlistedGrace {
			if err := o.tellUnseen(ctx, a, what); err != nil {
				return err
			}
		}
	}
	if !a.blind || a.op.State == lcm.Starting {
		return o.giveUp(ctx, a, err)
	}
	if done, err := o.cancelled(ctx, a, false); done || err != nil {
		return err
	}
	o.clocks.halt()
	return err
}

// cannotBeSeen ends what an operation waits for whose VIM is unreachable, cannotBeListed where that is so of one kind.
const (
	cannotBeSeen   = "can't be seen"
	cannotBeListed = "can't be listed"
)

// waitsForSight reports whether what an operation waits for is to see its VIM, or a kind there.
func waitsForSight(what string) bool {
	return strings.HasSuffix(what, cannotBeSeen) || strings.HasSuffix(what, cannotBeListed)
}

// inSight is how such a wait ends.
func inSight(what string) string {
	if strings.HasSuffix(what, cannotBeListed) {
		return "the kind can be listed again"
	}
	return "the VIM can be seen again"
}

// unseenVIM is what an operation waits for whose VIM can't be seen.
func (a *attempt) unseenVIM() string {
	if a.onlyVIM == "" {
		return "a VIM that " + cannotBeSeen
	}
	return "VIM " + a.onlyVIM + ", which " + cannotBeSeen
}

// tellUnseen tells that the operation waits for a VIM, or a kind there, that can't be seen. Why it can't isn't part of
// that, as it changes from look to look, and each change would be a write: the log and jibe doctor say it.
func (o *outcomes) tellUnseen(ctx context.Context, a *attempt, what string) error {
	if now, waits := a.op.Waiting(); waits && now.For == what {
		return nil
	}
	op, err := o.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if now, waits := op.Waiting(); waits && waitsForSight(now.For) {
			op.EndWait(o.clocks.now(), now.For, inSight(now.For))
		}
		op.AddWait(o.clocks.now(), what)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record that operation %s waits for its VIM: %w", a.op.ID, err)
	}
	a.op = op
	return nil
}

// seen notes that the operation's VIM can be seen.
func (o *outcomes) seen(ctx context.Context, a *attempt) error {
	o.unseen.seen(a.onlyVIM)
	o.unlisted.clear(o.id)
	now, waits := a.op.Waiting()
	if !waits || !waitsForSight(now.For) {
		return nil
	}
	op, err := o.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.EndWait(o.clocks.now(), now.For, inSight(now.For))
		return nil
	})
	if err != nil {
		return fmt.Errorf("record that operation %s sees its VIM again: %w", a.op.ID, err)
	}
	a.op = op
	return nil
}

// cancelled ends a cancelled operation in FAILED_TEMP: at once if FORCEFUL, else
// when nothing that was started is still under way.
func (o *outcomes) cancelled(ctx context.Context, a *attempt, waiting bool) (bool, error) {
	if a.op.CancelMode == "" || a.op.CancelMode == "GRACEFUL" && waiting && o.deadlines.timeLeft(a.op) > 0 {
		return false, nil
	}
	return true, o.broke(ctx, a, causeCancelled, &lcm.ProblemDetails{Status: 500, Title: title(a.op), Detail: "cancelled on request (" + a.op.CancelMode + ")"})
}

// giveUp sorts an error: one that can never pass ends the attempt, any other is returned, so
// that the step is tried again until the time is up.
func (o *outcomes) giveUp(ctx context.Context, a *attempt, err error) error {
	var refused *drivers.RefusedError
	var denied *grant.Denied
	var wrong *grant.WrongError
	var invalid *desired.Problem
	switch {
	case errors.Is(err, errCommitting):
		return err
	case errors.As(err, &refused) && refused.Owner != "" && o.leaving(ctx, refused.Owner):
		return o.awaitOwner(ctx, a, refused)
	case errors.As(err, &denied):
		return o.broke(ctx, a, causeGrant, &lcm.ProblemDetails{Status: denied.Status, Title: denied.Title, Detail: denied.Detail})
	case errors.As(err, &wrong):
		return o.broke(ctx, a, causeGrant, &lcm.ProblemDetails{Status: 502, Title: "Grant can't be followed", Detail: sentence(err)})
	case errors.As(err, &refused) && (refused.MayPass || refused.Owner != "" && o.left(ctx, refused.Owner)) &&
		o.deadlines.timeLeft(a.op) > 0 && o.clocks.doubts(refused.Subject()) < o.failureGrace:
		return err
	case errors.As(err, &refused), errors.As(err, &invalid):
		broke := o.broke(ctx, a, causeRefused, &lcm.ProblemDetails{Status: 422, Title: title(a.op), Detail: sentence(err)})
		if refused != nil && refused.Awaited {
			o.clocks.obstructed(a.op)
		}
		return broke
	case o.deadlines.timeLeft(a.op) <= 0:
		return o.broke(ctx, a, causeTimeout, o.deadlines.overdue(a.op, nil, err))
	}
	return err
}

// ownerPause is how often it is looked whether an instance that terminates has given up
// its objects.
const ownerPause = 250 * time.Millisecond

// awaitOwner leaves the operation until the instance that has what it needs is gone: it is
// being terminated, or will be. That time doesn't count against the operation.
func (o *outcomes) awaitOwner(ctx context.Context, a *attempt, refused *drivers.RefusedError) error {
	if done, err := o.cancelled(ctx, a, false); done || err != nil {
		return err
	}
	what := "the termination of VNF instance " + refused.Owner + ", which still has " + refused.Object
	if now, waits := a.op.Waiting(); !waits || now.For != what {
		if _, err := o.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			op.AddWait(o.clocks.now(), what)
			return nil
		}); err != nil {
			return fmt.Errorf("record what operation %s waits for: %w", a.op.ID, err)
		}
	}
	o.clocks.halt()
	o.await(ownerPause)
	return nil
}

// leaving says whether an instance is on its way out: it is being terminated, or git says
// that it shall be.
func (o *outcomes) leaving(ctx context.Context, instance string) bool {
	record, err := o.oplog.Instance(ctx, instance)
	if err != nil {
		return false
	}
	if record.Open != "" {
		if op, err := o.oplog.Operation(ctx, record.Open); err == nil && op.Type == lcm.Terminate {
			return true
		}
	}
	ran, err := o.revisions.read(ctx, record.Operated)
	if err != nil || !desired.MayHaveObjects(ran) {
		return false
	}
	head, exists := o.repo.Lookup(instance)
	if !exists {
		return true
	}
	shall, err := o.revisions.read(ctx, head)
	return err == nil && !desired.MayHaveObjects(shall)
}

// left says whether an instance has ended, so that it may have given up between the VIM's refusal
// and this look what the VIM said was its own.
func (o *outcomes) left(ctx context.Context, instance string) bool {
	record, err := o.oplog.Instance(ctx, instance)
	if err != nil || record.Open != "" {
		return false
	}
	ran, err := o.revisions.read(ctx, record.Operated)
	return err == nil && !desired.MayHaveObjects(ran)
}

// sentence is an error in one line: several that came together stand side by side.
func sentence(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// broke ends the attempt: in ROLLED_BACK while nothing was touched, else in
// FAILED_TEMP. why is what the metrics count.
func (o *outcomes) broke(ctx context.Context, a *attempt, why cause, problem *lcm.ProblemDetails) error {
	o.clocks.ended()
	problem.Detail = hooks.Redact(problem.Detail, a.want.Source.Secrets) // a VIM likes to quote what it refuses
	event := lcm.Broke
	if a.op.State == lcm.Starting {
		event = lcm.Refused
	}
	op, err := o.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if err := op.Advance(event, o.clocks.now(), problem); err != nil {
			return err
		}
		op.Journal = a.journal
		op.Contended, op.GaveWay = a.contended, a.gaveWay
		op.Unseen = op.State == lcm.RolledBack && why == causeTimeout && (a.blind || o.unseen.why(a.onlyVIM, o.clocks.now()) != "")
		op.HookProcess, op.HookMember, op.DrainFrom = nil, "", time.Time{}
		if a.drv != nil {
			a.tell(op)
			inst.Units, inst.Resources = op.UnitsAfter, op.ResourcesAfter
		}
		return nil
	})
	if err == nil {
		o.metrics.failed(op.Type, why)
	}
	return o.ended(ctx, op, err)
}

// unproven ends the attempt of an operation whose record was changed in the store: what its hooks had handed over, and
// what was granted to it, isn't known any more.
func (o *outcomes) unproven(ctx context.Context, op *lcm.Operation) error {
	o.log.ErrorContext(ctx, "the record of an operation isn't proven to be Jibe's own", "operation", op.ID)

	return o.broke(ctx, &attempt{op: op, journal: op.Journal}, causeConflict, &lcm.ProblemDetails{Status: 409, Title: title(op),
		Detail: "the record of this operation was changed in the store by another program than this version of Jibe: what its hooks had handed over and what was granted is not used. Roll it back, or fail it, and ask for the change again"})
}

// unmerged ends an operation of which nothing was done, as what it proposes isn't to be. Another one may be under way.
func (o *outcomes) unmerged(ctx context.Context, op *lcm.Operation, why cause, problem *lcm.ProblemDetails) error {
	op, err := o.oplog.Record(ctx, op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if op.State.Ended() {
			return nil // it was cancelled meanwhile
		}
		return op.Advance(lcm.Refused, o.clocks.now(), problem)
	})
	if err == nil {
		o.metrics.failed(op.Type, why)
	}
	return o.ended(ctx, op, err)
}

func (o *outcomes) converged(ctx context.Context, a *attempt) error {
	if a.contended && len(a.op.Journal.Issued) > 0 {
		return o.broke(ctx, a, causeConflict, o.undone(a)) // whether it stands this time shows after a pause
	}
	withdrawn, err := o.provided.withdrawn(a.op)
	if err != nil {
		return err
	}
	// Before the end: who is notified of it may at once ask for a VNF there.
	vims := withdrawn
	if a.op.State != lcm.RollingBack {
		vims = a.op.Modified.With(withdrawn)
	}
	if err := o.provided.publish(ctx, a.op, vims.VIMs); errors.Is(err, errCommitting) {
		return err
	} else if err != nil {
		if done, err := o.cancelled(ctx, a, false); done || err != nil {
			return err
		}
		return o.giveUp(ctx, a, err)
	}
	o.clocks.ended()
	op, err := o.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, inst *lcm.Instance) error {
		if op.State == lcm.Starting { // its record was rebuilt, and the VIM shows what is wanted
			if err := op.Advance(lcm.Granted, o.clocks.now(), nil); err != nil {
				return err
			}
		}
		if err := op.Advance(lcm.Converged, o.clocks.now(), nil); err != nil {
			return err
		}
		op.Journal = a.journal
		a.tell(op)
		inst.Units, inst.Resources = op.UnitsAfter, op.ResourcesAfter
		op.Modified = op.Modified.With(withdrawn)
		return nil
	})
	return o.ended(ctx, op, err)
}

// ended logs what became of the operation, and has the instance looked at again:
// git may have moved on meanwhile, or a commit may be outstanding.
func (o *outcomes) ended(ctx context.Context, op *lcm.Operation, err error) error {
	if err != nil {
		return fmt.Errorf("record the end of an operation of instance %s: %w", o.id, err)
	}
	level, detail := slog.LevelInfo, ""
	if op.Error != nil {
		level, detail = slog.LevelWarn, op.Error.Detail
	}
	o.log.Log(ctx, level, "operation changed state", "operation", op.ID, "type", op.Type, "state", op.State, "error", detail)
	// What has just been done need not be looked at before what is still to do.
	if head, exists := o.repo.Lookup(o.id); exists && head.Tree == op.After.Tree && op.State == lcm.Completed && !op.Modified.OfInstance() {
		o.look(repairing)
	} else {
		o.look(wanted)
	}
	return nil
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

// undone is why an operation rests although it has done its work: somebody undoes its
// change again and again.
func (o *outcomes) undone(a *attempt) *lcm.ProblemDetails {
	story := o.drifts.story(o.id)
	if story == "" {
		story = strings.Join(describe(a.last), ", ")
	}
	if story == "" {
		story = strings.Join(a.op.Repairs, ", ") // it stands now, and rests to see whether it does so for a whole pause
	}
	return &lcm.ProblemDetails{Status: 409, Title: title(a.op), Detail: fmt.Sprintf(
		"what is put right is changed again each time: %s. It will be put right again after a pause (now %s), and the longer it goes on the more seldom. "+
			"Stop whoever changes it, or leave the field out of the package so that it is theirs, or set drift: report", story, o.pause.of(a.op))}
}
