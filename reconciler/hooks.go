package reconciler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// run is one program under way, or ended and not yet taken note of.
type run struct {
	operation, hook string
	cancel          context.CancelFunc
	done            bool
	out             hooks.Output
	err             error
}

// runs are the programs under way, one an instance at most. A program outlives the
// pass that started it, so that it keeps no worker.
type runs struct {
	mu sync.Mutex
	of map[string]*run
	// base bounds all programs: it ends with the process.
	base context.Context
	wg   sync.WaitGroup
}

func newRuns() *runs { return &runs{of: map[string]*run{}} }

// get returns a copy of the run of the instance. One of another operation or hook is
// ended and forgotten.
func (r *runs) get(id, operation, hook string) (run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.of[id]
	if x == nil {
		return run{}, false
	}
	if x.operation != operation || x.hook != hook {
		x.cancel()
		delete(r.of, id)
		return run{}, false
	}
	return *x, true
}

// drop ends the run of the instance and forgets it.
func (r *runs) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.of[id]; x != nil {
		x.cancel()
		delete(r.of, id)
	}
}

// unobservable carries on with what leads the plan and can't be seen at the VIM:
// hooks, which are run, and the drain, which is waited for. It returns the steps that
// are left. ready is false where something is under way; again then says when to
// look at the latest (0: when it ends).
func (p *pass) unobservable(ctx context.Context, a *attempt, steps []plan.Step) (left []plan.Step, ready bool, again time.Duration, err error) {
	for len(steps) > 0 {
		name := steps[0].Object
		done := false
		switch steps[0].Action {
		case plan.Hook:
			call, err := p.call(ctx, a, name)
			if err != nil {
				return nil, false, 0, p.giveUp(ctx, a, err)
			}
			if done = call == nil; !done {
				done, err = p.hook(ctx, a, name, call)
				if err != nil || !done {
					return nil, false, 0, err
				}
			}
		case plan.Drain:
			wait, err := p.drained(ctx, a, name)
			if err != nil || wait > 0 {
				return nil, false, wait, err
			}
		default:
			return steps, true, 0, nil
		}
		head := steps[0].Action
		a.journal, steps = a.journal.Pass(steps)
		if done && slices.Contains(a.journal.Begun, name) || head == plan.Drain || len(a.skipped) > 0 {
			if err := p.note(ctx, a); err != nil {
				return nil, false, 0, err
			}
		}
		if a.stale {
			p.Enqueue(p.id) // what is wanted is another since the program has computed it
			return nil, false, 0, nil
		}
	}
	return steps, true, 0, nil
}

// withoutProgram takes the hooks off the head of the plan that have no program to run.
func (p *pass) withoutProgram(ctx context.Context, a *attempt, steps []plan.Step) ([]plan.Step, error) {
	for len(steps) > 0 && steps[0].Action == plan.Hook {
		call, err := p.call(ctx, a, steps[0].Object)
		if call != nil || err != nil {
			return steps, err
		}
		a.journal, steps = a.journal.Pass(steps)
	}
	return steps, nil
}

// note makes the journal durable; a program or a drain has ended, or a program was left
// out.
func (p *pass) note(ctx context.Context, a *attempt) error {
	op, err := p.Oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal, op.HookProcess, op.DrainFrom = a.journal, nil, time.Time{}
		op.Tell(p.Now(), a.skipped...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op, a.skipped = op, nil
	return nil
}

// hook starts the program, or sees how it ended.
func (p *pass) hook(ctx context.Context, a *attempt, name string, call *hooks.Call) (done bool, err error) {
	now, known := p.runs.get(p.id, a.op.ID, name)
	switch {
	case known && !now.done:
		if a.op.CancelMode == lcm.Forceful {
			p.runs.drop(p.id)
		}
		if done, err := p.cancelled(ctx, a, true); done || err != nil {
			return false, err
		}
		p.halt() // the program has a time limit of its own
		return false, nil
	case known && now.err == nil:
		var refused *drivers.RefusedError
		err := p.left(ctx, a, now.out)
		switch {
		case errors.As(err, &refused):
			p.runs.drop(p.id)
			return false, p.broke(ctx, a, &lcm.Problem{Status: 422, Title: "Hook " + name + " failed", Detail: err.Error()})
		case err != nil:
			return false, err
		}
		p.runs.drop(p.id)
		p.resume()
		return true, nil
	case known:
		p.runs.drop(p.id)
		if errors.Is(now.err, context.Canceled) {
			return false, nil // the process is stopping; the next one runs it again
		}
		if err := p.left(ctx, a, hooks.Output{HandOver: now.out.HandOver}); err != nil {
			return false, err
		}
		return false, p.broke(ctx, a, &lcm.Problem{Status: 422, Title: "Hook " + name + " failed", Detail: now.err.Error()})
	}
	if done, err := p.cancelled(ctx, a, false); done || err != nil {
		return false, err
	}
	return false, p.launch(ctx, a, name, call)
}

// left records what the program left for later ones and for git. A process that dies
// before that, or before the program is noted as done, runs it again.
func (p *pass) left(ctx context.Context, a *attempt, out hooks.Output) error {
	found := lcm.Entries{Metadata: out.Metadata, Extensions: out.Extensions, Params: out.Params}
	if len(out.HandOver) == 0 && found.IsZero() && len(out.VIMs) == 0 {
		return nil
	}
	sealed := ""
	var err error
	if s := string(out.HandOver); s != "" && s != "null" {
		if sealed, err = p.sealed(s); err != nil {
			return fmt.Errorf("encrypt the hand-over of operation %s: %w", a.op.ID, err)
		}
	}
	if found.VIMs, err = p.provided(out.VIMs); err != nil {
		return err
	}
	op, err := p.Oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		if len(out.HandOver) > 0 {
			op.HandOver = sealed
		}
		op.Modified = op.Modified.With(found)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record what a program of operation %s left: %w", a.op.ID, err)
	}
	a.op, a.stale = op, len(out.Params) > 0
	return nil
}

// sealed is a secret as it may be kept.
func (p *pass) sealed(clear string) (string, error) {
	if p.Seal == nil {
		return clear, nil
	}
	return p.Seal(clear)
}

// aboutToStart stands for a process that isn't known yet.
const aboutToStart = "{}"

// launch starts the program. That it was begun is durable before.
func (p *pass) launch(ctx context.Context, a *attempt, name string, call *hooks.Call) error {
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
	begins := name + ": " + call.Program + " runs"
	if call.Input.Interrupted {
		begins += " again, as it was cut short"
	}
	op, err := p.Oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if op.HookProcess == nil {
			op.HookProcess = json.RawMessage(aboutToStart)
		}
		op.Tell(p.Now(), begins)
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	base, cancel := context.WithCancel(p.runs.base)
	x := &run{operation: a.op.ID, hook: name, cancel: cancel}
	call.Started = func(at hooks.Process) error {
		_, err := p.Oplog.Record(base, x.operation, func(op *lcm.Operation, _ *lcm.Instance) error {
			encoded, err := json.Marshal(at)
			op.HookProcess = encoded
			return err
		})
		return err
	}
	p.runs.mu.Lock()
	p.runs.of[p.id] = x
	p.runs.mu.Unlock()
	p.log.InfoContext(ctx, "hook started", "operation", x.operation, "hook", name, "program", call.Program, "interrupted", call.Input.Interrupted)
	p.halt()
	story := &teller{}
	call.Said = func(line string) { story.say(p.Now(), name+": "+line) }
	stop := p.tells(base, x.operation, story)
	p.runs.wg.Go(func() {
		defer cancel()
		out, err := p.Hooks.Run(base, *call)
		if err == nil {
			story.say(p.Now(), strings.TrimSuffix(name+" is done: "+out.Message, ": "))
		}
		stop()
		p.log.InfoContext(base, "hook ended", "operation", x.operation, "hook", name, "message", out.Message, "error", err)
		p.runs.mu.Lock()
		x.done, x.out, x.err = true, out, err
		p.runs.mu.Unlock()
		p.Enqueue(p.id)
	})
	return nil
}

// drained waits until connections had their time: before a generation goes, or before
// the whole VNF does.
func (p *pass) drained(ctx context.Context, a *attempt, name string) (time.Duration, error) {
	if done, err := p.cancelled(ctx, a, false); done || err != nil {
		return time.Second, err
	}
	if a.op.DrainFrom.IsZero() {
		op, err := p.Oplog.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			op.Journal, op.DrainFrom = a.journal, p.Now()
			op.Tell(p.Now(), fmt.Sprintf("connections drain for %s", a.drain))
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("record the drain of operation %s: %w", a.op.ID, err)
		}
		a.op = op
		p.log.InfoContext(ctx, "connections drain", "operation", op.ID, "drain", name, "for", a.drain)
	}
	left := a.op.DrainFrom.Add(a.drain).Sub(p.Now())
	if left <= 0 {
		p.resume()
		return 0, nil
	}
	p.halt()
	return left, nil
}

// call describes the run of the hook's program, nil where it has none to run.
func (p *pass) call(ctx context.Context, a *attempt, name string) (*hooks.Call, error) {
	if p.Hooks == nil || a.drv == nil {
		return nil, nil
	}
	base, _ := plan.HookUnit(name)
	if own := hookProgram(a.programs, base); !coordinates(base) && base != plan.UserData && (own == "" || builtIn(own)) {
		return nil, nil
	}
	sides, err := p.sides(ctx, a)
	if err != nil {
		return nil, err
	}
	program, class, pkg := "", "", a.programs.Package
	coordinate := sides.policy.Coordinate
	switch base {
	case plan.CoordinateNew:
		program, class, pkg = coordinate.New, coordinate.NewClass, sides.after.Package
	case plan.CoordinateOld, plan.CoordinateRollback:
		program, class, pkg = coordinate.Old, coordinate.OldClass, sides.before.Package
	default:
		if program = hookProgram(a.programs, base); base == plan.UserData {
			program, class = userData(a.want.Source.Instance)
		}
	}
	if program == "" || pkg == nil {
		return nil, nil
	}
	if a.skips {
		a.skipped = append(a.skipped, fmt.Sprintf("%s: %s was skipped, as %s says hooks: %s", name, path.Clean(program), desired.InstanceFile, desired.HooksSkip))
		return nil, nil
	}
	if err := p.checker.runnable(pkg, program, false); err != nil {
		return nil, &drivers.RefusedError{Object: name, Reason: err.Error()}
	}
	call := &hooks.Call{Package: pkg, Program: path.Clean(program), Timeout: cmp.Or(hookTimeout(a.programs, base), p.HookTimeout)}
	if call.Files, err = a.drv.Access(); err != nil {
		return nil, fmt.Errorf("access of programs to the VIM: %w", err)
	}
	if call.Other = sides.before.Package; pkg == sides.before.Package {
		call.Other = sides.after.Package
	}
	if call.Input, err = p.input(ctx, a, sides, name, class); err != nil {
		return nil, err
	}
	asked, err := normalCoordination(coordinate.Params)
	if err != nil {
		return nil, err
	}
	call.Secrets = slices.Concat(hooks.Revealed(a.want.Source.Instance.Params, call.Input.Params),
		hooks.Revealed(asked, call.Input.CoordinationParams))
	call.Names = declared(sides.before.Package, sides.after.Package)
	return call, nil
}

// builtIn says whether the program is one whose work Jibe does itself: the
// reference's container update.
func builtIn(program string) bool {
	ok, _ := path.Match("container_update_mgmt*.py", path.Base(program))
	return ok
}

// hookTimeout is how long the VNFD lets the hook's program run, 0 where it says nothing.
func hookTimeout(src drivers.Source, name string) time.Duration {
	if src.Package == nil || src.Package.VNFD == nil {
		return 0
	}
	f, _ := src.Package.VNFD.Flavour(src.Instance.Flavour)
	if f == nil {
		return 0
	}
	return f.HookTimeouts[name]
}

func hookProgram(src drivers.Source, name string) string {
	if src.Package == nil || src.Package.VNFD == nil {
		return ""
	}
	if f, ok := src.Package.VNFD.Flavour(src.Instance.Flavour); ok {
		return f.Hooks[name]
	}
	return ""
}
