package openstacktest

import (
	"net/netip"
	"reflect"
	"time"
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
