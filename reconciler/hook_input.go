package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/management"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

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
		Version: management.Version, Class: class, Rollback: a.journal.Rollback,
		Operation: management.Operation{ID: a.op.ID, Type: string(a.op.Type), Attempt: a.op.Attempt, Params: a.op.Params},
		Instance: management.Instance{ID: inst.ID, Name: inst.Name, Generation: a.want.Generation,
			Metadata: inst.Metadata, Extensions: inst.Extensions},
		Before: version(s.before.Package), After: version(s.after.Package),
		VDUs: vdus(a, a.op), Objects: []management.Object{}, Services: []management.Object{},
		VIM: management.VIM{Name: inst.VIM},
	}
	in.Hook, _ = plan.HookUnit(name)
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
		if at, err := mainPlace(settings, inst); err == nil {
			in.VIM = at.told()
		}
	}
	var err error
	if in.Params, err = p.reveal(inst.Params); err != nil {
		return in, err
	}
	asked, err := normalCoordination(s.policy.Coordinate.Params)
	if err != nil {
		return in, &drivers.RefusedError{Object: "update.coordinate.params", Reason: err.Error()}
	}
	if in.CoordinationParams, err = p.reveal(asked); err != nil {
		return in, err
	}
	return in, p.targets(a, s, name, &in)
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
		m := told(u, a.seen)
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
