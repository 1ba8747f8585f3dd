package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// server is a server as Nova tells it in detail.
type server struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Status   string            `json:"status"`
	Created  string            `json:"created"`
	Updated  string            `json:"updated"`
	Launched string            `json:"OS-SRV-USG:launched_at"`
	Task     string            `json:"OS-EXT-STS:task_state"`
	Zone     string            `json:"OS-EXT-AZ:availability_zone"`
	Metadata map[string]string `json:"metadata"`
	Flavor   struct {
		Name string `json:"original_name"`
	} `json:"flavor"`
	Image json.RawMessage `json:"image"` // "" where it boots from a volume
	Fault struct {
		Message string `json:"message"`
	} `json:"fault"`
	Volumes []struct {
		ID string `json:"id"`
	} `json:"os-extended-volumes:volumes_attached"`
}

// life is the server's incarnation: Nova keeps the id of one that is rebuilt.
func (s *server) life() string {
	launched, _, _ := strings.Cut(s.Launched, ".")
	return s.ID + "@" + launched
}

func (s *server) image() string {
	var image struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(s.Image, &image) // it is a string where there is none
	return image.ID
}

// settled says whether Nova has nothing to do with the server.
func (s *server) settled() bool {
	switch s.Status {
	case "BUILD", "REBUILD", "REBOOT", "HARD_REBOOT", "RESIZE", "MIGRATING", "UNKNOWN":
		return false
	}
	return s.Task == ""
}

// print is what moves when the server does.
func (s *server) print() string {
	return strings.Join([]string{s.ID, s.Status, s.Updated, s.Launched, s.Task}, " ")
}

// listServers are all servers of the project, by id.
func (c *cloud) listServers(ctx context.Context) (map[string]*server, error) {
	all := map[string]*server{}
	marker := ""
	for {
		query := ""
		if marker != "" {
			query = url.Values{"marker": {marker}}.Encode()
		}
		var page struct {
			Servers []*server `json:"servers"`
			Links   []struct {
				Rel  string `json:"rel"`
				Href string `json:"href"`
			} `json:"servers_links"`
		}
		if err := c.get(ctx, nova, &page, query, "servers", "detail"); err != nil {
			return nil, fmt.Errorf("list servers: %w", c.asUnavailable(err)) // the marker's server may be gone
		}
		next := false
		for _, s := range page.Servers {
			all[s.ID] = s
			marker = s.ID
		}
		for _, l := range page.Links {
			next = next || l.Rel == "next"
		}
		if !next || len(page.Servers) == 0 {
			return all, nil
		}
	}
}

// findServer is the server with the id, nil if there is none.
func (c *cloud) findServer(ctx context.Context, id string) (*server, error) {
	var found struct {
		Server *server `json:"server"`
	}
	err := c.get(ctx, nova, &found, "", "servers", id)
	if is(err, http.StatusNotFound) {
		return nil, nil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", id, c.asUnavailable(err))
	}
	return found.Server, nil
}

// bootImage is the id of the image that the volume was made of, "" where it was made of
// none.
func (c *cloud) bootImage(ctx context.Context, volume string) (string, error) {
	var found struct {
		Volume struct {
			Image map[string]any `json:"volume_image_metadata"`
		} `json:"volume"`
	}
	err := c.get(ctx, cinder, &found, "", "volumes", volume)
	if is(err, http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("volume %s: %w", volume, c.asUnavailable(err))
	}
	id, _ := found.Volume.Image["image_id"].(string)
	return id, nil
}

// port is a port as Neutron tells it.
type port struct {
	ID      string `json:"id"`
	Device  string `json:"device_id"`
	Network string `json:"network_id"`
	MAC     string `json:"mac_address"`
	Fixed   []struct {
		Subnet string `json:"subnet_id"`
		IP     string `json:"ip_address"`
	} `json:"fixed_ips"`
	Floating string `json:"-"`
}

// perQuery bounds how many ids stand in one URL.
const perQuery = 60

// ports are those of the servers and those with the ids, by id, with their floating IPs.
func (c *cloud) ports(ctx context.Context, servers, ids []string) (map[string]*port, error) {
	all := map[string]*port{}
	list := func(filter string, values []string) error {
		for chunk := range slices.Chunk(values, perQuery) {
			var page struct {
				Ports []*port `json:"ports"`
			}
			q := url.Values{filter: chunk, "fields": {"id", "device_id", "network_id", "mac_address", "fixed_ips"}}
			if err := c.get(ctx, neutron, &page, q.Encode(), "ports"); err != nil {
				return fmt.Errorf("list ports: %w", c.asUnavailable(err))
			}
			for _, p := range page.Ports {
				all[p.ID] = p
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
	return all, c.floating(ctx, all)
}

// bare are those of the ports with the ids that have no address, though their networks have
// subnets. Heat takes the addresses off a port before it makes its successor, and gives
// them back only in rollbacks of its own.
func (c *cloud) bare(ctx context.Context, ports map[string]*port, ids []string) (map[string]bool, error) {
	suspects := map[string][]string{} // by network
	for _, id := range ids {
		if p := ports[id]; p != nil && len(p.Fixed) == 0 {
			suspects[p.Network] = append(suspects[p.Network], id)
		}
	}
	bare := map[string]bool{}
	for network, ports := range suspects {
		var found struct {
			Network struct {
				Subnets []string `json:"subnets"`
			} `json:"network"`
		}
		err := c.get(ctx, neutron, &found, "", "networks", network)
		if err != nil && !is(err, http.StatusNotFound) {
			return nil, fmt.Errorf("network %s: %w", network, c.asUnavailable(err))
		}
		if len(found.Network.Subnets) == 0 {
			continue
		}
		for _, id := range ports {
			bare[id] = true
		}
	}
	return bare, nil
}

// floating notes the floating IPs of the ports.
func (c *cloud) floating(ctx context.Context, ports map[string]*port) error {
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(ports)), perQuery) {
		var page struct {
			IPs []struct {
				Port string `json:"port_id"`
				IP   string `json:"floating_ip_address"`
			} `json:"floatingips"`
		}
		q := url.Values{"port_id": chunk, "fields": {"port_id", "floating_ip_address"}}
		err := c.get(ctx, neutron, &page, q.Encode(), "floatingips")
		if is(err, http.StatusNotFound) {
			return nil // a Neutron without routers has no floating IPs
		}
		if err != nil {
			return fmt.Errorf("list floating IPs: %w", c.asUnavailable(err))
		}
		for _, f := range page.IPs {
			if p := ports[f.Port]; p != nil {
				p.Floating = f.IP
			}
		}
	}
	return nil
}
