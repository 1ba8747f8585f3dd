package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/management"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// run is one program under way, or ended and not yet taken note of.
type run struct {
	operation, hook string
	cancel          context.CancelFunc
	done            bool
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
			wait, err := p.drained(ctx, a)
			if err != nil || wait > 0 {
				return nil, false, wait, err
			}
		default:
			return steps, true, 0, nil
		}
		a.journal.Hooks = append(slices.Clone(a.journal.Hooks), name)
		if done && slices.Contains(a.journal.Begun, name) || steps[0].Action == plan.Drain {
			if err := p.note(ctx, a); err != nil {
				return nil, false, 0, err
			}
		}
		steps = plan.Compute(a.want, a.seen, a.journal)
	}
	return steps, true, 0, nil
}

// skipped takes the hooks off the head of the plan that have no program to run.
func (p *pass) skipped(ctx context.Context, a *attempt, steps []plan.Step) ([]plan.Step, error) {
	for len(steps) > 0 && steps[0].Action == plan.Hook {
		call, err := p.call(ctx, a, steps[0].Object)
		if call != nil || err != nil {
			return steps, err
		}
		a.journal.Hooks = append(slices.Clone(a.journal.Hooks), steps[0].Object)
		steps = plan.Compute(a.want, a.seen, a.journal)
	}
	return steps, nil
}

// note makes the journal durable; a program or a drain has ended.
func (p *pass) note(ctx context.Context, a *attempt) error {
	op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal, op.HookProcess, op.DrainFrom = a.journal, nil, time.Time{}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	return nil
}

// hook starts the program, or sees how it ended.
func (p *pass) hook(ctx context.Context, a *attempt, name string, call *management.Call) (done bool, err error) {
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
		p.runs.drop(p.id)
		p.resume()
		return true, nil
	case known:
		p.runs.drop(p.id)
		if errors.Is(now.err, context.Canceled) {
			return false, nil // the process is stopping; the next one runs it again
		}
		return false, p.broke(ctx, a, &lcm.Problem{Status: 422, Title: "Hook " + name + " failed", Detail: now.err.Error()})
	}
	if done, err := p.cancelled(ctx, a, false); done || err != nil {
		return false, err
	}
	return false, p.launch(ctx, a, name, call)
}

// aboutToStart stands for a process that isn't known yet.
const aboutToStart = "{}"

// launch starts the program. That it was begun is durable before.
func (p *pass) launch(ctx context.Context, a *attempt, name string, call *management.Call) error {
	if a.op.HookProcess != nil {
		call.Input.Interrupted = true
		call.Orphan = &management.Process{}
		if err := json.Unmarshal(a.op.HookProcess, call.Orphan); err != nil {
			return fmt.Errorf("process of a hook of operation %s: %w", a.op.ID, err)
		}
		if call.Orphan.PID == 0 {
			call.Orphan = nil // it was about to be started
		}
	}
	if !slices.Contains(a.journal.Begun, name) {
		a.journal.Begun = append(slices.Clone(a.journal.Begun), name)
	}
	op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Journal = a.journal
		if op.HookProcess == nil {
			op.HookProcess = json.RawMessage(aboutToStart)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record a hook of operation %s: %w", a.op.ID, err)
	}
	a.op = op
	base, cancel := context.WithCancel(p.runs.base)
	x := &run{operation: a.op.ID, hook: name, cancel: cancel}
	call.Started = func(at management.Process) error {
		_, err := p.Log.Record(base, x.operation, func(op *lcm.Operation, _ *lcm.Instance) error {
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
	p.runs.wg.Go(func() {
		defer cancel()
		out, err := p.Hooks.Run(base, *call)
		p.log.InfoContext(base, "hook ended", "operation", x.operation, "hook", name, "message", out.Message, "error", err)
		p.runs.mu.Lock()
		x.done, x.err = true, err
		p.runs.mu.Unlock()
		p.Enqueue(p.id)
	})
	return nil
}

// drained waits until connections had their time.
func (p *pass) drained(ctx context.Context, a *attempt) (time.Duration, error) {
	if done, err := p.cancelled(ctx, a, false); done || err != nil {
		return time.Second, err
	}
	if a.op.DrainFrom.IsZero() {
		op, err := p.Log.Record(ctx, a.op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
			op.Journal, op.DrainFrom = a.journal, p.Now()
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("record the drain of operation %s: %w", a.op.ID, err)
		}
		a.op = op
		p.log.InfoContext(ctx, "connections drain", "operation", op.ID, "for", a.drain)
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
func (p *pass) call(ctx context.Context, a *attempt, name string) (*management.Call, error) {
	if p.Hooks == nil || a.drv == nil {
		return nil, nil
	}
	coordinates := name == plan.CoordinateNew || name == plan.CoordinateOld || name == plan.CoordinateRollback
	if own := hookProgram(a.src, name); !coordinates && (own == "" || builtIn(own)) {
		return nil, nil
	}
	sides, err := p.sides(ctx, a)
	if err != nil {
		return nil, err
	}
	program, class, pkg := "", "", a.src.Package
	coordinate := sides.policy.Coordinate
	switch name {
	case plan.CoordinateNew:
		program, class, pkg = coordinate.New, coordinate.NewClass, sides.after.Package
	case plan.CoordinateOld, plan.CoordinateRollback:
		program, class, pkg = coordinate.Old, coordinate.OldClass, sides.before.Package
	default:
		program = hookProgram(a.src, name)
		if pkg == nil || !p.Packages.Hooks(pkg.Tree) {
			p.log.WarnContext(ctx, "the package's hook was not run: its repository's entry in repositories.yaml doesn't say hooks: true",
				"operation", a.op.ID, "hook", name, "program", program)
			return nil, nil
		}
	}
	if program == "" || pkg == nil {
		return nil, nil
	}
	if err := p.checker.runnable(pkg, program); err != nil {
		return nil, &drivers.RefusedError{Object: name, Reason: err.Error()}
	}
	call := &management.Call{Package: pkg, Program: path.Clean(program), Timeout: p.HookTimeout}
	if x, ok := a.drv.(drivers.Accessor); ok {
		if call.Files, err = x.Access(); err != nil {
			return nil, fmt.Errorf("access of programs to the VIM of instance %s: %w", p.id, err)
		}
	}
	if call.Other = sides.before.Package; pkg == sides.before.Package {
		call.Other = sides.after.Package
	}
	if call.Input, err = p.input(a, sides, name, class); err != nil {
		return nil, err
	}
	call.Secrets = slices.Concat(management.Revealed(a.src.Instance.Params, call.Input.Params),
		management.Revealed(sides.policy.Coordinate.Params, call.Input.CoordinationParams))
	return call, nil
}

// builtIn says whether the program is one whose work Jibe does itself: the
// reference's container update.
func builtIn(program string) bool {
	ok, _ := path.Match("container_update_mgmt*.py", path.Base(program))
	return ok
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

// sides are what an operation leads from and to.
type sides struct {
	before, after drivers.Source
	policy        desired.UpdatePolicy
}

func (p *pass) sides(ctx context.Context, a *attempt) (sides, error) {
	var s sides
	for _, side := range []struct {
		rev desired.Revision
		to  *drivers.Source
	}{{a.op.Before, &s.before}, {a.op.After, &s.after}} {
		inst, err := p.read(ctx, side.rev)
		if err != nil {
			return s, err
		}
		if inst == nil || inst.Package == "" {
			continue
		}
		side.to.Instance = inst
		if side.to.Package, err = p.packageOf(ctx, inst); err != nil {
			return s, err
		}
	}
	if s.after.Instance != nil {
		s.policy = s.after.Instance.Update
	}
	return s, nil
}

// input is what the program is told.
func (p *pass) input(a *attempt, s sides, name, class string) (management.Input, error) {
	inst := a.src.Instance
	in := management.Input{
		Version: management.Version, Hook: name, Class: class, Rollback: a.journal.Rollback,
		Operation: management.Operation{ID: a.op.ID, Type: string(a.op.Type), Attempt: a.op.Attempt, Params: a.op.Params},
		Instance: management.Instance{ID: inst.ID, Name: inst.Name, Generation: a.want.Generation,
			Metadata: inst.Metadata, Extensions: inst.Extensions},
		Before: version(s.before.Package), After: version(s.after.Package),
		VDUs: vdus(a, a.op), Objects: []management.Object{}, Services: []management.Object{},
		VIM: management.VIM{Name: inst.VIM},
	}
	in.Instance.Namespace, _ = inst.Params["namespace"].(string)
	for _, x := range a.seen.Objects {
		in.Objects = append(in.Objects, management.Object{Key: x.Key, Generation: x.Generation})
	}
	for _, x := range a.want.Objects {
		if x.Directs {
			in.Services = append(in.Services, management.Object{Key: x.Key})
		}
	}
	if settings, err := p.Repo.Settings(); err == nil {
		if v, err := NamedVIM(settings, inst); err == nil {
			in.VIM = management.VIM{Name: v.Name, Type: v.Type, Endpoint: v.Endpoint}
		}
	}
	var err error
	if in.Params, err = p.reveal(inst.Params); err != nil {
		return in, err
	}
	in.CoordinationParams, err = p.reveal(s.policy.Coordinate.Params)
	return in, err
}

func (p *pass) reveal(params map[string]any) (map[string]any, error) {
	if p.Reveal == nil || len(params) == 0 {
		return params, nil
	}
	clear, err := p.Reveal(params)
	if err != nil {
		return nil, fmt.Errorf("secrets of instance %s: %w", p.id, err)
	}
	return clear, nil
}

func version(pkg *vnfd.Package) *management.Package {
	if pkg == nil {
		return nil
	}
	return &management.Package{VnfdID: pkg.VNFD.ID, VnfdVersion: pkg.VNFD.Version, Provider: pkg.VNFD.Provider,
		ProductName: pkg.VNFD.ProductName, SoftwareVersion: pkg.VNFD.SoftwareVersion, Tree: pkg.Tree}
}

// vdus are the units of both sides by VDU. Old are those of what ran before the
// operation, whether they still exist or not; New are the others that live.
func vdus(a *attempt, op *lcm.Operation) []management.VDU {
	old := make(map[string]bool, len(op.UnitsBefore))
	by := map[string]*management.VDU{}
	var ids []string
	put := func(u plan.Unit, was bool) {
		v := by[u.VDU]
		if v == nil {
			v = &management.VDU{ID: u.VDU, Old: []management.Unit{}, New: []management.Unit{}}
			by[u.VDU] = v
			ids = append(ids, u.VDU)
		}
		m := management.Unit{ID: u.ID, Name: u.Name, Owner: u.Owner, Generation: u.Generation, Address: u.Metadata["podIP"], Ready: u.Ready, Metadata: u.Metadata}
		if was {
			v.Old = append(v.Old, m)
		} else {
			v.New = append(v.New, m)
		}
	}
	now := make(map[string]plan.Unit, len(a.seen.Units))
	for _, u := range live(a.seen) {
		now[u.ID] = u
	}
	for _, u := range op.UnitsBefore {
		old[u.ID] = true
		if seen, lives := now[u.ID]; lives {
			u = seen
		} else {
			u.Ready = false
		}
		put(u, true)
	}
	for _, u := range live(a.seen) {
		if !old[u.ID] {
			put(u, false)
		}
	}
	slices.Sort(ids)
	out := make([]management.VDU, 0, len(ids))
	for _, id := range ids {
		out = append(out, *by[id])
	}
	return out
}
