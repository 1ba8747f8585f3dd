package hooks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/plan"
)

// The parameters of coordination scripts that mean something to Jibe, as the request of
// a change of package names them.
const (
	// VDUParams names the VDUs whose VNFCs the scripts speak to, and how they are reached.
	VDUParams       = "vdu_params"
	oldVnfcParam    = "old_vnfc_param"
	newVnfcParam    = "new_vnfc_param"
	externalLBParam = "external_lb_param"
)

// coordinationField is the key of vnf.yaml that has them.
const coordinationField = "update.coordinate.params"

// contact is how the VNFCs of a VDU are reached.
type contact struct{ cp, username, password string }

// Contacts say how the VNFCs are reached that coordination scripts speak to, those of the
// VNF that was and those of the one that comes.
type Contacts struct {
	// VDUs are those that vdu_params names, each once, in its order.
	VDUs []string

	old, new map[string]contact // by VDU
}

// normalizeCoordination returns the parameters in the one form in which scripts find them:
// vdu_params is a list, and a connection point stands under cp_name. Requests may also give
// a single object, and cp-name. The error is an [*InvalidError] that names the parameter,
// and never a value, which may be a secret.
func normalizeCoordination(params map[string]any) (map[string]any, error) {
	if params[VDUParams] == nil && params[externalLBParam] == nil {
		return params, nil
	}
	invalid := func(format string, args ...any) (map[string]any, error) {
		return nil, &InvalidError{Field: coordinationField, Reason: fmt.Sprintf(format, args...)}
	}
	out := maps.Clone(params)
	if v := params[VDUParams]; v != nil {
		list, ok := v.([]any)
		if _, single := v.(map[string]any); single {
			list, ok = []any{v}, true
		}
		if !ok {
			return invalid("%s must be a list of objects, or one object", VDUParams)
		}
		list = slices.Clone(list)
		for i := range list {
			at := fmt.Sprintf("%s[%d]", VDUParams, i)
			entry, ok := list[i].(map[string]any)
			if id, named := entry["vdu_id"].(string); !ok || !named || id == "" {
				return invalid("%s must be an object with vdu_id", at)
			}
			entry = maps.Clone(entry)
			for _, side := range []string{oldVnfcParam, newVnfcParam} {
				if entry[side] == nil {
					continue
				}
				var err error
				if entry[side], err = normalizeContact(at+"."+side, entry[side]); err != nil {
					return invalid("%v", err)
				}
			}
			list[i] = entry
		}
		out[VDUParams] = list
	}
	if v := params[externalLBParam]; v != nil {
		var err error
		if out[externalLBParam], err = normalizeContact(externalLBParam, v); err != nil {
			return invalid("%v", err)
		}
	}
	return out, nil
}

// normalizeContact checks what says how a VNFC or a load balancer is reached, and has the
// connection point stand under cp_name.
func normalizeContact(where string, v any) (map[string]any, error) {
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

// ContactsOf reads the parameters of coordination scripts in any of their forms. The error is
// an [*InvalidError].
func ContactsOf(params map[string]any) (Contacts, error) {
	c := Contacts{old: map[string]contact{}, new: map[string]contact{}}
	params, err := normalizeCoordination(params)
	if err != nil {
		return c, err
	}
	list, _ := params[VDUParams].([]any)
	for _, e := range list {
		entry := e.(map[string]any)
		vdu := entry["vdu_id"].(string)
		if !slices.Contains(c.VDUs, vdu) {
			c.VDUs = append(c.VDUs, vdu)
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

// target is the VNFC as a script is given it, with the address of the connection point that is
// named. A template may call its port otherwise than the VNFD calls the connection point: of a
// VNFC with one port any name is that port's.
func (c contact) target(u plan.Unit, resources []plan.Resource) (Target, error) {
	t := Target{VduID: u.VDU, Unit: unitOf(u, resources), CpName: c.cp, Username: c.username, Password: c.password}
	ports := portsOf(u, resources)
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
	if len(ports) == 1 {
		i = 0
	}
	if i < 0 {
		var names []string
		for _, r := range ports {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return t, &InvalidError{Field: coordinationField + "." + VDUParams, Reason: fmt.Sprintf(
			"VNFC %s of VDU %s has no connection point %s; it has %s: name one of them", u.Key, u.VDU, c.cp, strings.Join(names, ", "))}
	}
	if t.Address = address(ports[i]); t.Address == "" {
		return t, fmt.Errorf("connection point %s of VNFC %s has no address yet", c.cp, u.Key)
	}
	return t, nil
}

// addTargets fills in for whom a coordination script runs: one VNFC, or those of the whole
// VNF.
func (f *Facts) addTargets(hook string, in *Input) error {
	base, unit := plan.HookUnit(hook)
	if !Coordinates(base) {
		return nil
	}
	known, err := ContactsOf(in.CoordinationParams)
	if err != nil {
		return err
	}
	units := f.live()
	if unit != "" {
		i := slices.IndexFunc(units, func(u plan.Unit) bool { return u.Key == unit })
		if i < 0 {
			return fmt.Errorf("VNFC %s, which %s is to run for, isn't there now", unit, base)
		}
		side := known.old
		if base == plan.CoordinateNew {
			side = known.new
		}
		t, err := side[units[i].VDU].target(units[i], f.Observed.Resources)
		in.Target = &t
		return err
	}
	in.Targets = &Targets{Old: []Target{}, New: []Target{}}
	fresh := f.newcomer()
	slices.SortFunc(units, func(x, y plan.Unit) int { return cmp.Or(cmp.Compare(x.VDU, y.VDU), cmp.Compare(x.Key, y.Key)) })
	for _, u := range units {
		if len(known.VDUs) > 0 && !slices.Contains(known.VDUs, u.VDU) {
			continue
		}
		side, to := known.old, &in.Targets.Old
		if fresh(u) {
			side, to = known.new, &in.Targets.New
		}
		t, err := side[u.VDU].target(u, f.Observed.Resources)
		if err != nil {
			return err
		}
		*to = append(*to, t)
	}
	return nil
}

// newcomer returns what says whether a unit is of the VNF that comes, and not of the one
// that ran: their generations tell where they differ, else whether the unit was there
// before.
func (f *Facts) newcomer() func(plan.Unit) bool {
	if f.Before.Instance != nil && f.After.Instance != nil && f.Before.Instance.Generation != f.After.Instance.Generation {
		return func(u plan.Unit) bool { return (u.Generation == f.Desired.Generation) != f.Journal.Rollback }
	}
	before := make(map[string]bool, len(f.Operation.UnitsBefore))
	for _, u := range f.Operation.UnitsBefore {
		before[u.ID] = true
	}
	return func(u plan.Unit) bool { return !before[u.ID] }
}
