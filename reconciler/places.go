package reconciler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/management"
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
			return nil, &drivers.RefusedError{Object: "placement", Reason: fmt.Sprintf(
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
		return nil, &drivers.RefusedError{Object: "vim", Reason: fmt.Sprintf(
			"VIM %q is unknown: there is no vims/%s.yaml; known are %v", inst.VIM, inst.VIM, slices.Sorted(maps.Keys(settings.VIMs)))}
	}
	for _, name := range slices.Sorted(maps.Keys(settings.VIMs)) {
		if settings.VIMs[name].Default {
			return settings.VIMs[name], nil
		}
	}
	return nil, &drivers.RefusedError{Object: "vim", Reason: "the instance names no VIM, and no file under vims/ says default: true"}
}

// vimType is the type of the VIM after parsing.
func (p place) vimType() (string, error) {
	if p.conn == nil {
		return p.file.Type, nil
	}
	t, ok := desired.NormalVIMType(p.conn.VimType)
	if !ok {
		return "", &drivers.RefusedError{Object: "vimConnectionInfo", Reason: fmt.Sprintf("vimType %q is unknown", p.conn.VimType)}
	}
	return t, nil
}

// told is the VIM as programs are told of it.
func (p place) told() management.VIM {
	m := management.VIM{Name: p.name}
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

// staysPlaced refuses to take VDUs that run to another VIM: nothing would lead from one
// to the other, and what is left behind would belong to nobody.
func staysPlaced(before, after *desired.Instance) error {
	for _, moved := range []map[string]string{before.Placement, after.Placement} {
		for _, vdu := range slices.Sorted(maps.Keys(moved)) {
			if before.Placement[vdu] != after.Placement[vdu] {
				return &drivers.RefusedError{Object: "placement", Reason: fmt.Sprintf(
					"VDU %s runs, and can't be taken to another VIM; set state: notInstantiated first", vdu)}
			}
		}
	}
	return nil
}
