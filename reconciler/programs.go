package reconciler

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// program is one that an operation runs: the hook that asks for it, its path in the
// package, and the package.
type program struct {
	hook, path string
	pkg        *vnfd.Package
}

// programsOf are the programs that an operation of the type runs, in the order in which
// it may run them, those of its rollback included. What an automatic one or a TERMINATE
// has done is never rolled back. before and after are what the operation leads from and
// to; their Instance is nil where nothing runs on that side.
func programsOf(t lcm.Type, automatic bool, before, after drivers.Source, onOpenStack bool) []program {
	var list []program
	runs, back := after, before
	if runs.Instance == nil {
		runs = before
	}
	if back.Instance == nil {
		back = after
	}
	add := func(hook, name string, pkg *vnfd.Package) {
		if name != "" && pkg != nil {
			list = append(list, program{hook, path.Clean(name), pkg})
		}
	}
	vnflcm := func(src drivers.Source, rollback bool, side string) {
		hook := plan.HookName(string(t), rollback, side)
		if name := hookProgram(src, hook); !builtIn(name) {
			add(hook, name, src.Package)
		}
	}
	if (t == lcm.Instantiate || t == lcm.ChangePackage) && onOpenStack && after.Instance != nil {
		name, _ := userData(after.Instance)
		add(plan.UserData, name, after.Package)
	}
	vnflcm(runs, false, "start")
	if t == lcm.ChangePackage && before.Instance != nil && after.Instance != nil {
		scripts := after.Instance.Update.Coordinate
		add(plan.CoordinateNew, scripts.New, after.Package)
		add(plan.CoordinateOld, scripts.Old, before.Package)
	}
	vnflcm(runs, false, "end")
	if !automatic && t != lcm.Terminate {
		vnflcm(back, true, "start")
		vnflcm(back, true, "end")
	}
	return list
}

// permitted refuses an operation that needs programs which may not run, naming them and
// what can be done about it. Passing over them would end in a VNF of which nobody knows
// that they are missing: a scale-in that drained nothing.
func (c *Checker) permitted(t lcm.Type, skips bool, list []program) error {
	if skips {
		return nil
	}
	var barred []string
	var remedies []string
	for _, x := range list {
		if c.packages.Hooks(x.pkg.Tree) {
			continue
		}
		barred = append(barred, fmt.Sprintf("%s (%s)", x.path, x.hook))
		if way := c.allowing(x.pkg); !slices.Contains(remedies, way) {
			remedies = append(remedies, way)
		}
	}
	if len(barred) == 0 {
		return nil
	}
	return &drivers.RefusedError{Field: "hooks", Reason: fmt.Sprintf(
		"%s needs programs of the package that may not run: %s. %s", t, strings.Join(barred, ", "), waysOut(remedies...))}
}

// waysOut says what can be done about programs that may not run; allowing are what would
// allow them.
func waysOut(allowing ...string) string {
	return fmt.Sprintf("Either allow them: %s; or leave them out: hooks: %s in %s", strings.Join(allowing, ", and "), desired.HooksSkip, desired.InstanceFile)
}

// allowing says what would allow the programs of the package.
func (c *Checker) allowing(pkg *vnfd.Package) string {
	names := c.packages.RepositoriesOf(pkg.Tree)
	if len(names) == 0 {
		return fmt.Sprintf("no repository in %s has package %s of VNFD %s any more, bring it back to one that says hooks: true",
			desired.RepositoriesFile, pkg.Tree, pkg.VNFD.ID)
	}
	return fmt.Sprintf("hooks: true at repository %s in %s", strings.Join(names, " or "), desired.RepositoriesFile)
}

// skipsHooks says whether an operation between the two intents leaves its programs out;
// either may be nil.
func skipsHooks(before, after *desired.Instance) bool {
	if after == nil {
		after = before
	}
	return after != nil && after.Hooks == desired.HooksSkip
}

// programs refuses a change whose operation needs programs that may not run. after is
// complete; either may be nil.
func (c *Checker) programs(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if skipsHooks(before, after) {
		return nil
	}
	if before != nil && before.Package == "" {
		before = nil // nothing has come of it yet
	}
	before, err := c.Complete(ctx, settings, nil, before) // what is filled in is no change
	if err != nil {
		return err
	}
	from, err := c.running(ctx, before)
	if err != nil {
		return err
	}
	to, err := c.running(ctx, after)
	if err != nil {
		return err
	}
	t, _, due := lcm.ClassifyLevels(before, after, effectiveLevels(before, from.Package), effectiveLevels(after, to.Package))
	if !due {
		return nil
	}
	return c.permitted(t, false, programsOf(t, false, from, to, onOpenStack(settings, to.Instance)))
}

// running is the instance with its package, or nothing where it doesn't run.
func (c *Checker) running(ctx context.Context, inst *desired.Instance) (drivers.Source, error) {
	if inst == nil || inst.State != desired.Instantiated || inst.Package == "" {
		return drivers.Source{}, nil
	}
	pkg, err := c.packages.Open(ctx, inst.Package)
	if err != nil {
		return drivers.Source{}, fmt.Errorf("package %s of instance %s: %w", inst.Package, inst.ID, err)
	}
	return drivers.Source{Instance: inst, Package: pkg}, nil
}

// mayRun is [Checker.permitted] for an operation that is about to begin: one that was
// pushed to a remote repository has met no hook of ours. Either intent may be nil.
func (p *pass) mayRun(ctx context.Context, t lcm.Type, automatic bool, before, after *desired.Instance) error {
	from, err := p.checker.running(ctx, before)
	if err != nil {
		return err
	}
	to, err := p.checker.running(ctx, after)
	if err != nil {
		return err
	}
	settings, err := p.Repo.Settings()
	if err != nil {
		return err
	}
	return p.checker.permitted(t, skipsHooks(before, after), programsOf(t, automatic, from, to, onOpenStack(settings, to.Instance)))
}

// takingPart finds the package whose programs take part in the operation, and refuses
// one that begins and needs programs that may not run.
func (p *pass) takingPart(ctx context.Context, a *attempt) error {
	a.programs = a.want.Source
	if _, never := a.drv.(nowhere); a.want.Source.Package == nil && !never {
		var err error
		if a.programs.Package, err = p.packageOf(ctx, a.want.Source.Instance); err != nil {
			return err
		}
	}
	before, err := p.read(ctx, a.op.Before)
	if err != nil {
		return err
	}
	after, err := p.read(ctx, a.op.After)
	if err != nil {
		return err
	}
	a.skips = skipsHooks(before, after)
	untouched := a.op.State == lcm.Starting || a.op.Type == lcm.ModifyInfo && a.op.State == lcm.Processing && len(a.journal.Issued)+len(a.journal.Hooks) == 0
	if !untouched {
		return nil // what is left of it is refused program by program
	}
	return p.mayRun(ctx, a.op.Type, a.op.Automatic, before, after)
}

// onOpenStack says whether any of the instance runs on an OpenStack; inst may be nil.
func onOpenStack(settings *desired.Settings, inst *desired.Instance) bool {
	if inst == nil {
		return false
	}
	list, err := places(settings, inst)
	if err != nil {
		return false
	}
	for _, at := range list {
		if t, err := at.Type(); err == nil && t == desired.VIMOpenStack {
			return true
		}
	}
	return false
}
