package hooks

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// input is what the hook is given. coordination are the parameters of coordination
// scripts, in their normal form.
func (f *Facts) input(name, class string, coordination map[string]any) (Input, error) {
	inst, op := f.Subject.Instance, f.Operation
	in := Input{
		Version: Version, Class: class, Rollback: f.Journal.Rollback,
		Operation: Operation{ID: op.ID, Type: string(op.Type), Attempt: op.Attempt, Params: op.Params},
		Instance:  f.Subject.instance(),
		Before:    packageOf(f.Before.Package), After: packageOf(f.After.Package),
		VDUs: f.vdus(), Objects: []Object{}, Services: []Object{},
		VIM: f.VIM,
	}
	in.Hook, _ = plan.HookUnit(name)
	in.Instance.Generation = f.Desired.Generation
	in.Instance.Metadata, in.Instance.Extensions = op.Modified.Apply(in.Instance.Metadata, in.Instance.Extensions)
	if f.Before.Instance != nil {
		was := f.Before.instance()
		in.InstanceBefore = &was
	}
	in.Added, in.Removed, in.Pending = f.moved()
	in.Grant = f.grant(in)
	if op.HandOver != "" {
		clear, err := f.reveal(map[string]any{"handOver": op.HandOver})
		if err != nil {
			return in, err
		}
		in.HandOver = json.RawMessage(clear["handOver"].(string))
	}
	var err error
	if in.Coordinations, err = f.coordinations(); err != nil {
		return in, err
	}
	for _, x := range f.Observed.Objects {
		in.Objects = append(in.Objects, Object{Key: x.Key, Generation: x.Generation})
	}
	for _, x := range f.Desired.Objects {
		if x.Directs {
			in.Services = append(in.Services, Object{Key: x.Key})
		}
	}
	if in.Params, err = f.reveal(inst.Params); err != nil {
		return in, err
	}
	if in.CoordinationParams, err = f.reveal(coordination); err != nil {
		return in, err
	}
	return in, f.addTargets(name, &in)
}

// instance is the side's instance as hooks are given it.
func (s Side) instance() Instance {
	inst := s.Instance
	i := Instance{ID: inst.ID, Name: inst.Name, VnfdID: inst.VnfdID, State: inst.State, Flavour: inst.Flavour,
		Generation: inst.Generation, Levels: s.Levels, Metadata: inst.Metadata, Extensions: inst.Extensions,
		ConfigurableProperties: inst.ConfigurableProperties}
	i.Namespace, _ = inst.Params["namespace"].(string)
	if len(inst.ExtVirtualLinks) > 0 {
		// They came as JSON or YAML, and are free of what JSON can't hold.
		i.ExtVirtualLinks, _ = json.Marshal(inst.ExtVirtualLinks)
	}
	return i
}

func packageOf(pkg *vnfd.Package) *Package {
	if pkg == nil {
		return nil
	}
	return &Package{VnfdID: pkg.VNFD.ID, VnfdVersion: pkg.VNFD.Version, Provider: pkg.VNFD.Provider,
		ProductName: pkg.VNFD.ProductName, SoftwareVersion: pkg.VNFD.SoftwareVersion, Tree: pkg.Tree}
}

// live are the units that exist and aren't being deleted.
func (f *Facts) live() []plan.Unit {
	return slices.DeleteFunc(slices.Clone(f.Observed.Units), func(u plan.Unit) bool { return u.Deleting })
}

// vdus returns the units of both sides by VDU: Old are those that ran before the operation,
// whether they still exist or not, New are the others that live.
func (f *Facts) vdus() []VDU {
	by := map[string]*VDU{}
	vdu := func(u plan.Unit) *VDU {
		v := by[u.VDU]
		if v == nil {
			v = &VDU{ID: u.VDU, Old: []Unit{}, New: []Unit{}}
			by[u.VDU] = v
		}
		return v
	}
	now := make(map[string]plan.Unit, len(f.Observed.Units))
	for _, u := range f.live() {
		now[u.ID] = u
	}
	before := make(map[string]bool, len(f.Operation.UnitsBefore))
	for _, u := range f.Operation.UnitsBefore {
		before[u.ID] = true
		if seen, lives := now[u.ID]; lives {
			u = seen
		} else {
			u.Ready = false
		}
		v := vdu(u)
		v.Old = append(v.Old, unitOf(u, f.Observed.Resources))
	}
	for _, u := range f.live() {
		if !before[u.ID] {
			v := vdu(u)
			v.New = append(v.New, unitOf(u, f.Observed.Resources))
		}
	}
	out := make([]VDU, 0, len(by))
	for _, id := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[id])
	}
	return out
}

// unitOf is the unit as hooks are given it; resources are those that have its ports.
func unitOf(u plan.Unit, resources []plan.Resource) Unit {
	m := Unit{ID: u.ID, Name: u.Name, Owner: u.Owner, Generation: u.Generation, VIM: u.VIM,
		Address: u.Metadata["podIP"], Ready: u.Ready, Metadata: u.Metadata}
	if !u.Created.IsZero() {
		m.Created = u.Created.UTC().Format(time.RFC3339)
	}
	fixed := ""
	for _, port := range portsOf(u, resources) {
		if m.Addresses == nil {
			m.Addresses = map[string][]string{}
		}
		m.Addresses[port.Name] = append(m.Addresses[port.Name], addresses(port)...)
		if m.Address == "" {
			m.Address, fixed = port.Floating, cmp.Or(fixed, address(port))
		}
	}
	m.Address = cmp.Or(m.Address, fixed)
	return m
}

// portsOf are the resources that are ports of the unit.
func portsOf(u plan.Unit, resources []plan.Resource) []plan.Resource {
	var ports []plan.Resource
	for _, r := range resources {
		if r.Kind == plan.LinkPort && r.Unit == u.Key {
			ports = append(ports, r)
		}
	}
	return ports
}

// address is where the port is reached from outside, as far as it can be.
func address(port plan.Resource) string {
	if port.Floating != "" || len(port.Addresses) == 0 {
		return port.Floating
	}
	return port.Addresses[0].IP
}

// addresses are all of the port's, the floating one first.
func addresses(port plan.Resource) []string {
	var out []string
	if port.Floating != "" {
		out = append(out, port.Floating)
	}
	for _, a := range port.Addresses {
		out = append(out, a.IP)
	}
	return out
}
