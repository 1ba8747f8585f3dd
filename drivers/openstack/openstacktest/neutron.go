package openstacktest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

type network struct {
	id, name string
	subnets  []string
	created  time.Time
}

type subnet struct {
	id, name, network string
	prefix            netip.Prefix
	gateway           netip.Addr
	dhcp              bool
	next              netip.Addr
	used              map[netip.Addr]bool
	created           time.Time
}

type port struct {
	id, name, network, mac string
	device, owner          string
	fixed                  []fixed
	groups                 []any
	created, updated       time.Time
}

type fixed struct {
	subnet string
	addr   netip.Addr
}

func (c *Cloud) makeNetwork(name string) *network {
	n := &network{id: uuid.NewString(), name: name, created: time.Now()}
	c.networks.add(n.id, n)
	return n
}

func (c *Cloud) makeSubnet(n *network, name string, prefix netip.Prefix) (*subnet, error) {
	for _, id := range n.subnets {
		if other, ok := c.subnets.get(id); ok && other.prefix.Overlaps(prefix) {
			return nil, says("BadRequest", "Invalid input for operation: Requested subnet with cidr: %s for network: %s overlaps with another subnet.", prefix, n.id)
		}
	}
	s := &subnet{id: uuid.NewString(), name: name, network: n.id, prefix: prefix.Masked(), used: map[netip.Addr]bool{}, created: time.Now()}
	s.gateway = s.prefix.Addr().Next()
	s.next = s.gateway.Next()
	s.used[s.gateway] = true
	c.subnets.add(s.id, s)
	n.subnets = append(n.subnets, s.id)
	return s, nil
}

func (c *Cloud) findNetwork(ref string) (*network, bool) {
	if n, ok := c.networks.get(ref); ok {
		return n, true
	}
	return c.networks.find(func(n *network) bool { return n.name == ref })
}

func (c *Cloud) findSubnet(ref string) (*subnet, bool) {
	if s, ok := c.subnets.get(ref); ok {
		return s, true
	}
	return c.subnets.find(func(s *subnet) bool { return s.name == ref })
}

// take is an address of the subnet that nobody has; want is one to be had, if valid.
func (s *subnet) take(want netip.Addr) (netip.Addr, error) {
	if want.IsValid() {
		if !s.prefix.Contains(want) {
			return want, says("BadRequest", "Invalid input for operation: IP address %s is not a valid IP for the specified subnet.", want)
		}
		if s.used[want] {
			return want, says("IpAddressAlreadyAllocatedClient", "IP address %s already allocated in subnet %s", want, s.id)
		}
		s.used[want] = true
		return want, nil
	}
	for range 1 << 16 {
		if !s.prefix.Contains(s.next) {
			s.next = s.gateway.Next()
		}
		a := s.next
		s.next = a.Next()
		if !s.used[a] {
			s.used[a] = true
			return a, nil
		}
	}
	return netip.Addr{}, says("IpAddressGenerationFailureClient", "No more IP addresses available on network %s.", s.network)
}

// addresses gives the port those that are asked for, else one of the first subnet.
func (c *Cloud) addresses(p *port, wanted []object) error {
	n, _ := c.networks.get(p.network)
	if len(wanted) == 0 && len(n.subnets) > 0 {
		wanted = []object{{}}
	}
	for _, want := range wanted {
		var addr netip.Addr
		if text := asText(want["ip_address"]); text != "" {
			var err error
			if addr, err = netip.ParseAddr(text); err != nil {
				return says("BadRequest", "Invalid input for fixed_ips. Reason: '%s' is not a valid IP address.", text)
			}
		}
		s, err := c.subnetFor(n, want, addr)
		if err != nil {
			return err
		}
		if addr, err = s.take(addr); err != nil {
			return err
		}
		p.fixed = append(p.fixed, fixed{s.id, addr})
	}
	return nil
}

func (c *Cloud) subnetFor(n *network, want object, addr netip.Addr) (*subnet, error) {
	ref := asText(want["subnet"])
	if ref == "" {
		ref = asText(want["subnet_id"])
	}
	if ref != "" {
		s, ok := c.findSubnet(ref)
		if !ok || s.network != n.id {
			return nil, says("BadRequest", "Invalid input for operation: Failed to create port on network %s, because fixed_ips included invalid subnet %s.", n.id, ref)
		}
		return s, nil
	}
	for _, id := range n.subnets {
		if s, ok := c.subnets.get(id); ok && (!addr.IsValid() || s.prefix.Contains(addr)) {
			return s, nil
		}
	}
	return nil, says("BadRequest", "Invalid input for operation: IP address %s is not a valid IP for any of the subnets on the specified network.", addr)
}

func (c *Cloud) release(p *port) {
	for _, f := range p.fixed {
		if s, ok := c.subnets.get(f.subnet); ok {
			delete(s.used, f.addr)
		}
	}
	p.fixed = nil
}

func (c *Cloud) makePort(name string, n *network, wanted []object) (*port, error) {
	p := &port{id: uuid.NewString(), name: name, network: n.id, mac: c.mac(), created: time.Now(), updated: time.Now(), groups: []any{}}
	if err := c.addresses(p, wanted); err != nil {
		return nil, err
	}
	c.ports.add(p.id, p)
	return p, nil
}

func (c *Cloud) dropPort(id string) {
	if p, ok := c.ports.get(id); ok {
		c.release(p)
		c.ports.remove(id)
	}
}

func (c *Cloud) networkJSON(n *network) object {
	subnets := []any{}
	for _, id := range n.subnets {
		subnets = append(subnets, id)
	}
	return object{
		"id": n.id, "name": n.name, "tenant_id": c.project, "project_id": c.project, "admin_state_up": true, "mtu": 1500,
		"status": "ACTIVE", "subnets": subnets, "shared": false, "availability_zone_hints": []any{}, "availability_zones": []any{},
		"ipv4_address_scope": nil, "ipv6_address_scope": nil, "router:external": false, "description": "", "port_security_enabled": true,
		"tags": []any{}, "created_at": zulu(n.created), "updated_at": zulu(n.created), "revision_number": 2,
	}
}

func (c *Cloud) subnetJSON(s *subnet) object {
	version := 4
	if s.prefix.Addr().Is6() {
		version = 6
	}
	return object{
		"id": s.id, "name": s.name, "tenant_id": c.project, "project_id": c.project, "network_id": s.network, "ip_version": version,
		"subnetpool_id": nil, "enable_dhcp": s.dhcp, "ipv6_ra_mode": nil, "ipv6_address_mode": nil, "gateway_ip": s.gateway.String(),
		"cidr": s.prefix.String(), "allocation_pools": []any{object{"start": s.gateway.Next().String(), "end": s.gateway.Next().String()}},
		"host_routes": []any{}, "dns_nameservers": []any{}, "description": "", "service_types": []any{}, "tags": []any{},
		"created_at": zulu(s.created), "updated_at": zulu(s.created), "revision_number": 0,
	}
}

func (c *Cloud) portJSON(p *port) object {
	ips := []any{}
	for _, f := range p.fixed {
		ips = append(ips, object{"subnet_id": f.subnet, "ip_address": f.addr.String()})
	}
	out := object{
		"id": p.id, "name": p.name, "network_id": p.network, "tenant_id": c.project, "project_id": c.project, "mac_address": p.mac,
		"admin_state_up": true, "status": "DOWN", "device_id": p.device, "device_owner": p.owner, "fixed_ips": ips,
		"allowed_address_pairs": []any{}, "extra_dhcp_opts": []any{}, "security_groups": p.groups, "description": "",
		"binding:vnic_type": "normal", "binding:profile": object{}, "binding:host_id": "", "binding:vif_type": "unbound",
		"binding:vif_details": object{}, "port_security_enabled": true, "tags": []any{}, "created_at": zulu(p.created),
		"updated_at": zulu(p.updated), "revision_number": 1,
	}
	if p.device != "" {
		out["status"], out["revision_number"] = "ACTIVE", 3
		out["binding:host_id"], out["binding:vif_type"] = "lab-compute", "ovs"
		out["binding:vif_details"] = object{"port_filter": true, "bound_drivers": object{"0": "lab"}}
	}
	return out
}

// network answers for Neutron.
func (c *Cloud) network(in *call) answer {
	if in.method != http.MethodGet || len(in.path) < 2 || len(in.path) > 3 || in.path[0] != "v2.0" {
		return fail(Neutron, http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")
	}
	var all []object
	var one, kind, noun string
	switch in.path[1] {
	case "networks":
		one, kind, noun = "network", "NetworkNotFound", "Network"
		c.networks.all(func(x *network) bool { all = append(all, c.networkJSON(x)); return true })
	case "subnets":
		one, kind, noun = "subnet", "SubnetNotFound", "Subnet"
		c.subnets.all(func(x *subnet) bool { all = append(all, c.subnetJSON(x)); return true })
	case "ports":
		one, kind, noun = "port", "PortNotFound", "Port"
		devices, ids := in.query["device_id"], in.query["id"]
		c.ports.all(func(x *port) bool {
			if (len(devices) == 0 || slices.Contains(devices, x.device)) && (len(ids) == 0 || slices.Contains(ids, x.id)) {
				all = append(all, c.portJSON(x))
			}
			return true
		})
	default:
		return fail(Neutron, http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")
	}
	if len(in.path) == 3 {
		for _, x := range all {
			if x["id"] == in.path[2] {
				return ok(object{one: x})
			}
		}
		return fail(Neutron, http.StatusNotFound, kind, noun+" "+in.path[2]+" could not be found.")
	}
	return ok(object{strings.ReplaceAll(in.path[1], "-", "_"): filtered(all, in)})
}

// filtered is the list as the query's fields of things, and "fields", want it.
func filtered(all []object, in *call) []any {
	out := []any{}
	for _, x := range all {
		fits := true
		for key, values := range in.query {
			if have, ok := x[key]; ok && !slices.Contains(values, asText(have)) {
				fits = false
			}
		}
		if !fits {
			continue
		}
		if fields := in.query["fields"]; len(fields) > 0 {
			for key := range x {
				if !slices.Contains(fields, key) {
					delete(x, key)
				}
			}
		}
		out = append(out, x)
	}
	shown, _ := page(out, func(x any) string { return asText(x.(object)["id"]) }, in.query, 0)
	return shown
}
