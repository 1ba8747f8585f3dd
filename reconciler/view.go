package reconciler

import (
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// View is what the API, the push hook and the CLI may ask: what runs now, and
// whether a change would be refused. It changes nothing.
type View struct {
	r       *Reconciler
	checker *Checker
	// admin says that an administrator asks, and proposed that the packages are those of a proposal.
	admin, proposed bool
}

// View returns the reconciler's read-only side.
func (r *Reconciler) View() *View { return &View{r: r, checker: r.checker} }

// With is the view of somebody who considers other packages than those that count. It sees
// what runs as this one does.
func (v *View) With(packages Packages) *View {
	other := *v.checker
	other.packages = packages
	return &View{v.r, &other, v.admin, true}
}

// ByAdmin is the view of an administrator who considers a change.
func (v *View) ByAdmin() *View { return &View{v.r, v.checker, true, v.proposed} }

// Running is everything of the instance that the VIM's cache last saw, what is
// being deleted included. fresh is false where there is no such view now.
func (v *View) Running(ctx context.Context, instance string) (seen plan.Observed, fresh bool) {
	inst, err := v.r.Oplog.Instance(ctx, instance)
	if err != nil {
		return seen, false
	}
	seen, err = v.running(ctx, inst)
	return seen, err == nil
}

// Remains lists the objects that the VIM has of an instance, as the end of the instance would delete them. It looks at
// the VIM also where git wants nothing there any more.
func (v *View) Remains(ctx context.Context, instance string) ([]string, error) {
	inst, err := v.r.Oplog.Instance(ctx, instance)
	if err != nil {
		return nil, err
	}
	at, other, err := v.aim(ctx, inst)
	if err != nil {
		return nil, err
	}
	want, drv, err := v.r.resolve(ctx, at, other)
	if err != nil {
		return nil, err
	}

	gone := drivers.Absent(want.Source.Instance)
	if gone.Former = want.Former; want.Source.Package != nil {
		gone.Former = &want
	}
	seen, err := drv.Observe(ctx, gone)
	if err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(plan.Compute(gone.Desired, seen, plan.Journal{}), func(s plan.Step) bool {
		return s.Action != plan.Delete && s.Action != plan.DeleteUnit && s.Action != plan.Wait
	})

	return objects(left), nil
}

// Workloads are, by VDU id, the objects that the VNFCs of what was brought about last belong
// to, as the VIM was sent them, without secrets; nil where the VIM has no such objects.
func (v *View) Workloads(ctx context.Context, instance string) (map[string]any, error) {
	inst, err := v.r.Oplog.Instance(ctx, instance)
	if err != nil {
		return nil, err
	}
	want, drv, err := v.r.resolve(ctx, inst.Settled, inst.Settled)
	if err != nil {
		return nil, err
	}
	all := drv.Workloads(want)
	for vdu, object := range all {
		all[vdu] = hidden(object, want.Source.Secrets)
	}
	return all, nil
}

func (v *View) running(ctx context.Context, inst *lcm.Instance) (plan.Observed, error) {
	at, other, err := v.aim(ctx, inst)
	if err != nil {
		return plan.Observed{}, err
	}
	want, drv, err := v.r.resolve(ctx, at, other)
	if err != nil {
		return plan.Observed{}, err
	}
	return drv.Observe(ctx, want)
}

// aim is the revision by which to look at the instance, and the one that helps
// where nothing should exist there.
func (v *View) aim(ctx context.Context, inst *lcm.Instance) (at, other desired.Revision, err error) {
	if inst.Open == "" {
		return inst.Operated, inst.Settled, nil
	}
	op, err := v.r.Oplog.Operation(ctx, inst.Open)
	if err != nil {
		return at, other, err
	}
	return op.After, op.Before, nil
}

// permit is [Config.Permit] for a change with the settings. Where no administrator asks, head's have to permit it as well:
// who plans may propose any settings, and what is rendered with the secret would be told, as it is made of it.
func (v *View) permit(settings *desired.Settings, before, after *desired.Instance) error {
	if after == nil || v.r.Permit == nil {
		return nil
	}
	if v.proposed && !v.admin && slices.ContainsFunc(after.References(), func(r desired.Reference) bool { return r.Connection == "" }) {
		return &drivers.RefusedError{Field: "params", Reason: "they refer to secrets, and " + desired.RepositoriesFile +
			" is changed beside: a package from there would be given them, which an administrator alone may have planned; plan the instance without that change, or have an administrator plan it"}
	}
	if err := v.r.Permit(settings, before, after, v.admin); err != nil || v.admin {
		return err
	}
	head, err := v.r.Repo.Settings()
	if err != nil || head == settings {
		return err
	}

	return v.r.Permit(head, before, after, false)
}

// Check is [Checker.Check] that also refuses to end a VNF that is a VIM on which others
// run, and to run one by references or at a VIM that are forbidden; settings nil means
// head's.
func (v *View) Check(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if settings == nil {
		var err error
		if settings, err = v.r.Repo.Settings(); err != nil {
			return err
		}
	}
	if err := v.r.unused(ctx, settings, before, after); err != nil {
		return err
	}
	// Before anything is rendered: what quotes a secret that may not stand there would tell it.
	if err := v.permit(settings, before, after); err != nil {
		return err
	}
	if err := v.checker.Check(ctx, settings, before, after); err != nil || after == nil {
		return err
	}
	return v.r.vims.refused(settings, after)
}

// Complete is [Checker.Complete] with the settings of head.
func (v *View) Complete(ctx context.Context, before, after *desired.Instance) (*desired.Instance, error) {
	settings, err := v.r.Repo.Settings()
	if err != nil {
		return nil, err
	}
	return v.checker.Complete(ctx, settings, before, after)
}

// Prepare returns the edits by which Jibe completes the change from before to after, for who makes
// a commit that needs no other to complete it. Its error is why the change would be refused, or why
// that can't be known ([Refused]).
func (v *View) Prepare(ctx context.Context, before, after *desired.Instance) ([]desired.KeyValue, error) {
	if err := v.Check(ctx, nil, before, after); err != nil {
		return nil, err
	}
	full, err := v.Complete(ctx, before, after)
	if err != nil {
		return nil, err
	}
	if full.VIM != after.VIM { // which is noted before it is committed
		other := *full
		other.VIM, full = after.VIM, &other
	}
	return filledIn(after, full), nil
}

// Definitions is [Checker.Definitions] with the settings of head.
func (v *View) Definitions(ctx context.Context, before, after *desired.Instance, listed []string) ([]string, error) {
	settings, err := v.r.Repo.Settings()
	if err != nil {
		return nil, err
	}
	return v.checker.Definitions(ctx, settings, before, after, listed)
}

// Find returns the newest package with this vnfdId that a repository has.
func (v *View) Find(ctx context.Context, vnfdID string) (*vnfd.Package, error) {
	tree, err := v.checker.packages.Newest(vnfdID)
	if err != nil {
		return nil, err
	}
	return v.checker.packages.Open(ctx, tree)
}

// Package returns the package that the instance runs, or would run where none
// is pinned yet: also one that has left its repository, where the instance ran it.
func (v *View) Package(ctx context.Context, inst *desired.Instance) (*vnfd.Package, error) {
	pkg, err := v.checker.pkg(ctx, inst)
	if err == nil && inst.State == desired.NotInstantiated && pkg.VNFD.ID != inst.VnfdID {
		// It ended before its change of package was pinned.
		open := *inst
		open.Package = ""
		return v.checker.pkg(ctx, &open)
	}
	return pkg, err
}

// SecretNames is the rule that recognizes names of secrets in the instance, with
// those that its VNFD declares. A package that isn't to be had declares nothing.
func (v *View) SecretNames(ctx context.Context, inst *desired.Instance) desired.SecretNames {
	pkg, err := v.checker.pkg(ctx, inst)
	if err != nil {
		return desired.SecretNames{}
	}
	return declared(pkg)
}
