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
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
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
	metrics   *Metrics
	phases    *phases
	traces    *traces
	vims      providedVIMs
	reveal    reveal
	seals     Seals
	// judge refuses references to secrets that hooks would set.
	judge   func(before, after *desired.Instance) error
	timeout time.Duration // of one hook whose VNFD says nothing
	enqueue func(instance string)
	// tenure is that in which hooks run, as the instance of member.
	tenure tenure
	member *members.Member
	// peers resolves how whoever coordinates is called; nil calls nobody. baseURL says where
	// the API is, for links.
	peers   Peers
	baseURL func() string
}

// deed is what is done for a hook: a program is run, or somebody outside is asked.
type deed interface {
	// begins is what the story says as it is started.
	begins() string
	// prepare notes in the operation's record that it is about to be started.
	prepare(op *lcm.Operation)
	// do does it to its end, which may be after the pass. stop is closed where the operation is
	// to end gracefully.
	do(ctx context.Context, operation string, stop <-chan struct{}) (hooks.Output, error)
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
			due, err := h.due(ctx, a, name)
			if err != nil {
				return nil, false, 0, h.outcomes.giveUp(ctx, a, err)
			}
			if done = due == nil; !done {
				h.phases.enter(a.op, phaseHook)
				done, err = h.hook(ctx, a, name, due)
				if err != nil || !done {
					return nil, false, 0, err
				}
			}
		case plan.Drain:
			wait, err := h.drained(ctx, a, name)
			if wait > 0 {
				h.phases.enter(a.op, phaseDrain)
			}
			if err != nil || wait > 0 {
				return nil, false, wait, err
			}
		default:
			return steps, true, 0, nil
		}
		head := steps[0].Action
		if done || head == plan.Drain {
			h.metrics.did(nil, steps[0])
		}
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
		due, err := h.due(ctx, a, steps[0].Object)
		if due != nil || err != nil {
			return steps, err
		}
		a.journal, steps = a.journal.Pass(steps)
	}
	return steps, nil
}

// note makes the journal durable when a hook or a drain has ended, or a hook was skipped.
func (h *hookSteps) note(ctx context.Context, a *attempt) error {
	op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal, op.HookProcess, op.HookMember, op.DrainFrom = a.journal, nil, "", time.Time{}
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
func (h *hookSteps) hook(ctx context.Context, a *attempt, name string, due deed) (done bool, err error) {
	now, known := h.underway.Get(h.id, a.op.ID, name)
	coordination, _ := due.(*asking)
	awaited := coordination != nil && a.op.UnderWay(name) != nil
	if a.op.CancelMode == lcm.Forceful && awaited && !now.Done {
		if err := h.drop(ctx, a, coordination, known); err != nil {
			return false, err
		}
		known = true
	}
	switch {
	case known && !now.Done:
		switch a.op.CancelMode {
		case lcm.Forceful:
			h.underway.Drop(h.id)
		case lcm.Graceful:
			h.underway.Stop(h.id)
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
			return false, h.outcomes.broke(ctx, a, causeHook, &lcm.ProblemDetails{Status: 422, Title: "Hook " + name + " failed", Detail: err.Error()})
		case err != nil:
			return false, err
		}
		h.underway.Drop(h.id)
		h.clocks.resume()
		return true, nil
	case known:
		h.underway.Drop(h.id)
		if errors.Is(now.Err, context.Canceled) || errors.Is(now.Err, store.ErrFenced) {
			return false, nil // the process is stopping, or has lost the instance; the next one runs it again
		}
		if errors.Is(now.Err, hooks.ErrSilent) {
			h.enqueue(h.id) // it was ended because this process seemed to be lost
			return false, nil
		}
		if coordination != nil {
			if done, err := h.outcomes.cancelled(ctx, a, false); done || err != nil {
				return false, err
			}
			h.metrics.did(now.Err, plan.Step{Action: plan.Hook})
			return false, h.outcomes.broke(ctx, a, causeHook, &lcm.ProblemDetails{Status: 422, Title: "Coordination " + name + " failed", Detail: now.Err.Error()})
		}
		if err := h.keepOutput(ctx, a, hooks.Output{HandOver: now.Output.HandOver}); err != nil {
			return false, err
		}
		h.metrics.did(now.Err, plan.Step{Action: plan.Hook})
		return false, h.outcomes.broke(ctx, a, causeHook, &lcm.ProblemDetails{Status: 422, Title: "Hook " + name + " failed", Detail: now.Err.Error()})
	}
	if !awaited { // else whoever coordinates is to know that it was cancelled
		if done, err := h.outcomes.cancelled(ctx, a, false); done || err != nil {
			return false, err
		}
	}
	if wait := h.foreign(a, due); wait > 0 {
		h.clocks.halt()
		h.outcomes.await(wait)
		return false, nil
	}
	return false, h.launch(ctx, a, name, due)
}

// foreign is how long to wait before a program is run again that another member had begun: that member
// may only seem to be lost, and its launcher ends the program when it hears nothing of it.
// Nobody else can see whether it still runs.
func (h *hookSteps) foreign(a *attempt, due deed) time.Duration {
	if _, runs := due.(*program); !runs || !h.member.Shared() || a.op.HookProcess == nil || a.op.HookMember == h.member.Holder() {
		return 0
	}
	return h.tenure.since.Add(h.member.Lasts() + hooks.EndsWithin).Sub(h.clocks.now())
}

// keepOutput records what the hook wants to be kept, for later hooks and for git. Where
// Jibe dies before that, or before the hook is noted as done, the hook runs again.
func (h *hookSteps) keepOutput(ctx context.Context, a *attempt, out hooks.Output) error {
	found := lcm.Entries{Metadata: out.Metadata, Extensions: out.Extensions, Params: out.Params}
	if len(out.HandOver) == 0 && found.IsZero() && len(out.VIMs) == 0 {
		return nil
	}
	if inst := a.want.Source.Instance; inst != nil && len(out.Params) > 0 {
		set := *inst
		set.Params = found.Patch(inst.Params)
		if err := h.judge(inst, &set); err != nil {
			return err
		}
	}
	sealed := ""
	var err error
	if s := string(out.HandOver); s != "" && s != "null" {
		if sealed, err = h.seals.Hook(s); err != nil {
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

// launch starts what is done for the hook, once it is durable that the hook was begun.
func (h *hookSteps) launch(ctx context.Context, a *attempt, name string, due deed) error {
	if !slices.Contains(a.journal.Begun, name) {
		a.journal.Begun = append(slices.Clone(a.journal.Begun), name)
		if len(a.journal.Leaving) == 0 && pointOf(name) == plan.HookName(string(a.op.Type), false, "start") {
			a.journal.Leaving = plan.MovesOf(a.want.Desired, a.seen, a.journal).Leaving
		}
	}
	begins := due.begins()
	op, err := h.oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		due.prepare(op)
		op.AddToStory(h.clocks.now(), begins)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	h.log.InfoContext(ctx, "hook started", "operation", op.ID, "hook", name, "begins", begins)
	h.clocks.halt()
	h.start(a, name, due)
	if op.CancelMode != "" {
		h.enqueue(h.id) // it is stopped as soon as it has begun
	}
	return nil
}

// start has the deed done beside the pass.
func (h *hookSteps) start(a *attempt, name string, due deed) {
	op, operation := a.op, a.op.ID
	h.underway.Start(h.id, operation, name, func(ctx context.Context, stop <-chan struct{}) (hooks.Output, error) {
		ctx, end := h.tenure.under(ctx)
		defer end()
		ctx, span := h.traces.Start(h.traces.at(ctx, op), "hook", trace.Internal, trace.Attribute{Key: "jibe.hook", Value: name})
		out, err := due.do(ctx, operation, stop)
		span.End(err != nil)
		return out, err
	}, func() { h.enqueue(h.id) })
}

// program is the [deed] of running a program of the package.
type program struct {
	h    *hookSteps
	name string
	call *hooks.Call
}

func (p *program) begins() string {
	if p.call.Input.Interrupted {
		return p.name + ": " + p.call.Program() + " runs again, as it was cut short"
	}
	return p.name + ": " + p.call.Program() + " runs"
}

func (p *program) prepare(op *lcm.Operation) {
	if op.HookProcess == nil || op.HookMember != p.h.member.Holder() {
		op.HookProcess = json.RawMessage(aboutToStart)
	}
	op.HookMember = p.h.member.Holder()
}

// do runs the program to its end, and records its process and what it says. One that is to end
// gracefully comes to its end by itself.
func (p *program) do(ctx context.Context, operation string, _ <-chan struct{}) (hooks.Output, error) {
	h, name, call := p.h, p.name, *p.call
	call.Traceparent = trace.From(ctx).Traceparent()
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

// due describes what is to be done for the hook, nil where that is nothing.
func (h *hookSteps) due(ctx context.Context, a *attempt, name string) (deed, error) {
	base, _ := plan.HookUnit(name)
	if _, action := plan.Coordination(base); action != "" {
		if a.skipsHooks {
			a.skipped = append(a.skipped, fmt.Sprintf("%s: nobody was asked, as %s says hooks: %s", name, desired.InstanceFile, desired.HooksSkip))
			return nil, nil
		}
		if coordinated(a.op, name) {
			return nil, nil
		}
		if _, known := h.underway.Get(h.id, a.op.ID, name); known {
			return &asking{h: h, name: name}, nil // whom it asks need not be found again
		}
		facts, err := h.facts(ctx, a)
		if err != nil {
			return nil, err
		}
		asked, err := h.asks(a, name, facts)
		if err != nil {
			return nil, err // and not a nil *asking in a deed that isn't nil
		}
		return asked, nil
	}
	call, err := h.call(ctx, a, name)
	if call == nil || err != nil {
		return nil, err
	}
	call.Input.Interrupted = a.op.Rebuilt // nobody knows whether it was begun before
	if a.op.HookProcess != nil {
		call.Input.Interrupted = true
		call.Orphan = &hooks.Process{}
		if err := json.Unmarshal(a.op.HookProcess, call.Orphan); err != nil {
			return nil, fmt.Errorf("process of a hook of operation %s: %w", a.op.ID, err)
		}
		if call.Orphan.PID == 0 || h.member.Shared() && a.op.HookMember != h.member.Holder() {
			call.Orphan = nil // it was about to be started, or was on a machine that may be another
		}
	}
	return &program{h, name, call}, nil
}

// call describes the run of the hook's program, nil where there is nothing to run for it.
func (h *hookSteps) call(ctx context.Context, a *attempt, name string) (*hooks.Call, error) {
	if h.runner == nil || a.drv == nil {
		return nil, nil
	}
	base, _ := plan.HookUnit(name)
	if file := a.hooks.Path(base); !hooks.Coordinates(base) && base != plan.UserData && file == "" {
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
	p, err := h.projectOf(a)
	if err != nil {
		return nil, err
	}
	if err := hooksIn(p, name); err != nil {
		return nil, err
	}
	call, err := facts.Call(name, script)
	if err != nil {
		return nil, asRefused(err)
	}
	call.Timeout = cmp.Or(call.Timeout, h.timeout)
	if call.Files, err = drivers.AccessFor(ctx, a.drv, a.want.Source.Bounds, call.Timeout); err != nil {
		return nil, fmt.Errorf("access of hooks to the VIM: %w", err)
	}
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
