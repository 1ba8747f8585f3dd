package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// admission says whether an operation may begin, before anything moves. It changes nothing
// but that the package is kept.
type admission struct {
	resolver resolver
	checker  *Checker
	// permit refuses references to secrets that may not be followed.
	permit func(before, after *desired.Instance) error
	// unused refuses to end or stop an instance that is a VIM on which others run.
	unused func(ctx context.Context, before *desired.Instance) error
}

// admit keeps the package for as long as anyone may need it, checks the change, and asks the
// VIM whether it would take the steps. It is called before anything moves.
func (m admission) admit(ctx context.Context, a *attempt, steps []plan.Step) error {
	// A rollback goes back to what was accepted before.
	if a.want.Source.Package != nil && !a.op.Automatic && a.op.Type != lcm.Terminate && a.op.State != lcm.RollingBack {
		before, err := m.resolver.read(ctx, a.op.Before)
		if err != nil {
			return err
		}
		if err := m.checker.sound(ctx, before, a.want.Source.Instance); err != nil {
			return err
		}
	}
	if a.want.Source.Package != nil {
		trees := []string{a.want.Source.Package.Tree}
		for _, pin := range a.want.Source.Pinned {
			trees = append(trees, pin.Package.Tree)
		}
		for _, tree := range trees {
			if err := m.resolver.packages.Pin(ctx, tree); err != nil {
				return fmt.Errorf("keep package %s: %w", tree, err)
			}
		}
	}
	if a.op.Automatic {
		return nil // it only restores what was admitted before
	}
	if err := m.allowed(ctx, a); err != nil {
		return err
	}
	if err := m.scales(ctx, a); err != nil {
		return err
	}
	steps = slices.DeleteFunc(slices.Clone(steps), func(s plan.Step) bool {
		return s.Action != plan.Apply && s.Action != plan.Scale && s.Action != plan.Post
	})
	want := a.want
	want.Former = m.former(ctx, a, steps)
	return a.drv.Verify(ctx, want, steps...)
}

// former is what stood before the operation, where the steps change something of it; nil
// where that isn't known.
func (m admission) former(ctx context.Context, a *attempt, steps []plan.Step) *drivers.Rendering {
	changes := func(s plan.Step) bool {
		return s.Action == plan.Apply && slices.ContainsFunc(a.seen.Objects, func(x plan.ObservedObject) bool { return x.Key == s.Object })
	}
	if !slices.ContainsFunc(steps, changes) {
		return nil
	}
	return m.before(ctx, a)
}

// before is what stood before the operation; nil where that isn't known.
func (m admission) before(ctx context.Context, a *attempt) *drivers.Rendering {
	from := a.op.Before
	if a.op.State == lcm.RollingBack {
		from = a.op.After
	}
	inst, err := m.resolver.read(ctx, from)
	if err != nil || inst == nil || !desired.IsInstantiated(inst.State) {
		return nil
	}
	src, err := sourceOf(ctx, m.resolver.packages, m.resolver.reveal, inst)
	if err != nil {
		return nil
	}
	made, err := m.resolver.renderings.of(a.drv, from, src)
	if err != nil {
		return nil // it only saves the VIM questions
	}
	return &made
}

// scales refuses to change the number of units where something at the VIM decides on it, which
// leaves alone only what has none.
func (m admission) scales(ctx context.Context, a *attempt) error {
	if a.op.Type != lcm.Scale && a.op.Type != lcm.ScaleToLevel || a.op.State == lcm.RollingBack {
		return nil
	}
	by := make(map[string]string)
	for _, x := range a.seen.Objects {
		if x.Autoscaled != "" {
			by[x.Key] = x.Autoscaled
		}
	}
	if len(by) == 0 {
		return nil
	}
	before := m.before(ctx, a)
	if before == nil {
		return nil
	}

	for _, g := range a.want.Desired.Groups {
		i := slices.IndexFunc(before.Desired.Groups, func(x plan.Group) bool { return x.VDU == g.VDU && x.Owner == g.Owner })
		if i < 0 || by[g.Owner] == "" || g.Count == 0 || before.Desired.Groups[i].Count == 0 || g.Count == before.Desired.Groups[i].Count {
			continue
		}
		return &drivers.RefusedError{Object: g.Owner, Field: "levels", Conflict: true, Reason: fmt.Sprintf(
			"VDU %s can't be scaled: %s decides how many units it has; change its bounds, or remove it", g.VDU, by[g.Owner])}
	}
	return nil
}

// judge holds the references that a change brings against the rules of now. What a door that knew its pusher let through
// needs no role any more. Either intent may be nil.
func (r *Reconciler) judge(before, after *desired.Instance) error {
	if r.Permit == nil || after == nil {
		return nil
	}
	settings, err := r.Repo.Settings()
	if err != nil {
		return fmt.Errorf("projects of the desired repository: %w", err)
	}
	return r.Permit(settings, before, after, r.Doors)
}

// brings is [Reconciler.judge] for an operation of which nothing was begun, before anything is resolved for it: to connect
// is to send a credential already.
func (m admission) brings(ctx context.Context, op *lcm.Operation) error {
	if op.Automatic || op.State == lcm.RollingBack || len(op.Journal.Issued) > 0 {
		return nil
	}
	before, err := m.resolver.read(ctx, op.Before)
	if err != nil {
		return err
	}
	after, err := m.resolver.read(ctx, op.After)
	if err != nil {
		return err
	}
	return m.permit(before, after)
}

// allowed checks a change once more: a commit that was pushed to a remote repository has met
// no push hook of ours.
func (m admission) allowed(ctx context.Context, a *attempt) error {
	before, err := m.resolver.read(ctx, a.op.Before)
	if err == nil && a.op.Type == lcm.Terminate {
		return m.unused(ctx, before)
	}
	if err == nil {
		err = m.confine(ctx, a)
	}
	if err == nil {
		was := before
		if was != nil {
			was = was.WithGrant()
		}
		err = m.permit(was, a.want.Source.Instance)
	}
	if err != nil || before == nil || !desired.IsInstantiated(before.State) || a.want.Objects == nil {
		return err
	}
	settings, err := m.resolver.repo.Settings()
	if err != nil {
		return fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	if a.op.Type == lcm.Operate && a.want.Source.Instance.State == desired.Stopped {
		if err := m.unused(ctx, before); err != nil {
			return err
		}
	}
	if a.op.Type != lcm.ChangePackage && a.op.Type != lcm.ChangeFlavour {
		return staysPlaced(settings, before, a.want.Source.Instance)
	}
	return m.checker.change(ctx, settings, a.drv, before, a.want.Source.Instance)
}
