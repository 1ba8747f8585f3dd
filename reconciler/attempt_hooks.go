package reconciler

import (
	"cmp"
	"context"
	"encoding/json"
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

// hookSteps does the steps of one instance's operation that no VIM shows: it runs the hooks
// of packages, records what they say and leave, and waits for drains.
type hookSteps struct {
	id        string
	log       *slog.Logger
	oplog     *oplog.Log
	revisions revisions
	checker   *Checker
	runner    HookRunner // nil runs none
	underway  *hooks.Registry
	clocks    clocks
	outcomes  *outcomes
	vims      providedVIMs
	reveal    reveal
	seal      func(clear string) (string, error)
	timeout   time.Duration // of one hook whose VNFD says nothing
	enqueue   func(instance string)
}

// unobservable does the first steps of the plan that can't be seen at the VIM: it runs
// hooks, and waits for the drain. It returns the steps that are left. ready is false
// where something is under way; again then says when to look at the latest (0: when it
// ends).
func (h *hookSteps) unobservable(ctx context.Context, a *attempt, steps []plan.Step) (left []plan.Step, ready bool, again time.Duration, err error) {
	for len(steps) > 0 {
		name := steps[0].Object
		done := false
		switch steps[0].Action {
		case plan.Hook:
			call, err := h.call(ctx, a, name)
			if err != nil {
				return nil, false, 0, h.outcomes.giveUp(ctx, a, err)
			}
			if done = call == nil; !done {
				done, err = h.hook(ctx, a, name, call)
				if err != nil || !done {
					return nil, false, 0, err
				}
			}
		case plan.Drain:
			wait, err := h.drained(ctx, a, name)
			if err != nil || wait > 0 {
				return nil, false, wait, err
			}
		default:
			return steps, true, 0, nil
		}
		head := steps[0].Action
		a.journal, steps = a.journal.Pass(steps)
		if done && slices.Contains(a.journal.Begun, name) || head == plan.Drain || len(a.skipped) > 0 {
			if err := h.note(ctx, a); err != nil {
				return nil, false, 0, err
			}
		}
		if a.stale {
			h.enqueue(h.id) // the hook has set params of which something else is rendered
			return nil, false, 0, nil
		}
	}
	return steps, true, 0, nil
}

// skipEmptyHooks takes off the head of the plan the hooks for which there is nothing to run.
func (h *hookSteps) skipEmptyHooks(ctx context.Context, a *attempt, steps []plan.Step) ([]plan.Step, error) {
	for len(steps) > 0 && steps[0].Action == plan.Hook {
		call, err := h.call(ctx, a, steps[0].Object)
		if call != nil || err != nil {
			return steps, err
		}
		a.journal, steps = a.journal.Pass(steps)
	}
	return steps, nil
}

// note makes the journal durable when a hook or a drain has ended, or a hook was skipped.
func (h *hookSteps) note(ctx context.Context, a *attempt) error {
	op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal, op.HookProcess, op.DrainFrom = a.journal, nil, time.Time{}
		op.AddToStory(h.clocks.now(), a.skipped...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op, a.skipped = op, nil
	return nil
}

// hook starts the hook, or sees how it ended.
func (h *hookSteps) hook(ctx context.Context, a *attempt, name string, call *hooks.Call) (done bool, err error) {
	now, known := h.underway.Get(h.id, a.op.ID, name)
	switch {
	case known && !now.Done:
		if a.op.CancelMode == lcm.Forceful {
			h.underway.Drop(h.id)
		}
		if done, err := h.outcomes.cancelled(ctx, a, true); done || err != nil {
			return false, err
		}
		h.clocks.halt() // the hook has a time limit of its own
		return false, nil
	case known && now.Err == nil:
		var refused *drivers.RefusedError
		err := h.keepOutput(ctx, a, now.Output)
		switch {
		case errors.As(err, &refused):
			h.underway.Drop(h.id)
			return false, h.outcomes.broke(ctx, a, &lcm.ProblemDetails{Status: 422, Title: "Hook " + name + " failed", Detail: err.Error()})
		case err != nil:
			return false, err
		}
		h.underway.Drop(h.id)
		h.clocks.resume()
		return true, nil
	case known:
		h.underway.Drop(h.id)
		if errors.Is(now.Err, context.Canceled) {
			return false, nil // the process is stopping; the next one runs it again
		}
		if err := h.keepOutput(ctx, a, hooks.Output{HandOver: now.Output.HandOver}); err != nil {
			return false, err
		}
		return false, h.outcomes.broke(ctx, a, &lcm.ProblemDetails{Status: 422, Title: "Hook " + name + " failed", Detail: now.Err.Error()})
	}
	if done, err := h.outcomes.cancelled(ctx, a, false); done || err != nil {
		return false, err
	}
	return false, h.launch(ctx, a, name, call)
}

// keepOutput records what the hook wants to be kept, for later hooks and for git. Where
// Jibe dies before that, or before the hook is noted as done, the hook runs again.
func (h *hookSteps) keepOutput(ctx context.Context, a *attempt, out hooks.Output) error {
	found := lcm.Entries{Metadata: out.Metadata, Extensions: out.Extensions, Params: out.Params}
	if len(out.HandOver) == 0 && found.IsZero() && len(out.VIMs) == 0 {
		return nil
	}
	sealed := ""
	var err error
	if s := string(out.HandOver); s != "" && s != "null" {
		if sealed, err = h.seal(s); err != nil {
			return fmt.Errorf("encrypt the hand-over of operation %s: %w", a.op.ID, err)
		}
	}
	if found.VIMs, err = h.vims.named(out.VIMs); err != nil {
		return err
	}
	op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if len(out.HandOver) > 0 {
			op.HandOver = sealed
		}
		op.Modified = op.Modified.With(found)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record what a hook of operation %s wrote: %w", a.op.ID, err)
	}
	a.op, a.stale = op, len(out.Params) > 0
	return nil
}

// aboutToStart stands in the record for a process that isn't known yet.
const aboutToStart = "{}"

// launch starts the hook, once it is durable that the hook was begun.
func (h *hookSteps) launch(ctx context.Context, a *attempt, name string, call *hooks.Call) error {
	if a.op.HookProcess != nil {
		call.Input.Interrupted = true
		call.Orphan = &hooks.Process{}
		if err := json.Unmarshal(a.op.HookProcess, call.Orphan); err != nil {
			return fmt.Errorf("process of a hook of operation %s: %w", a.op.ID, err)
		}
		if call.Orphan.PID == 0 {
			call.Orphan = nil // it was about to be started
		}
	}
	if !slices.Contains(a.journal.Begun, name) {
		a.journal.Begun = append(slices.Clone(a.journal.Begun), name)
		if name == plan.HookName(string(a.op.Type), false, "start") {
			a.journal.Leaving = plan.Leaving(a.want.Desired, a.seen, a.journal)
		}
	}
	begins := name + ": " + call.Path + " runs"
	if call.Input.Interrupted {
		begins += " again, as it was cut short"
	}
	op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if op.HookProcess == nil {
			op.HookProcess = json.RawMessage(aboutToStart)
		}
		op.AddToStory(h.clocks.now(), begins)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	h.log.InfoContext(ctx, "hook started", "operation", op.ID, "hook", name, "program", call.Path, "interrupted", call.Input.Interrupted)
	h.clocks.halt()
	h.underway.Start(h.id, op.ID, name, func(ctx context.Context) (hooks.Output, error) {
		return h.runHook(ctx, op.ID, name, *call)
	}, func() { h.enqueue(h.id) })
	return nil
}

// runHook runs the hook to its end, which may be after the pass, and records its process
// and what it says.
func (h *hookSteps) runHook(ctx context.Context, operation, name string, call hooks.Call) (hooks.Output, error) {
	call.Started = func(at hooks.Process) error {
		_, err := h.oplog.Record(ctx, operation, func(op *lcm.Operation, _ *lcm.Instance) error {
			encoded, err := json.Marshal(at)
			op.HookProcess = encoded
			return err
		})
		return err
	}
	story := hooks.NewStory(h.clocks.now, func(lines []hooks.Line) { h.recordStory(ctx, operation, lines) })
	call.Said = func(line string) { story.Say(name + ": " + line) }
	out, err := h.runner.Run(ctx, call)
	if err == nil {
		story.Say(strings.TrimSuffix(name+" is done: "+out.Message, ": "))
	}
	story.End()
	h.log.InfoContext(ctx, "hook ended", "operation", operation, "hook", name, "message", out.Message, "error", err)
	return out, err
}

// recordStory records lines of a hook. They are in the log too, so a failure loses no more
// than a view of them.
func (h *hookSteps) recordStory(ctx context.Context, operation string, lines []hooks.Line) {
	_, err := h.oplog.Record(ctx, operation, func(op *lcm.Operation, _ *lcm.Instance) error {
		for _, line := range lines {
			op.AddToStory(line.At, line.Text)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		h.log.WarnContext(ctx, "lines of a hook were not recorded", "operation", operation, "error", err)
	}
}

// call describes the run of the hook, nil where there is nothing to run for it.
func (h *hookSteps) call(ctx context.Context, a *attempt, name string) (*hooks.Call, error) {
	if h.runner == nil || a.drv == nil {
		return nil, nil
	}
	base, _ := plan.HookUnit(name)
	if file := a.hooks.Path(base); !hooks.Coordinates(base) && base != plan.UserData && (file == "" || hooks.BuiltIn(file)) {
		return nil, nil // before packages are read in vain
	}
	facts, err := h.facts(ctx, a)
	if err != nil {
		return nil, err
	}
	script, ok := facts.Script(name)
	if !ok {
		return nil, nil
	}
	if a.skipsHooks {
		a.skipped = append(a.skipped, fmt.Sprintf("%s: %s was skipped, as %s says hooks: %s", name, script.Path, desired.InstanceFile, desired.HooksSkip))
		return nil, nil
	}
	if err := hooks.Runnable(h.revisions.packages, script.Package, script.Path, false); err != nil {
		return nil, &drivers.RefusedError{Object: name, Reason: err.Error()}
	}
	files, err := a.drv.Access()
	if err != nil {
		return nil, fmt.Errorf("access of hooks to the VIM: %w", err)
	}
	call, err := facts.Call(name, script)
	if err != nil {
		return nil, asRefused(err)
	}
	call.Files, call.Timeout = files, cmp.Or(call.Timeout, h.timeout)
	return call, nil
}

// facts are what is known of the operation as one of its hooks is about to start.
func (h *hookSteps) facts(ctx context.Context, a *attempt) (*hooks.Facts, error) {
	inst := a.want.Source.Instance
	f := &hooks.Facts{Operation: a.op, Subject: sideOf(inst, a.hooks.Package), Desired: a.want.Desired, Observed: a.seen, Journal: a.journal,
		VIM: hooks.VIM{Name: inst.VIM}, Reveal: h.reveal}
	for _, side := range []struct {
		rev desired.Revision
		to  *hooks.Side
	}{{a.op.Before, &f.Before}, {a.op.After, &f.After}} {
		inst, err := h.revisions.read(ctx, side.rev)
		if err != nil {
			return nil, err
		}
		if inst == nil || inst.Package == "" {
			continue
		}
		pkg, err := h.revisions.packageOf(ctx, inst)
		if err != nil {
			return nil, err
		}
		*side.to = sideOf(inst, pkg)
	}
	f.Names = declared(f.Before.Package, f.After.Package)
	if _, list, err := placesIn(ctx, h.revisions.repo, inst); err == nil {
		f.VIM = vimForHooks(list[0])
	}
	return f, nil
}

// takeHooks finds the package whose hooks take part in the operation, and refuses an
// operation that begins and needs hooks that may not run.
func (h *hookSteps) takeHooks(ctx context.Context, a *attempt) error {
	a.hooks = sideOf(a.want.Source.Instance, a.want.Source.Package)
	if _, never := a.drv.(nowhere); a.want.Source.Package == nil && !never {
		pkg, err := h.revisions.packageOf(ctx, a.want.Source.Instance)
		if err != nil {
			return err
		}
		a.hooks = sideOf(a.want.Source.Instance, pkg)
	}
	before, err := h.revisions.read(ctx, a.op.Before)
	if err != nil {
		return err
	}
	after, err := h.revisions.read(ctx, a.op.After)
	if err != nil {
		return err
	}
	a.skipsHooks = hooks.Skipped(before, after)
	untouched := a.op.State == lcm.Starting || a.op.Type == lcm.ModifyInfo && a.op.State == lcm.Processing && len(a.journal.Issued)+len(a.journal.Hooks) == 0
	if !untouched {
		return nil // each hook that is left is refused when its turn comes
	}
	return h.checker.permitted(ctx, h.revisions.repo.Settings, a.op.Type, a.op.Automatic, before, after)
}

// takeParams renders again with the parameters that hooks of the operation have set so far:
// these count from then on.
func (h *hookSteps) takeParams(a *attempt) error {
	if a.journal.Rollback || a.want.Source.Package == nil || len(a.op.Modified.Params) == 0 {
		return nil
	}
	inst, src := *a.want.Source.Instance, a.want.Source
	inst.Params = a.op.Modified.Patch(inst.Params)
	src.Instance = &inst
	src.Clear, src.Secrets, src.Sealed = h.reveal.params(&inst)
	var err error
	a.want, err = a.drv.Render(src)
	return err
}
