package openstack

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
)

// unhealthy is the reason that Jibe gives for the status of a resource that Heat is to make
// anew.
const unhealthy = "jibe: to be replaced"

// stackParts knows which unit each part of one stack belongs to.
type stackParts struct {
	*view
	stack   *stack
	object  plan.ObservedObject
	desired bool
	suffix  string // of keys: the generation, "" for the first
	// byMember is the unit's key by the path of the resource that stands for a VNFC, byServer
	// by the server's id.
	byMember map[string]string
	byServer map[string]string
}

// serverKey is a unit's key.
func serverKey(vdu, member, generation string) string {
	return withGeneration("Server/"+vdu+"/"+member, generation)
}

func volumeKey(vdu, member, name, generation string) string {
	return withGeneration("Volume/"+vdu+"/"+member+"/"+name, generation)
}

func withGeneration(key, generation string) string {
	if generation == "" || generation == firstGeneration {
		return key
	}
	return key + "/" + generation
}

// units reports the servers.
func (w *stackParts) units(o *plan.Observed) {
	w.byMember, w.byServer = map[string]string{}, map[string]string{}
	for _, n := range w.stack.tree.all {
		if n.Type != typeServer {
			continue
		}
		vdu := w.stack.vdu(n)
		key := serverKey(vdu, n.memberName(), w.suffix)
		w.byMember[n.member().path()] = key
		if n.Physical == "" {
			continue // Heat hasn't asked Nova for it yet
		}
		w.byServer[n.Physical] = key
		o.Units = append(o.Units, w.unit(n, vdu, key))
	}
}

func (w *stackParts) unit(n *node, vdu, key string) plan.Unit {
	s := w.stack
	v := s.servers[n.Physical]
	u := plan.Unit{
		ID: incarnation(s, n.Physical), Key: key, Name: n.Physical, VDU: vdu, Owner: w.object.Key, Kind: typeServer,
		Generation: w.object.Generation, Created: n.Created,
		Deleting: w.object.Deleting || strings.HasPrefix(n.Status, "DELETE_") || s.busy() && n.marked(),
	}
	if v == nil {
		u.Dead = "the server doesn't exist any more"
		u.Reason, u.Failure = u.Dead, u.Dead
		u.Metadata = w.metadata(n, vdu, &server{})
		return u
	}
	u.Created = v.Created
	u.Deleting = u.Deleting || v.Task == "deleting"
	u.Metadata = w.metadata(n, vdu, v)
	switch v.Status {
	case "ERROR":
		u.Dead = "the server is in ERROR"
		if v.Fault != "" {
			u.Dead += ": " + short(v.Fault)
		}
	case "DELETED", "SOFT_DELETED":
		u.Dead = "the server was deleted"
	}
	u.Failure = u.Dead
	u.Stopped = v.off()
	u.Ready = v.Status == statusActive && !u.Deleting && !n.inProgress() && !n.marked()
	if !u.Ready {
		u.Reason = cmp.Or(u.Dead, withReason(v.Status, v.Task))
		if v.Status == statusActive {
			u.Reason = n.Status
		}
	}
	if w.desired && u.Dead == "" {
		if def := w.rendered.VDUs[vdu]; def != nil && v.Metadata[hot.MetaDigest] != def.Digest {
			u.Outdated = "it isn't what the package and the parameters make now"
		}
	}
	return u
}

func withReason(what, why string) string {
	if why == "" {
		return what
	}
	return what + " (" + why + ")"
}

// marked says whether Heat is to make the resource anew.
func (n *node) marked() bool { return n.Status == "CHECK"+failed }

// incarnation is that of a server, which may be gone.
func incarnation(s *stack, id string) string {
	if v := s.servers[id]; v != nil {
		return v.incarnation()
	}
	return (&server{ID: id, Launched: s.launched[id]}).incarnation()
}

// metadata is what is shown of the unit in vnfcResourceInfo.metadata.
func (w *stackParts) metadata(n *node, vdu string, v *server) map[string]string {
	m := map[string]string{
		"creation_time": heatTime(n.Created),
		"stack_id":      n.stack.String(),
	}
	if n.grouped() {
		m["parent_stack_id"] = n.member().stack.String()
		m["parent_resource_name"] = n.member().Name
	} else {
		m["vdu_idx"] = n.memberName()
	}
	for name, value := range map[string]string{"flavor": v.Flavor, "image-" + vdu: w.stack.image(v), "zone": v.Zone} {
		if value != "" {
			m[name] = value
		}
	}
	if address := w.address(n.Physical); address != "" {
		m["address"] = address
	}
	return m
}

// address is where the server is reached: a floating IP if it has one.
func (w *stackParts) address(id string) string {
	fixed := ""
	for _, p := range w.stack.portsOf(id) {
		if p.Floating != "" {
			return p.Floating
		}
		if fixed == "" && len(p.Fixed) > 0 {
			fixed = p.Fixed[0].IPAddress
		}
	}
	return fixed
}

// portsOf are the server's ports, in a steady order.
func (s *stack) portsOf(id string) []*port {
	var ports []*port
	for _, p := range s.ports {
		if id != "" && p.Device == id {
			ports = append(ports, p)
		}
	}
	slices.SortFunc(ports, func(a, b *port) int {
		return cmp.Or(cmp.Compare(s.portName(a), s.portName(b)), cmp.Compare(a.ID, b.ID))
	})
	return ports
}

func (s *stack) portName(p *port) string {
	for _, n := range s.tree.all {
		if n.Type == typePort && n.Physical == p.ID {
			return n.name()
		}
	}
	return ""
}

// vdu is the VDU whose server the resource is, as the server's metadata say, in Nova or in what
// the stack was made of. A server of a stack that Jibe didn't make has the VDU of its name.
func (s *stack) vdu(n *node) string {
	if v := s.servers[n.Physical]; v != nil && v.Metadata[hot.MetaVDU] != "" {
		return v.Metadata[hot.MetaVDU]
	}
	if s.live != nil {
		if vdu := s.live.vdu(n.top().Name); vdu != "" {
			return vdu
		}
	}
	return n.name()
}

// volumes reports the volumes of units: a heal may be asked to make them anew.
func (w *stackParts) volumes(o *plan.Observed) {
	for _, n := range w.stack.tree.all {
		if n.Type != typeVolume || n.Physical == "" {
			continue
		}
		unit := w.owner(n)
		o.Resources = append(o.Resources, plan.Resource{Kind: plan.Storage, ID: n.Physical, Type: typeVolume, Name: n.name(), Unit: unit})
		if unit == "" {
			continue
		}
		vdu, member := splitServerKey(unit)
		o.Objects = append(o.Objects, plan.ObservedObject{
			Key: volumeKey(vdu, member, n.name(), w.suffix), Incarnation: n.Physical, Count: -1,
			Ready:      strings.HasSuffix(n.Status, complete),
			Deleting:   w.object.Deleting || strings.HasPrefix(n.Status, "DELETE_") || w.stack.busy() && n.marked(),
			Reason:     n.Reason,
			Retention:  plan.RetainWithInstance,
			Data:       true,
			Generation: w.object.Generation,
		})
	}
}

// owner is the key of the unit that the resource belongs to, "" where units share it.
func (w *stackParts) owner(n *node) string {
	if key := w.byMember[n.member().path()]; key != "" {
		return key
	}
	for id, v := range w.stack.servers {
		if v == nil {
			continue
		}
		if slices.Contains(v.Volumes, n.Physical) {
			return w.byServer[id]
		}
	}
	if p := w.stack.ports[n.Physical]; p != nil && w.byServer[p.Device] != "" {
		return w.byServer[p.Device]
	}
	if w.desired && n.parent == nil {
		if base, index, ok := hot.Split(n.Name); ok {
			for vdu, def := range w.rendered.VDUs {
				if slices.Contains(def.Own, base) {
					return serverKey(vdu, strconv.Itoa(index), w.suffix)
				}
			}
		}
	}
	return ""
}

func splitServerKey(key string) (vdu, member string) {
	parts := strings.Split(key, "/")
	return parts[1], parts[2]
}

// links reports the networks and the ports.
func (w *stackParts) links(o *plan.Observed) {
	own := map[string]bool{}
	reported := map[string]bool{}
	for _, n := range w.stack.tree.all {
		if n.Physical == "" {
			continue
		}
		switch n.Type {
		case typeNetwork, "OS::Neutron::ProviderNet":
			own[n.Physical] = true
			o.Resources = append(o.Resources, plan.Resource{Kind: plan.VirtualLink, ID: n.Physical, Type: n.Type, Name: n.name(), Unit: w.owner(n)})
		}
	}
	add := func(p *port, name, unit string) {
		r := plan.Resource{Kind: plan.LinkPort, ID: p.ID, Type: typePort, Name: name, Unit: unit,
			Network: p.Network, External: !own[p.Network], MAC: p.MAC, Floating: p.Floating}
		for _, f := range p.Fixed {
			r.Addresses = append(r.Addresses, plan.Address{IP: f.IPAddress, Subnet: f.SubnetID})
		}
		reported[p.ID] = true
		o.Resources = append(o.Resources, r)
	}
	for _, n := range w.stack.tree.all {
		if p := w.stack.ports[n.Physical]; n.Type == typePort && p != nil {
			add(p, n.name(), w.owner(n))
		}
	}
	for _, id := range w.stack.tree.servers() { // ports that Nova made for a server
		for i, p := range w.stack.portsOf(id) {
			if !reported[p.ID] {
				add(p, fmt.Sprint("port", i), w.byServer[id])
			}
		}
	}
}
