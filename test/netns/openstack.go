package netns

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// OpenStack is the cloud of a project, for a lab to follow.
func OpenStack(provider *gophercloud.ProviderClient, where gophercloud.EndpointOpts) (Cloud, error) {
	compute, err := openstack.NewComputeV2(provider, where)
	if err != nil {
		return nil, fmt.Errorf("find Nova: %w", err)
	}
	// Since 2.47 a server tells its flavour by name.
	compute.Microversion = "2.47"
	image, err := openstack.NewImageV2(provider, where)
	if err != nil {
		return nil, fmt.Errorf("find Glance: %w", err)
	}
	return &openStack{compute: compute, image: image, names: map[string]string{}}, nil
}

type openStack struct {
	compute, image *gophercloud.ServiceClient
	names          map[string]string // of images, by id
}

// serverBody is what is read of a server, as Nova writes it since 2.47.
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
		for _, network := range b.Addresses {
			for _, a := range network {
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

// Network is a network of a cloud whose servers are hosts of a lab.
type Network struct {
	*Lab
	// Name is the network's, by which templates find it.
	Name string
	// Provider and Where reach the cloud's other services.
	Provider *gophercloud.ProviderClient
	Where    gophercloud.EndpointOpts
}

// StartOpenStack makes a network with the subnet at the cloud, and a lab that follows the
// servers on it, for the time of a test. The cloud gives away addresses in the upper half
// of the subnet alone, so that the lower half is there for hosts that no server stands
// for. Where this machine can't have hosts, the test is skipped as [Start] says.
func StartOpenStack(t testing.TB, cloud osenv.Cloud, subnet string, how Followed) *Network {
	t.Helper()
	lab := Start(t, subnet)
	provider, where, err := cloud.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	neutron, err := openstack.NewNetworkV2(provider, where)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("lab-%d", time.Now().UnixNano())
	made, err := networks.Create(t.Context(), neutron, networks.CreateOpts{Name: name}).Extract()
	if err != nil {
		t.Fatalf("create network %s: %v", name, err)
	}
	t.Cleanup(func() {
		// t.Context() has ended by now, and the network is to go all the same.
		ctx, cancel := context.WithTimeout(context.Background(), startWait)
		defer cancel()
		if err := networks.Delete(ctx, neutron, made.ID).ExtractErr(); err != nil {
			t.Errorf("delete network %s, on which nothing should be any more: %v", name, err)
		}
	})
	first, last := upperHalf(lab.Subnet)
	dhcp := false
	_, err = subnets.Create(t.Context(), neutron, subnets.CreateOpts{
		NetworkID: made.ID, Name: name, IPVersion: gophercloud.IPv4, CIDR: lab.Subnet.String(), EnableDHCP: &dhcp,
		AllocationPools: []subnets.AllocationPool{{Start: first.String(), End: last.String()}},
	}).Extract()
	if err != nil {
		t.Fatalf("create subnet %s: %v", lab.Subnet, err)
	}
	return lab.follow(t, name, provider, where, how)
}

// FollowOpenStack is [StartOpenStack] for a network that the cloud has already, with the
// subnet.
func FollowOpenStack(t testing.TB, cloud osenv.Cloud, subnet, network string, how Followed) *Network {
	t.Helper()
	lab := Start(t, subnet)
	provider, where, err := cloud.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lab.follow(t, network, provider, where, how)
}

// follow has the lab follow the cloud until the test ends.
func (l *Lab) follow(t testing.TB, network string, provider *gophercloud.ProviderClient, where gophercloud.EndpointOpts, how Followed) *Network {
	t.Helper()
	cloud, err := OpenStack(provider, where)
	if err != nil {
		t.Fatal(err)
	}
	if how.Log == nil {
		how.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Follow(ctx, cloud, how) }()
	t.Cleanup(func() { stop(); <-done })
	return &Network{Lab: l, Name: network, Provider: provider, Where: where}
}

// upperHalf are the first and the last address of a subnet's upper half, without that to
// which all listen.
func upperHalf(subnet netip.Prefix) (first, last netip.Addr) {
	raw := subnet.Addr().As4()
	at := func(n uint32) netip.Addr {
		v := uint32(raw[0])<<24 | uint32(raw[1])<<16 | uint32(raw[2])<<8 | uint32(raw[3])
		v += n
		return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
	}
	size := uint32(1) << (32 - subnet.Bits())
	return at(size / 2), at(size - 2)
}
