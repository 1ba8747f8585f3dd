package desired

import (
	"fmt"
	"maps"
	"slices"
)

// Place is a VIM as an instance names it: a file under vims/, or a connection of its own.
// One of File and Connection is set.
type Place struct {
	// Name is that of the file, or the key of the connection.
	Name       string
	File       *VIM
	Connection *VIMConnection
}

// PlaceError is returned for an instance that names a VIM which isn't there, or whose type
// nobody knows. Field is the key of vnf.yaml that is at fault.
type PlaceError struct{ Field, Reason string }

func (e *PlaceError) Error() string { return e.Reason }

// Places are the VIMs at which the instance runs, each once. The first is its main one,
// which runs all VDUs that are placed nowhere else. The error is a [*PlaceError].
func (s *Settings) Places(in *Instance) ([]Place, error) {
	in = in.WithGrant()
	first, err := s.MainPlace(in)
	if err != nil {
		return nil, err
	}
	list := []Place{first}
	for _, vdu := range slices.Sorted(maps.Keys(in.Placement)) {
		if slices.ContainsFunc(list, func(p Place) bool { return p.Name == in.Placement[vdu] }) {
			continue
		}
		p, err := s.PlaceOf(in, vdu)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// PlaceOf is the VIM at which the instance's VDU runs; "" is any that is placed nowhere.
// The error is a [*PlaceError].
func (s *Settings) PlaceOf(in *Instance, vdu string) (Place, error) {
	in = in.WithGrant()
	name, placed := in.Placement[vdu]
	if !placed {
		return s.MainPlace(in)
	}
	if conn, ok := in.VIMConnections[name]; ok {
		return Place{Name: name, Connection: &conn}, nil
	}
	if file, ok := s.VIMs[name]; ok {
		return Place{Name: name, File: file}, nil
	}
	return Place{}, &PlaceError{Field: "placement", Reason: fmt.Sprintf(
		"VDU %s is placed at VIM %q, which is unknown: there is no vims/%s.yaml, and vimConnectionInfo has no such key; known are %v",
		vdu, name, name, slices.Sorted(maps.Keys(s.VIMs)))}
}

// MainPlace is the VIM that the instance names, else its own connection
// ([Instance.MainConnection]), else the default. The error is a [*PlaceError].
func (s *Settings) MainPlace(in *Instance) (Place, error) {
	in = in.WithGrant()
	if in.VIM != "" {
		file, ok := s.VIMs[in.VIM]
		if !ok {
			return Place{}, &PlaceError{Field: "vim", Reason: fmt.Sprintf(
				"VIM %q is unknown: there is no vims/%s.yaml; known are %v", in.VIM, in.VIM, slices.Sorted(maps.Keys(s.VIMs)))}
		}
		return Place{Name: in.VIM, File: file}, nil
	}
	if len(in.VIMConnections) > 0 {
		key := in.MainConnection()
		conn := in.VIMConnections[key]
		return Place{Name: key, Connection: &conn}, nil
	}
	if name := s.DefaultVIM(); name != "" {
		return Place{Name: name, File: s.VIMs[name]}, nil
	}
	return Place{}, &PlaceError{Field: "vim", Reason: "the instance names no VIM, and no file under vims/ says default: true (add vim: NAME to its file, or default: true to one of a VIM)"}
}

// MainConnection is the key of the connection at which an instance that names no VIM runs
// what is placed nowhere: the first by key at which no VDU is placed, else the first; ""
// where it has no connections.
func (in *Instance) MainConnection() string {
	return MainConnection(slices.Collect(maps.Keys(in.VIMConnections)), in.Placement)
}

// MainConnection is [Instance.MainConnection] for these keys and placement of VDUs.
func MainConnection(keys []string, placement map[string]string) string {
	if len(keys) == 0 {
		return ""
	}
	keys = slices.Sorted(slices.Values(keys))
	placed := slices.Collect(maps.Values(placement))
	return keys[max(slices.IndexFunc(keys, func(k string) bool { return !slices.Contains(placed, k) }), 0)]
}

// Type is the type of the VIM in its registered form. The error is a [*PlaceError].
func (p Place) Type() (string, error) {
	if p.Connection == nil {
		return p.File.Type, nil
	}
	t, ok := NormalVIMType(p.Connection.VimType)
	if !ok {
		return "", &PlaceError{Field: p.Field(), Reason: fmt.Sprintf("vimType %q is unknown", p.Connection.VimType)}
	}
	return t, nil
}

// Endpoint is the URL of the VIM's API, "" where a kubeconfig holds it.
func (p Place) Endpoint() string {
	if p.Connection != nil {
		return p.Connection.InterfaceInfo["endpoint"]
	}
	return p.File.Endpoint
}

// Field is the key of vnf.yaml that names the VIM.
func (p Place) Field() string {
	if p.Connection != nil {
		return "vimConnectionInfo"
	}
	return "vim"
}

// String names the VIM to people.
func (p Place) String() string {
	if p.Connection != nil {
		return fmt.Sprintf("its own connection %s (%s)", p.Name, p.Endpoint())
	}
	return "VIM " + p.Name
}

// Same says whether the two are one VIM, as far as git tells: two files are by their name;
// else the type and the endpoint are the same, and OpenStack's region and project are where
// both say them.
func (p Place) Same(q Place) bool {
	if p.Connection == nil && q.Connection == nil {
		return p.Name == q.Name
	}
	t, _ := p.Type() // "" where it is unknown
	u, _ := q.Type()
	return t == u && p.Endpoint() != "" && SameEndpoint(p.Endpoint(), q.Endpoint()) &&
		agree(p.region(), q.region()) && agree(p.project(), q.project())
}

// agree says whether two settings are the same, or one of them isn't known.
func agree(a, b string) bool { return a == "" || b == "" || a == b }

// region is OpenStack's, "" where it isn't known.
func (p Place) region() string {
	if p.Connection != nil {
		return p.Connection.AccessInfo["region"]
	}
	return p.File.Region
}

// project is OpenStack's, "" where it isn't known.
func (p Place) project() string {
	if p.Connection != nil {
		return p.Connection.AccessInfo["project"]
	}
	return p.File.Project
}
