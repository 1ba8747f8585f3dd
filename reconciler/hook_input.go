package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
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
func (p *pass) input(ctx context.Context, a *attempt, s sides, name, class string) (hooks.Input, error) {
	inst := a.want.Source.Instance
	in := hooks.Input{
		Version: hooks.Version, Class: class, Rollback: a.journal.Rollback,
		Operation: hooks.Operation{ID: a.op.ID, Type: string(a.op.Type), Attempt: a.op.Attempt, Params: a.op.Params},
		Instance:  instanceOf(inst, a.programs.Package),
		Before:    version(s.before.Package), After: version(s.after.Package),
		VDUs: vdus(a, a.op), Objects: []hooks.Object{}, Services: []hooks.Object{},
		VIM: hooks.VIM{Name: inst.VIM},
	}
	in.Hook, _ = plan.HookUnit(name)
	in.Instance.Generation = a.want.Generation
	in.Instance.Metadata, in.Instance.Extensions = a.op.Modified.Apply(in.Instance.Metadata, in.Instance.Extensions)
	if s.before.Instance != nil {
		was := instanceOf(s.before.Instance, s.before.Package)
		in.InstanceBefore = &was
	}
	in.Added, in.Removed = moved(a)
	in.Grant = hooks.Grant{Instance: inst.ID, Operation: a.op.ID, Add: granted(in.Added), Remove: granted(in.Removed)}
	if a.op.HandOver != "" {
		clear, err := p.reveal(map[string]any{"handOver": a.op.HandOver})
		if err != nil {
			return in, err
		}
		in.HandOver = json.RawMessage(clear["handOver"].(string))
	}
	for _, x := range a.seen.Objects {
		in.Objects = append(in.Objects, hooks.Object{Key: x.Key, Generation: x.Generation})
	}
	for _, x := range a.want.Objects {
		if x.Directs {
			in.Services = append(in.Services, hooks.Object{Key: x.Key})
		}
	}
	if _, list, err := placesIn(ctx, p.Repo, inst); err == nil {
		in.VIM = vimForHooks(list[0])
	}
	var err error
	if in.Params, err = p.reveal(inst.Params); err != nil {
		return in, err
	}
	asked, err := normalCoordination(s.policy.Coordinate.Params)
	if err != nil {
		return in, &drivers.RefusedError{Field: "update.coordinate.params", Reason: err.Error()}
	}
	if in.CoordinationParams, err = p.reveal(asked); err != nil {
		return in, err
	}
	return in, p.targets(a, s, name, &in)
}

// instanceOf is the instance as programs are told of it.
func instanceOf(inst *desired.Instance, pkg *vnfd.Package) hooks.Instance {
	i := hooks.Instance{ID: inst.ID, Name: inst.Name, VnfdID: inst.VnfdID, State: inst.State, Flavour: inst.Flavour,
		Generation: inst.Generation, Levels: effectiveLevels(inst, pkg), Metadata: inst.Metadata, Extensions: inst.Extensions,
		ConfigurableProperties: inst.ConfigurableProperties}
	i.Namespace, _ = inst.Params["namespace"].(string)
	if len(inst.ExtVirtualLinks) > 0 {
		// They came as JSON or YAML, and are free of what JSON can't hold.
		i.ExtVirtualLinks, _ = json.Marshal(inst.ExtVirtualLinks)
	}
	return i
}

// moved are the units that the operation has added so far, and those that it takes away:
// those that went, and those of which the plan says, or said when the first program was
// begun, that they will.
func moved(a *attempt) (added, removed []hooks.Target) {
	lives := map[string]bool{}
	target := func(u plan.Unit, seen plan.Observed) hooks.Target {
		return hooks.Target{VduID: u.VDU, Unit: told(u, seen)}
	}
	was := map[string]bool{}
	for _, u := range a.op.UnitsBefore {
		was[u.ID] = true
	}
	goes := a.journal.Leaving
	if !a.journal.Rollback && len(goes) == 0 {
		goes = plan.Leaving(a.want.Desired, a.seen, a.journal)
	}
	for _, u := range live(a.seen) {
		lives[u.ID] = true
		switch {
		case !was[u.ID]:
			added = append(added, target(u, a.seen))
		case slices.Contains(goes, u.ID):
			removed = append(removed, target(u, a.seen))
		}
	}
	for _, u := range a.op.UnitsBefore {
		if !lives[u.ID] {
			u.Ready = false
			removed = append(removed, target(u, plan.Observed{Resources: a.op.ResourcesBefore}))
		}
	}
	return added, removed
}

func granted(targets []hooks.Target) []hooks.GrantedUnit {
	out := make([]hooks.GrantedUnit, 0, len(targets))
	for _, t := range targets {
		id, _, _ := strings.Cut(t.Unit.ID, "@")
		out = append(out, hooks.GrantedUnit{ID: id, Type: "COMPUTE", VduID: t.VduID})
	}
	return out
}

func (p *pass) reveal(params map[string]any) (map[string]any, error) {
	if p.Reveal == nil || len(params) == 0 {
		return params, nil
	}
	clear, err := p.Reveal(params)
	if err != nil {
		return nil, fmt.Errorf("secrets that programs are given: %w", err)
	}
	return clear, nil
}

func version(pkg *vnfd.Package) *hooks.Package {
	if pkg == nil {
		return nil
	}
	return &hooks.Package{VnfdID: pkg.VNFD.ID, VnfdVersion: pkg.VNFD.Version, Provider: pkg.VNFD.Provider,
		ProductName: pkg.VNFD.ProductName, SoftwareVersion: pkg.VNFD.SoftwareVersion, Tree: pkg.Tree}
}

// vdus are the units of both sides by VDU. Old are those of what ran before the
// operation, whether they still exist or not; New are the others that live.
func vdus(a *attempt, op *lcm.Operation) []hooks.VDU {
	old := make(map[string]bool, len(op.UnitsBefore))
	by := map[string]*hooks.VDU{}
	var ids []string
	put := func(u plan.Unit, was bool) {
		v := by[u.VDU]
		if v == nil {
			v = &hooks.VDU{ID: u.VDU, Old: []hooks.Unit{}, New: []hooks.Unit{}}
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
	out := make([]hooks.VDU, 0, len(ids))
	for _, id := range ids {
		out = append(out, *by[id])
	}
	return out
}
