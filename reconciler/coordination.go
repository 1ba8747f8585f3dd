package reconciler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/plan"
)

// The parameters of coordination scripts that mean something to Jibe, as the request of
// a change of package names them.
const (
	vduParams       = "vdu_params"
	oldVnfcParam    = "old_vnfc_param"
	newVnfcParam    = "new_vnfc_param"
	externalLBParam = "external_lb_param"
)

// contact is how the VNFCs of a VDU are reached.
type contact struct{ cp, username, password string }

// contacts are those of the VDUs that vdu_params names, for the VNF that was and the one
// that comes.
type contacts struct {
	vdus     []string // in the order given, each once
	old, new map[string]contact
}

// normalCoordination is the parameters in the one form in which scripts find them:
// vdu_params is a list, and a connection point stands under cp_name. It may be given as
// a single object and as cp-name, too. The error names the parameter, and never what may
// be a secret.
func normalCoordination(params map[string]any) (map[string]any, error) {
	if params[vduParams] == nil && params[externalLBParam] == nil {
		return params, nil
	}
	out := maps.Clone(params)
	if v := params[vduParams]; v != nil {
		list, ok := v.([]any)
		if _, single := v.(map[string]any); single {
			list, ok = []any{v}, true
		}
		if !ok {
			return nil, fmt.Errorf("%s must be a list of objects, or one object", vduParams)
		}
		list = slices.Clone(list)
		for i := range list {
			at := fmt.Sprintf("%s[%d]", vduParams, i)
			entry, ok := list[i].(map[string]any)
			if id, named := entry["vdu_id"].(string); !ok || !named || id == "" {
				return nil, fmt.Errorf("%s must be an object with vdu_id", at)
			}
			entry = maps.Clone(entry)
			for _, side := range []string{oldVnfcParam, newVnfcParam} {
				if entry[side] == nil {
					continue
				}
				var err error
				if entry[side], err = reached(at+"."+side, entry[side]); err != nil {
					return nil, err
				}
			}
			list[i] = entry
		}
		out[vduParams] = list
	}
	if v := params[externalLBParam]; v != nil {
		var err error
		if out[externalLBParam], err = reached(externalLBParam, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// reached reads how a VNFC or a load balancer is reached.
func reached(where string, v any) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s must be an object", where)
	}
	m = maps.Clone(m)
	if other, twice := m["cp-name"]; twice {
		if was, both := m["cp_name"]; both && was != other {
			return nil, fmt.Errorf("%s.cp-name and %[1]s.cp_name are the same parameter, and say different things", where)
		}
		m["cp_name"] = other
		delete(m, "cp-name")
	}
	for _, key := range []string{"cp_name", "ip_address", "username", "password"} {
		if _, text := m[key].(string); m[key] != nil && !text {
			return nil, fmt.Errorf("%s.%s must be a string", where, key)
		}
	}
	return m, nil
}

// contactsOf reads vdu_params in any of its forms.
func contactsOf(params map[string]any) (contacts, error) {
	c := contacts{old: map[string]contact{}, new: map[string]contact{}}
	params, err := normalCoordination(params)
	if err != nil {
		return c, err
	}
	list, _ := params[vduParams].([]any)
	for _, e := range list {
		entry := e.(map[string]any)
		vdu := entry["vdu_id"].(string)
		if !slices.Contains(c.vdus, vdu) {
			c.vdus = append(c.vdus, vdu)
		}
		for side, to := range map[string]map[string]contact{oldVnfcParam: c.old, newVnfcParam: c.new} {
			if m, ok := entry[side].(map[string]any); ok {
				var x contact
				x.cp, _ = m["cp_name"].(string)
				x.username, _ = m["username"].(string)
				x.password, _ = m["password"].(string)
				to[vdu] = x
			}
		}
	}
	return c, nil
}

// target is the VNFC as the script is told of it.
func (c contact) target(u plan.Unit, seen plan.Observed) (hooks.Target, error) {
	t := hooks.Target{VduID: u.VDU, Unit: told(u, seen), CpName: c.cp, Username: c.username, Password: c.password}
	var ports []plan.Resource
	for _, r := range seen.Resources {
		if r.Kind == plan.LinkPort && r.Unit == u.Key {
			ports = append(ports, r)
		}
	}
	if len(ports) == 0 {
		t.Address = t.Unit.Address // a VIM that knows no ports
		return t, nil
	}
	if c.cp == "" {
		if len(ports) == 1 {
			t.Address = address(ports[0])
		}
		return t, nil
	}
	i := slices.IndexFunc(ports, func(r plan.Resource) bool { return r.Name == c.cp })
	if i < 0 {
		var names []string
		for _, r := range ports {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return t, &drivers.RefusedError{Field: "update.coordinate.params." + vduParams, Reason: fmt.Sprintf(
			"VNFC %s of VDU %s has no connection point %s; it has %s", u.Key, u.VDU, c.cp, strings.Join(names, ", "))}
	}
	if t.Address = address(ports[i]); t.Address == "" {
		return t, fmt.Errorf("connection point %s of VNFC %s has no address yet", c.cp, u.Key)
	}
	return t, nil
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

// told is the unit as programs are told of it.
func told(u plan.Unit, seen plan.Observed) hooks.Unit {
	m := hooks.Unit{ID: u.ID, Name: u.Name, Owner: u.Owner, Generation: u.Generation, VIM: u.VIM,
		Address: u.Metadata["podIP"], Ready: u.Ready, Metadata: u.Metadata}
	if !u.Created.IsZero() {
		m.Created = u.Created.UTC().Format(time.RFC3339)
	}
	fixed := ""
	for _, r := range seen.Resources {
		if r.Kind == plan.LinkPort && r.Unit == u.Key {
			if m.Addresses == nil {
				m.Addresses = map[string][]string{}
			}
			m.Addresses[r.Name] = append(m.Addresses[r.Name], addresses(r)...)
		}
		if m.Address != "" || r.Kind != plan.LinkPort || r.Unit != u.Key {
			continue
		}
		m.Address, fixed = r.Floating, cmp.Or(fixed, address(r))
	}
	m.Address = cmp.Or(m.Address, fixed)
	return m
}

// targets fills in for whom a coordination script runs: one VNFC, or those of the whole
// VNF.
func (p *pass) targets(a *attempt, s sides, hook string, in *hooks.Input) error {
	base, unit := plan.HookUnit(hook)
	if !coordinates(base) {
		return nil
	}
	known, err := contactsOf(in.CoordinationParams)
	if err != nil {
		return &drivers.RefusedError{Field: "update.coordinate.params", Reason: err.Error()}
	}
	units := live(a.seen)
	if unit != "" {
		i := slices.IndexFunc(units, func(u plan.Unit) bool { return u.Key == unit })
		if i < 0 {
			return fmt.Errorf("VNFC %s, which %s is to run for, isn't there now", unit, base)
		}
		side := known.old
		if base == plan.CoordinateNew {
			side = known.new
		}
		t, err := side[units[i].VDU].target(units[i], a.seen)
		in.Target = &t
		return err
	}
	in.Targets = &hooks.Targets{Old: []hooks.Target{}, New: []hooks.Target{}}
	fresh := newcomers(a, s)
	slices.SortFunc(units, func(x, y plan.Unit) int { return cmp.Or(cmp.Compare(x.VDU, y.VDU), cmp.Compare(x.Key, y.Key)) })
	for _, u := range units {
		if len(known.vdus) > 0 && !slices.Contains(known.vdus, u.VDU) {
			continue
		}
		side, to := known.old, &in.Targets.Old
		if fresh(u) {
			side, to = known.new, &in.Targets.New
		}
		t, err := side[u.VDU].target(u, a.seen)
		if err != nil {
			return err
		}
		*to = append(*to, t)
	}
	return nil
}

// newcomers tells the units of the VNF that comes from those of the one that ran: by
// their generations where these differ, else by whether they were there before.
func newcomers(a *attempt, s sides) func(plan.Unit) bool {
	if s.before.Instance != nil && s.after.Instance != nil && s.before.Instance.Generation != s.after.Instance.Generation {
		return func(u plan.Unit) bool { return (u.Generation == a.want.Generation) != a.journal.Rollback }
	}
	before := make(map[string]bool, len(a.op.UnitsBefore))
	for _, u := range a.op.UnitsBefore {
		before[u.ID] = true
	}
	return func(u plan.Unit) bool { return !before[u.ID] }
}

// coordinates says whether a hook of that name is a coordination script.
func coordinates(base string) bool {
	return base == plan.CoordinateNew || base == plan.CoordinateOld || base == plan.CoordinateRollback
}
