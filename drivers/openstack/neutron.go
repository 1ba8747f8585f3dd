package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// port is what a snapshot keeps of a port.
type port struct {
	ID       string
	Device   string // the id of its server, "" where it has none
	Network  string
	MAC      string
	Fixed    []ports.IP
	Floating string // its floating IP address, "" where it has none
}

// perQuery bounds how many ids stand in one URL.
const perQuery = 60

// ports are those of the servers and those with the ids, by id, with their floating IPs.
func (c *cloud) ports(ctx context.Context, servers, ids []string) (map[string]*port, error) {
	all := map[string]*port{}
	list := func(filter string, values []string) error {
		for chunk := range slices.Chunk(values, perQuery) {
			query := url.Values{filter: chunk, "fields": {"id", "device_id", "network_id", "mac_address", "fixed_ips"}}
			found, err := readList(ctx, c, neutron, "ports", func(p *ports.Port) string { return p.ID }, query, "ports")
			if err != nil {
				return fmt.Errorf("list ports: %w", c.asUnavailable(err))
			}
			for _, p := range found {
				all[p.ID] = &port{ID: p.ID, Device: p.DeviceID, Network: p.NetworkID, MAC: p.MACAddress, Fixed: p.FixedIPs}
			}
		}
		return nil
	}
	if err := list("device_id", servers); err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return all[id] != nil })
	if err := list("id", rest); err != nil {
		return nil, err
	}
	return all, c.addFloatingIPs(ctx, all)
}

// addFloatingIPs notes the floating IPs of the ports.
func (c *cloud) addFloatingIPs(ctx context.Context, ports map[string]*port) error {
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(ports)), perQuery) {
		query := url.Values{"port_id": chunk, "fields": {"id", "port_id", "floating_ip_address"}}
		found, err := readList(ctx, c, neutron, "floatingips", func(f *floatingips.FloatingIP) string { return f.ID }, query, "floatingips")
		if is(err, http.StatusNotFound) {
			return nil // a Neutron without routers has no floating IPs
		}
		if err != nil {
			return fmt.Errorf("list floating IPs: %w", c.asUnavailable(err))
		}
		for _, f := range found {
			if p := ports[f.PortID]; p != nil {
				p.Floating = f.FloatingIP
			}
		}
	}
	return nil
}

// withoutAddress are those of the ports with the ids that have no address, though their
// networks have subnets. Heat takes the addresses off a port before it makes its successor,
// and gives them back only in rollbacks of its own.
func (c *cloud) withoutAddress(ctx context.Context, ports map[string]*port, ids []string) (map[string]bool, error) {
	suspects := map[string][]string{} // by network
	for _, id := range ids {
		if p := ports[id]; p != nil && len(p.Fixed) == 0 {
			suspects[p.Network] = append(suspects[p.Network], id)
		}
	}
	lost := map[string]bool{}
	for network, ports := range suspects {
		var found *networks.Network
		err := c.call(ctx, neutron, func(client *gophercloud.ServiceClient) (err error) {
			found, err = networks.Get(ctx, client, network).Extract()
			return err
		})
		switch {
		case is(err, http.StatusNotFound):
			continue
		case err != nil:
			return nil, fmt.Errorf("network %s: %w", network, c.asUnavailable(err))
		case len(found.Subnets) == 0:
			continue
		}
		for _, id := range ports {
			lost[id] = true
		}
	}
	return lost, nil
}
