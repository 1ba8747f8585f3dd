package hot

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// place is where a VDU stands in the top template.
type place struct {
	vdu      string
	shape    Shape
	resource string
	server   string
	own      []string
}

// Index is the name of one member's resource.
func Index(name string, index int) string { return name + "-" + strconv.Itoa(index) }

// Split takes "<name>-<index>" apart; ok is false for a name without an index.
func Split(name string) (base string, index int, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[i+1:])
	if err != nil || n < 0 || strconv.Itoa(n) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], n, true
}

// several is how many servers say that there are too many of them: none more is looked for.
const several = 2

// servers are the names of the servers that one such resource makes, at most [several] of them:
// its own, or those in the nested file that is its type. seen are those in each file, as a file
// may be used any number of times.
func (f *Folder) servers(t *template, name string, seen map[string][]string) ([]string, error) {
	r := resourceOf(t.resources(), name)
	if typeOf(r) == typeServer {
		return []string{name}, nil
	}
	var all []string
	for i, kind := range typesIn(r) {
		var inner []string
		if kind == typeServer && i > 0 {
			inner = []string{name}
		}
		if target := t.nested[kind]; target != "" {
			found, err := f.serversIn(target, seen)
			if err != nil {
				return nil, err
			}
			inner = append(slices.Clip(inner), found...)
		}
		if len(inner) > 0 && i > 0 && (t != f.top || typeOf(r) != typeGroup) {
			return nil, t.fail([]string{"resources", name}, "resource %s of type %s makes servers by number: only %s in the top template may, as Heat would choose which one goes", name, typeOf(r), typeGroup)
		}
		all = append(all, inner...)
	}
	return all[:min(len(all), several)], nil
}

// serversIn are the names of the servers in a nested file, at most [several] of them.
func (f *Folder) serversIn(file string, seen map[string][]string) ([]string, error) {
	if found, known := seen[file]; known {
		return found, nil
	}

	var all []string
	t := f.byFile[file]
	for _, name := range sorted(t.resources()) {
		found, err := f.servers(t, name, seen)
		if err != nil {
			return nil, err
		}
		if all = append(all, found...); len(all) >= several {
			all = all[:several]
			break
		}
	}
	seen[file] = all

	return all, nil
}

// places finds the VDUs in the top template.
func (f *Folder) places(in *Input) ([]place, error) {
	var found []place
	by, seen := map[string]string{}, map[string][]string{}
	for _, name := range sorted(f.top.resources()) {
		r := resourceOf(f.top.resources(), name)
		servers, err := f.servers(f.top, name, seen)
		if err != nil {
			return nil, err
		}
		at := []string{"resources", name}
		if len(servers) == 0 {
			continue
		}
		p := place{shape: Expanded, resource: name, server: servers[0]}
		if typeOf(r) == typeGroup {
			p.shape = Grouped
			if typesIn(r)[1] == typeServer {
				return nil, f.top.fail(at, "group %s must be of a nested file with the server in it: a server alone has nothing that tells its VNFC", name)
			}
		}
		if len(servers) > 1 {
			return nil, f.top.fail(at, "resource %s makes more than one server at once (%s): a VNFC is one server, so give each a file of its own", name, list(servers))
		}
		vdu, ok := in.vdu(p.server, name)
		if !ok {
			return nil, f.top.fail(at, "server %s (resource %s) is no VDU of flavour %s: call either as a VDU's id; there are %s", p.server, name, in.Flavour.ID, list(in.ids()))
		}
		if by[vdu.ID] != "" {
			return nil, f.top.fail(at, "resources %s and %s both stand for VDU %s: one is needed", by[vdu.ID], name, vdu.ID)
		}
		by[vdu.ID], p.vdu = name, vdu.ID
		found = append(found, p)
	}
	if err := f.assign(found); err != nil {
		return nil, err
	}
	names := sorted(f.top.resources())
	for _, p := range found {
		for _, name := range names {
			base, _, ok := Split(name)
			if ok && p.shape == Expanded && (base == p.resource || slices.Contains(p.own, base)) {
				return nil, f.top.fail([]string{"resources", name}, "resource %s has the name that %s gets for one of its VNFCs: call it otherwise", name, base)
			}
		}
	}
	return found, nil
}

func (in *Input) ids() []string {
	var ids []string
	for _, v := range in.Flavour.VDUs {
		ids = append(ids, v.ID)
	}
	return ids
}

// attached are the types of resources that belong to a server if no other server uses them. A
// resource of another type is shared, unless it refers to one that belongs to a server.
var attached = []string{
	"OS::Neutron::Port", "OS::Cinder::Volume", "OS::Cinder::VolumeAttachment", "OS::Neutron::FloatingIP",
	"OS::Neutron::FloatingIPAssociation", "OS::Neutron::Trunk", "OS::Heat::WaitConditionHandle", "OS::Heat::WaitCondition",
	"OS::Heat::SwiftSignalHandle", "OS::Heat::UpdateWaitConditionHandle",
}

// assign gives each expanded VDU the resources that belong to its server alone: those that refer
// to it, and the ports, volumes and addresses that only it and those use.
func (f *Folder) assign(places []place) error {
	a := newAssignment(f, places)
	// References to a VNFC's resources are followed first, so that all users of a resource are
	// known before it is given to one of them.
	for down, changed := false, true; changed || !down; {
		down, changed = !changed, false
		for _, name := range a.names {
			given, err := a.give(name, down)
			if err != nil {
				return err
			}
			changed = changed || given
		}
		if err := a.refuseShared(); err != nil {
			return err
		}
	}
	for name, i := range a.owner {
		if places[i].resource != name {
			places[i].own = append(places[i].own, name)
		}
	}
	for i := range places {
		slices.Sort(places[i].own)
	}
	return nil
}

// assignment is which resources belong to which places.
type assignment struct {
	folder    *Folder
	places    []place
	resources map[string]any
	names     []string                   // of the resources, sorted
	refs      map[string]map[string]bool // resource -> what it refers to
	users     map[string][]string        // resource -> what refers to it
	owner     map[string]int             // resource -> place
}

func newAssignment(f *Folder, places []place) *assignment {
	a := &assignment{folder: f, places: places, resources: f.top.resources(), refs: map[string]map[string]bool{}, users: map[string][]string{}, owner: map[string]int{}}
	a.names = sorted(a.resources)
	for _, name := range a.names {
		a.refs[name] = uses(a.resources[name])
		for target := range a.refs[name] {
			a.users[target] = append(a.users[target], name)
		}
	}
	for i, p := range places {
		a.owner[p.resource] = i
	}
	return a
}

// usedBy are the places that use a resource, through what they own.
func (a *assignment) usedBy(name string) map[int]bool {
	by := map[int]bool{}
	for _, other := range a.users[name] {
		if i, owned := a.owner[other]; owned {
			by[i] = true
		}
	}
	return by
}

// give gives a resource to the place whose resources it refers to or, once all such are known (down), to the only one
// that uses it. It reports whether it did.
func (a *assignment) give(name string, down bool) (given bool, err error) {
	if _, has := a.owner[name]; has {
		return false, nil
	}
	mine := map[int]bool{}
	for target := range a.refs[name] {
		if i, ok := a.owner[target]; ok && a.places[i].shape == Expanded {
			mine[i] = true
		}
	}
	if len(mine) > 1 {
		return false, a.folder.top.fail([]string{"resources", name}, "resource %s refers to what VDUs %s have for each VNFC: let it refer to one of them", name, a.folder.named(a.places, mine))
	}
	if down && len(mine) == 0 && slices.Contains(attached, typeOf(resourceOf(a.resources, name))) {
		if by := a.usedBy(name); len(by) == 1 {
			mine = by
		}
	}
	for i := range mine {
		if a.places[i].shape == Expanded {
			a.owner[name] = i
			given = true
		}
	}
	return given, nil
}

// refuseShared refuses a resource that was given to one VDU, and that a later one turned out to use as well.
func (a *assignment) refuseShared() error {
	for _, name := range a.names {
		i, owned := a.owner[name]
		if !owned || a.places[i].resource == name {
			continue
		}
		by := a.usedBy(name)
		delete(by, i)
		if len(by) == 0 {
			continue
		}
		by[i] = true
		return a.folder.top.fail([]string{"resources", name}, "resource %s belongs to each VNFC of several VDUs at once (%s): give each VDU its own", name, a.folder.named(a.places, by))
	}
	return nil
}

func (f *Folder) named(places []place, which map[int]bool) string {
	var ids []string
	for _, i := range slices.Sorted(maps.Keys(which)) {
		ids = append(ids, places[i].vdu)
	}
	return strings.Join(ids, ", ")
}

// expandedRefs is the expanded VDU that a part of the template refers to, "" for none.
func expandedRefs(v any, owner map[string]string) (string, error) {
	vdu := ""
	for _, name := range sorted(uses(v)) {
		switch of := owner[name]; {
		case of == "" || of == vdu:
		case vdu == "":
			vdu = of
		default:
			return "", fmt.Errorf("refers to VNFCs of both VDU %s and VDU %s, whose numbers differ: let it refer to one", vdu, of)
		}
	}
	return vdu, nil
}
