package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// sideOf is what hooks know of one side of an operation.
func sideOf(inst *desired.Instance, pkg *vnfd.Package) hooks.Side {
	return hooks.Side{Instance: inst, Package: pkg, Levels: effectiveLevels(inst, pkg)}
}

// asRefused makes a refusal of what hooks call invalid, and returns other errors as they are.
func asRefused(err error) error {
	if invalid, ok := errors.AsType[*hooks.InvalidError](err); ok {
		return &drivers.RefusedError{Field: invalid.Field, Reason: invalid.Reason}
	}
	return err
}

// hooks refuses a change whose operation needs hooks that may not run. after is complete;
// either may be nil.
func (c *Checker) hooks(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if hooks.Skipped(before, after) {
		return nil
	}
	if before != nil && before.Package == "" {
		before = nil // nothing has come of it yet
	}
	before, err := c.Complete(ctx, settings, nil, before) // what is filled in is no change
	if err != nil {
		return err
	}
	from, err := c.side(ctx, before)
	if err != nil {
		return err
	}
	to, err := c.side(ctx, after)
	if err != nil {
		return err
	}
	t, _, due := lcm.ClassifyLevels(before, after, effectiveLevels(before, from.Package), effectiveLevels(after, to.Package))
	if !due {
		return nil
	}
	return c.permit(ctx, settings, t, false, from, to)
}

// permit refuses an operation that needs hooks which may not run, or can't, or coordination by
// somebody who isn't known.
func (c *Checker) permit(ctx context.Context, settings *desired.Settings, t lcm.Type, automatic bool, from, to hooks.Side) error {
	leads := to
	if leads.Instance == nil {
		leads = from
	}
	if err := hooks.FindCoordinator(settings, t, leads); err != nil {
		return asRefused(err)
	}
	needed := hooks.NeededBy(t, automatic, from, to, onOpenStack(settings, to.Instance))
	if len(needed) > 0 {
		if err := hooksIn(settings.ProjectOf(leads.Instance.Dir), string(t)); err != nil {
			return err
		}
		if err := hooksWithAccount(settings, leads.Instance, string(t)); err != nil {
			return err
		}
	}
	if err := hooks.Permit(c.packages, t, needed); err != nil {
		return asRefused(err)
	}
	return asRefused(hooks.Fit(ctx, c.python, t, needed))
}

// hooksWithAccount refuses hooks at the cluster in which Jibe runs where the project has no account
// there: they would need the token of Jibe's own pod.
func hooksWithAccount(settings *desired.Settings, inst *desired.Instance, what string) error {
	p := settings.ProjectOf(inst.Dir)
	if accountOf(p) != "" {
		return nil
	}
	list, err := places(settings, inst)
	if err != nil {
		return nil //nolint:nilerr // the lookup of the place reports it
	}

	for _, at := range list {
		if at.File == nil || !at.File.InCluster {
			continue
		}
		return &drivers.RefusedError{Field: "hooks", Reason: fmt.Sprintf(
			"%s needs hooks of the package at VIM %s, the cluster in which Jibe runs, and no hook gets the token of Jibe's own pod: give project %s a service account (impersonate: {serviceAccount: <namespace>/<name>} in %s; in the chart rbac.impersonate with hooks: true), or leave the hooks out: hooks: %s in %s",
			what, at.Name, p.Name, desired.ProjectFile(p.Name), desired.HooksSkip, desired.InstanceFile)}
	}
	return nil
}

// side is the instance with its package, or nothing where it doesn't run.
func (c *Checker) side(ctx context.Context, inst *desired.Instance) (hooks.Side, error) {
	if !desired.MayHaveObjects(inst) || inst.Package == "" {
		return hooks.Side{}, nil
	}
	pkg, err := c.packages.Open(ctx, inst.Package)
	if err != nil {
		return hooks.Side{}, fmt.Errorf("package %s of instance %s: %w", inst.Package, inst.ID, err)
	}
	return sideOf(inst, pkg), nil
}

// permitted is [Checker.permit] for an operation that is about to begin: one that was pushed
// to a remote repository has met no hook of ours. Either intent may be nil.
func (c *Checker) permitted(ctx context.Context, known func() (*desired.Settings, error), t lcm.Type, automatic bool, before, after *desired.Instance) error {
	from, err := c.side(ctx, before)
	if err != nil {
		return err
	}
	to, err := c.side(ctx, after)
	if err != nil {
		return err
	}
	if hooks.Skipped(before, after) {
		return nil
	}
	settings, err := known()
	if err != nil {
		return err
	}
	return c.permit(ctx, settings, t, automatic, from, to)
}

// onOpenStack says whether any part of the instance runs on an OpenStack; inst may be nil.
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
