package reconciler

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
)

// place is a VIM as an instance names it: a file under vims/, or a connection of its own.
type place struct {
	name string
	file *desired.VIM
	conn *desired.VIMConnection
}

// places are the VIMs at which the instance runs. The first is its main one, which runs
// all VDUs that are placed nowhere else.
func places(settings *desired.Settings, inst *desired.Instance) ([]place, error) {
	first, err := mainPlace(settings, inst)
	if err != nil {
		return nil, err
	}
	list := []place{first}
	for _, vdu := range slices.Sorted(maps.Keys(inst.Placement)) {
		name := inst.Placement[vdu]
		if slices.ContainsFunc(list, func(p place) bool { return p.name == name }) {
			continue
		}
		p := place{name: name}
		if conn, ok := inst.VIMConnections[name]; ok {
			p.conn = &conn
		} else if p.file, ok = settings.VIMs[name]; !ok {
			return nil, &drivers.RefusedError{Field: "placement", Reason: fmt.Sprintf(
				"VDU %s is placed at VIM %q, which is unknown: there is no vims/%s.yaml, and vimConnectionInfo has no such key; known are %v",
				vdu, name, name, slices.Sorted(maps.Keys(settings.VIMs)))}
		}
		list = append(list, p)
	}
	return list, nil
}

// mainPlace is the VIM that the instance names, else its own connection (the first by
// key at which no VDU is placed), else the default.
func mainPlace(settings *desired.Settings, inst *desired.Instance) (place, error) {
	if inst.VIM == "" && len(inst.VIMConnections) > 0 {
		keys := slices.Sorted(maps.Keys(inst.VIMConnections))
		placed := slices.Collect(maps.Values(inst.Placement))
		i := max(slices.IndexFunc(keys, func(k string) bool { return !slices.Contains(placed, k) }), 0)
		conn := inst.VIMConnections[keys[i]]
		return place{name: keys[i], conn: &conn}, nil
	}
	named, err := NamedVIM(settings, inst)
	if err != nil {
		return place{}, err
	}
	return place{name: named.Name, file: named}, nil
}

// NamedVIM is the VIM file that the instance uses.
func NamedVIM(settings *desired.Settings, inst *desired.Instance) (*desired.VIM, error) {
	if inst.VIM != "" {
		if vim, ok := settings.VIMs[inst.VIM]; ok {
			return vim, nil
		}
		return nil, &drivers.RefusedError{Field: "vim", Reason: fmt.Sprintf(
			"VIM %q is unknown: there is no vims/%s.yaml; known are %v", inst.VIM, inst.VIM, slices.Sorted(maps.Keys(settings.VIMs)))}
	}
	for _, name := range slices.Sorted(maps.Keys(settings.VIMs)) {
		if settings.VIMs[name].Default {
			return settings.VIMs[name], nil
		}
	}
	return nil, &drivers.RefusedError{Field: "vim", Reason: "the instance names no VIM, and no file under vims/ says default: true"}
}

// vimType is the type of the VIM after parsing.
func (p place) vimType() (string, error) {
	if p.conn == nil {
		return p.file.Type, nil
	}
	t, ok := desired.NormalVIMType(p.conn.VimType)
	if !ok {
		return "", &drivers.RefusedError{Field: "vimConnectionInfo", Reason: fmt.Sprintf("vimType %q is unknown", p.conn.VimType)}
	}
	return t, nil
}

// told is the VIM as programs are told of it.
func (p place) told() hooks.VIM {
	m := hooks.VIM{Name: p.name}
	if t, err := p.vimType(); err == nil {
		m.Type = t
	}
	if p.conn != nil {
		m.Endpoint = p.conn.InterfaceInfo["endpoint"]
	} else {
		m.Endpoint = p.file.Endpoint
	}
	return m
}

// pinVIM fills in the VIM of an instance that names none: the one at which before runs,
// else the default. A connection of the instance's own is in its file already.
func pinVIM(settings *desired.Settings, before, next *desired.Instance) {
	if next.VIM != "" {
		return
	}
	if before != nil && before.State == desired.Instantiated && before.VIM != "" {
		if len(next.VIMConnections) == 0 {
			next.VIM = before.VIM
		}
		return
	}
	if at, err := mainPlace(settings, next); err == nil && at.conn == nil {
		next.VIM = at.name
	} // which Check refuses, and names
}

// staysPlaced refuses to take what runs to another VIM: nothing would lead from one to the
// other, and what is left behind would belong to nobody. Both are as [Checker.Complete]
// leaves them.
func staysPlaced(settings *desired.Settings, before, after *desired.Instance) error {
	was, err1 := mainPlace(settings, before)
	is, err2 := mainPlace(settings, after)
	if err := errors.Join(err1, err2); err != nil && (before.VIM != after.VIM || len(before.VIMConnections) > 0 || len(after.VIMConnections) > 0) {
		return err // who can't tell where one of them is, can't tell that they are one place
	} else if err == nil && !was.same(is) {
		return &drivers.RefusedError{Object: is.field(), Reason: fmt.Sprintf(
			"the VNF runs at %s, and can't be taken to %s: nothing would lead from one to the other; terminate it first (state: notInstantiated), and instantiate it there when that is done", was, is)}
	}
	for _, moved := range []map[string]string{before.Placement, after.Placement} {
		for _, vdu := range slices.Sorted(maps.Keys(moved)) {
			if before.Placement[vdu] != after.Placement[vdu] {
				return &drivers.RefusedError{Field: "placement", Reason: fmt.Sprintf(
					"VDU %s runs, and can't be taken to another VIM; set state: notInstantiated first", vdu)}
			}
		}
	}
	return nil
}

// field is the key of vnf.yaml that says so.
func (p place) field() string {
	if p.conn != nil {
		return "vimConnectionInfo"
	}
	return "vim"
}

// String tells people of it.
func (p place) String() string {
	if p.conn != nil {
		return fmt.Sprintf("its own connection %s (%s)", p.name, p.conn.InterfaceInfo["endpoint"])
	}
	return "VIM " + p.name
}

// same says whether the two are one VIM, as far as git tells.
func (p place) same(q place) bool {
	if p.conn == nil && q.conn == nil {
		return p.name == q.name
	}
	a, b := p.told(), q.told()
	x, y := p.scope(), q.scope()
	return a.Type == b.Type && a.Endpoint != "" && desired.SameEndpoint(a.Endpoint, b.Endpoint) &&
		!slices.ContainsFunc([]int{0, 1}, func(i int) bool { return x[i] != "" && y[i] != "" && x[i] != y[i] })
}

// scope is OpenStack's region and project, "" where they aren't told.
func (p place) scope() [2]string {
	if p.conn != nil {
		return [2]string{p.conn.AccessInfo["region"], p.conn.AccessInfo["project"]}
	}
	return [2]string{p.file.Region, p.file.Project}
}
