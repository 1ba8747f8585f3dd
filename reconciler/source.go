package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// reveal is [Config.Reveal].
type reveal func(params map[string]any) (map[string]any, error)

// params are the instance's parameters with what the references in them stand for, and
// these values; nil where there are none.
func (r reveal) params(inst *desired.Instance) (clear map[string]any, secrets []string, err error) {
	if r == nil || !slices.ContainsFunc(inst.Secrets(desired.SecretNames{}), func(s desired.Secret) bool {
		return s.Path[0] == "params" && desired.IsRef(s.Value)
	}) {
		return nil, nil, nil
	}
	if clear, err = r(inst.Params); err != nil {
		return nil, nil, err
	}
	return clear, hooks.Revealed(inst.Params, clear), nil
}

// sourceOf opens every package that the render of an instance depends on, and resolves
// the references in its parameters as far as it can: not every VIM needs them.
func sourceOf(ctx context.Context, packages Packages, reveal reveal, inst *desired.Instance) (drivers.Source, error) {
	inst = inst.WithGrant()
	src := drivers.Source{Instance: inst}
	open := func(tree string) (*vnfd.Package, error) {
		pkg, err := packages.Open(ctx, tree)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", tree, err)
		}
		return pkg, nil
	}
	var err error
	if src.Package, err = open(inst.Package); err != nil {
		return src, err
	}
	if inst.Base != "" {
		if src.Base, err = open(inst.Base); err != nil {
			return src, err
		}
	}
	for _, o := range inst.Overlays {
		pkg, err := open(o.Package)
		if err != nil {
			return src, err
		}
		src.Overlays = append(src.Overlays, pkg)
	}
	for vdu, pin := range inst.VDUs {
		pkg, err := open(pin.Package)
		if err != nil {
			return src, fmt.Errorf("VDU %s: %w", vdu, err)
		}
		if src.Pinned == nil {
			src.Pinned = map[string]drivers.Pinned{}
		}
		src.Pinned[vdu] = drivers.Pinned{Package: pkg, Files: pin.Files}
	}
	if n := len(inst.Overlays); n > 0 && inst.Overlays[n-1].Package != inst.Package {
		return src, &drivers.RefusedError{Field: "overlays", Reason: "the last overlay's package must be the one that \"package\" says"}
	}
	src.Clear, src.Secrets, src.Sealed = reveal.params(inst)
	return src, nil
}

// declared is the rule that recognizes names of secrets, with those that the VNFDs declare.
func declared(packages ...*vnfd.Package) desired.SecretNames {
	var names desired.SecretNames
	for _, pkg := range packages {
		if pkg != nil && pkg.VNFD != nil {
			names = names.With(pkg.VNFD.SecretParams...)
		}
	}
	return names
}

// revisions reads what git says of instances, and opens the packages that this names.
type revisions struct {
	repo     desired.Repo
	packages Packages
	// prove refuses revisions that git doesn't prove; nil believes records.
	prove func(ctx context.Context, rev desired.Revision, proposal string) error
	// proposed is the operation whose proposal may be read before it is merged, nil for none.
	proposed *lcm.Operation
}

// files is Repo.Files.
func (r revisions) files(ctx context.Context, rev desired.Revision) (desired.Files, error) {
	files, err := r.repo.Files(ctx, rev)
	if err != nil {
		return nil, err
	}
	return files, r.proven(ctx, rev)
}

// read is Repo.Read, with nil for a directory that doesn't exist.
func (r revisions) read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	if rev.Tree == "" {
		return nil, nil
	}
	inst, err := r.repo.Read(ctx, rev)
	if err != nil {
		return nil, fmt.Errorf("%s/%s at %s: %w", rev.Dir, desired.InstanceFile, rev.Commit, err)
	}
	if err := r.proven(ctx, rev); err != nil {
		return nil, err
	}
	return inst, nil
}

// packageOf opens the instance's pinned package; nil where none is pinned yet.
func (r revisions) packageOf(ctx context.Context, inst *desired.Instance) (*vnfd.Package, error) {
	if inst.Package == "" {
		return nil, nil
	}
	pkg, err := r.packages.Open(ctx, inst.Package)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", inst.Package, err)
	}
	return pkg, nil
}

// resolver finds what an instance should be at its VIM, and the driver of that.
type resolver struct {
	revisions
	reveal     reveal
	vims       *connections
	renderings *renderings
}

// resolve renders the instance at target. Where nothing should exist there,
// what must go is found with the help of other. Its bounds are those of what stands. gone are the names of VIMs to do
// without ([connections.connect]).
func (r resolver) resolve(ctx context.Context, target, other desired.Revision, gone ...string) (want drivers.Rendering, drv drivers.Driver, err error) {
	inst, err := r.read(ctx, target)
	if err != nil {
		return want, nil, err
	}
	from := target
	present := inst != nil && desired.IsInstantiated(inst.State)
	if !desired.MayHaveObjects(inst) {
		gone, err := r.read(ctx, other)
		if err != nil {
			return want, nil, err
		}
		if gone != nil {
			inst, from = gone, other
		}
	}
	if inst == nil {
		return want, nil, &drivers.RefusedError{Reason: "neither the desired revision nor the one before it has a " + desired.InstanceFile}
	}
	p, err := r.whose(inst)
	if err != nil {
		return want, nil, err
	}
	bounds := standing(p)
	want = drivers.Absent(inst.WithGrant()).Bounded(bounds)
	if !desired.MayHaveObjects(inst) {
		return want, nowhere{}, nil // it runs neither before nor after
	}
	if drv, err = r.vims.driver(ctx, inst, gone...); err != nil {
		return want, nil, err
	}
	if !present {
		want.Former = r.stood(ctx, drv, from, inst)
		return want, drv, nil
	}
	src, err := sourceOf(ctx, r.packages, r.reveal, inst)
	if err != nil {
		return want, nil, err
	}
	if want, err = r.renderings.of(drv, target, src); err != nil {
		return want, nil, err
	}
	return want.Bounded(bounds), drv, nil
}
