package netns

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
)

// OpenStack is the cloud that a lab follows through the two clients: Nova's, and Glance's
// for the names of images.
func OpenStack(compute, image *gophercloud.ServiceClient) Cloud {
	// Flavors are told by name, and not by what they were, since 2.47.
	c := *compute
	c.Microversion = "2.47"
	return &openStack{compute: &c, image: image, names: map[string]string{}}
}

type openStack struct {
	compute, image *gophercloud.ServiceClient
	names          map[string]string // of images, by id
}

// serverBody is what is read of a server; the client's own type has no flavor as Nova
// writes it since 2.47.
type serverBody struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Status     string          `json:"status"`
	LaunchedAt string          `json:"OS-SRV-USG:launched_at"`
	Image      json.RawMessage `json:"image"` // an object, or "" where it started from a volume
	Flavor     struct {
		Name string `json:"original_name"`
	} `json:"flavor"`
	Metadata  map[string]string `json:"metadata"`
	Addresses map[string][]struct {
		Addr string `json:"addr"`
		Type string `json:"OS-EXT-IPS:type"`
	} `json:"addresses"`
}

func (o *openStack) Servers(ctx context.Context) ([]Server, error) {
	pages, err := servers.List(o.compute, servers.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	var bodies []serverBody
	if err := servers.ExtractServersInto(pages, &bodies); err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	all := make([]Server, 0, len(bodies))
	for _, b := range bodies {
		s := Server{ID: b.ID, LaunchedAt: b.LaunchedAt, Name: b.Name, Up: b.Status == "ACTIVE", Flavor: b.Flavor.Name, Metadata: b.Metadata}
		for _, port := range b.Addresses {
			for _, a := range port {
				if addr, err := netip.ParseAddr(a.Addr); err == nil && a.Type != "floating" {
					s.Addrs = append(s.Addrs, addr)
				}
			}
		}
		var from struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(b.Image, &from) == nil && from.ID != "" {
			s.Image = o.name(ctx, from.ID)
		}
		all = append(all, s)
	}
	return all, nil
}

// name is the image's, or its id while its name can't be had.
func (o *openStack) name(ctx context.Context, id string) string {
	if name, known := o.names[id]; known {
		return name
	}
	i, err := images.Get(ctx, o.image, id).Extract()
	if err != nil || i.Name == "" {
		return id
	}
	o.names[id] = i.Name
	return i.Name
}
