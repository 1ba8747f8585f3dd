package openstacktest

import (
	"net/netip"
	"reflect"
	"time"

	"github.com/google/uuid"
)

// The kinds of Neutron's resources in Heat.

func portKind() *kind {
	return &kind{
		updatable: []string{"name", "network", "device_id", "device_owner", "fixed_ips", "security_groups", "replacement_policy", "dns_name",
			"tags", "value_specs", "admin_state_up", "allowed_address_pairs", "binding:vnic_type", "port_security_enabled", "qos_policy",
			"propagate_uplink_status", "no_fixed_ips"},
		others: []string{"network_id", "mac_address"},
		forced: func(old, next object) bool { return !reflect.DeepEqual(old["network"], next["network"]) },
		verify: func(c *Cloud, where string, p object) error {
			if p["network"] == nil && p["network_id"] == nil {
				return invalid("Property error: : %s.properties: : Property network not assigned", where)
			}
			return verifyNetwork(c, where, "network", p["network"])
		},
		create: func(c *Cloud, w *work, r *resource, p object) (string, error) {
			ref := asText(p["network"])
			if ref == "" {
				ref = asText(p["network_id"])
			}
			n, ok := c.findNetwork(ref)
			if !ok {
				return "", says("NotFound", "Unable to find network with name or id '%s'", ref)
			}
			made, err := c.makePort(physicalName(r, p, 0), n, list(p["fixed_ips"]))
			if err != nil {
				return "", err
			}
			if groups, ok := p["security_groups"].([]any); ok {
				made.groups = groups
			}
			return made.id, nil
		},
		update: func(c *Cloud, w *work, r *resource, p object) error {
			x, ok := c.ports.get(r.id)
			if !ok {
				return says("PortNotFoundClient", "Port %s could not be found.", r.id)
			}
			if !reflect.DeepEqual(r.properties["fixed_ips"], p["fixed_ips"]) {
				before := x.fixed
				c.release(x)
				if err := c.addresses(x, list(p["fixed_ips"])); err != nil {
					x.fixed = before
					return err
				}
			}
			if groups, ok := p["security_groups"].([]any); ok {
				x.groups = groups
			}
			if name, ok := p["name"].(string); ok {
				x.name = name
			}
			x.updated = time.Now()
			return nil
		},
		destroy: func(c *Cloud, r *resource) { c.dropPort(r.id) },
		broken:  func(c *Cloud, r *resource) bool { _, ok := c.ports.get(r.id); return !ok },
	}
}

func networkKind() *kind {
	return &kind{
		updatable: []string{"name", "value_specs", "admin_state_up", "shared", "dhcp_agent_ids", "port_security_enabled", "qos_policy", "dns_domain", "tags"},
		others:    []string{"tenant_id", "availability_zone_hints"},
		create: func(c *Cloud, w *work, r *resource, p object) (string, error) {
			return c.makeNetwork(physicalName(r, p, 0)).id, nil
		},
		update: func(c *Cloud, w *work, r *resource, p object) error {
			if n, ok := c.networks.get(r.id); ok && p["name"] != nil {
				n.name = asText(p["name"])
			}
			return nil
		},
		destroy: func(c *Cloud, r *resource) {
			if n, ok := c.networks.get(r.id); ok {
				for _, id := range n.subnets {
					c.subnets.remove(id)
				}
				c.networks.remove(r.id)
			}
		},
		broken: func(c *Cloud, r *resource) bool { _, ok := c.networks.get(r.id); return !ok },
	}
}

func subnetKind() *kind {
	return &kind{
		updatable: []string{"value_specs", "name", "dns_nameservers", "gateway_ip", "enable_dhcp", "allocation_pools", "host_routes", "segment", "tags"},
		others:    []string{"network", "network_id", "subnetpool", "prefixlen", "cidr", "ip_version", "tenant_id", "ipv6_ra_mode", "ipv6_address_mode"},
		verify: func(c *Cloud, where string, p object) error {
			if err := verifyNetwork(c, where, "network", p["network"]); err != nil {
				return err
			}
			return verifyCIDR(where, p["cidr"])
		},
		create: func(c *Cloud, w *work, r *resource, p object) (string, error) {
			n, ok := c.findNetwork(asText(p["network"]))
			if !ok {
				return "", says("NotFound", "Unable to find network with name or id '%v'", p["network"])
			}
			prefix, err := netip.ParsePrefix(asText(p["cidr"]))
			if err != nil {
				return "", says("BadRequest", "Invalid input for cidr. Reason: %v", err)
			}
			s, err := c.makeSubnet(n, physicalName(r, p, 0), prefix)
			if err != nil {
				return "", err
			}
			s.dhcp = p["enable_dhcp"] != false
			return s.id, nil
		},
		update: func(c *Cloud, w *work, r *resource, p object) error { return nil },
		destroy: func(c *Cloud, r *resource) {
			s, ok := c.subnets.get(r.id)
			if !ok {
				return
			}
			if n, ok := c.networks.get(s.network); ok {
				for i, id := range n.subnets {
					if id == r.id {
						n.subnets = append(n.subnets[:i:i], n.subnets[i+1:]...)
						break
					}
				}
			}
			c.subnets.remove(r.id)
		},
		broken: func(c *Cloud, r *resource) bool { _, ok := c.subnets.get(r.id); return !ok },
	}
}

func securityGroupKind() *kind {
	return &kind{
		updatable: []string{"name", "description", "rules"},
		create: func(c *Cloud, w *work, r *resource, p object) (string, error) {
			g := &securityGroup{id: uuid.NewString(), name: physicalName(r, p, 0)}
			c.groups.add(g.id, g)
			return g.id, nil
		},
		update:  func(c *Cloud, w *work, r *resource, p object) error { return nil },
		destroy: func(c *Cloud, r *resource) { c.groups.remove(r.id) },
		broken:  func(c *Cloud, r *resource) bool { _, ok := c.groups.get(r.id); return !ok },
	}
}

func floatingKind() *kind {
	point := func(c *Cloud, f *floatingIP, p object) error {
		f.port = asText(p["port_id"])
		if f.port == "" {
			return nil
		}
		to, ok := c.ports.get(f.port)
		if !ok || len(to.fixed) == 0 {
			return says("PortNotFoundClient", "Port %s could not be found.", f.port)
		}
		f.fixed = to.fixed[0].addr
		return nil
	}
	return &kind{
		updatable: []string{"port_id", "fixed_ip_address", "dns_name", "dns_domain"},
		others:    []string{"floating_network", "floating_network_id", "floating_subnet", "value_specs", "floating_ip_address"},
		verify: func(c *Cloud, where string, p object) error {
			return verifyNetwork(c, where, "floating_network", p["floating_network"])
		},
		create: func(c *Cloud, w *work, r *resource, p object) (string, error) {
			ref := asText(p["floating_network"])
			if ref == "" {
				ref = asText(p["floating_network_id"])
			}
			n, ok := c.findNetwork(ref)
			if !ok {
				return "", says("NotFound", "Unable to find network with name or id '%s'", ref)
			}
			s, err := c.subnetFor(n, object{}, netip.Addr{})
			if err != nil {
				return "", err
			}
			f := &floatingIP{id: uuid.NewString(), network: n.id, created: time.Now()}
			if f.addr, err = s.take(netip.Addr{}); err != nil {
				return "", err
			}
			if err := point(c, f, p); err != nil {
				return "", err
			}
			c.floating.add(f.id, f)
			return f.id, nil
		},
		update: func(c *Cloud, w *work, r *resource, p object) error {
			f, ok := c.floating.get(r.id)
			if !ok {
				return says("NotFound", "Floating IP %s could not be found", r.id)
			}
			return point(c, f, p)
		},
		destroy: func(c *Cloud, r *resource) { c.floating.remove(r.id) },
		broken:  func(c *Cloud, r *resource) bool { _, ok := c.floating.get(r.id); return !ok },
	}
}
