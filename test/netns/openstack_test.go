package netns

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

func TestOneLogsInAtTheAddressThatOpenStackReports(t *testing.T) {
	cloud := osenv.OpenStack(t)
	n := StartOpenStack(t, cloud, "10.201.8.0/24", Followed{})
	NeedParamiko(t)
	nova, err := openstack.NewComputeV2(n.Provider, n.Where)
	if err != nil {
		t.Fatal(err)
	}
	neutron, err := openstack.NewNetworkV2(n.Provider, n.Where)
	if err != nil {
		t.Fatal(err)
	}
	glance, err := openstack.NewImageV2(n.Provider, n.Where)
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) string {
		pages, err := images.List(glance, images.ListOpts{Name: name}).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := images.ExtractImages(pages)
		if err != nil || len(all) == 0 {
			t.Fatalf("image %s: %v, %v", name, all, err)
		}
		return all[0].ID
	}
	pages, err := flavors.ListDetail(nova, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := flavors.ExtractFlavors(pages)
	if err != nil || len(sizes) == 0 {
		t.Fatal(sizes, err)
	}
	found, err := networks.List(neutron, networks.ListOpts{Name: n.Name}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := networks.ExtractNetworks(found)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	port, err := ports.Create(t.Context(), neutron, ports.CreateOpts{NetworkID: all[0].ID}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	made, err := servers.Create(t.Context(), nova, servers.CreateOpts{
		Name: "vm-of-lab", ImageRef: named("img1"), FlavorRef: sizes[0].ID, Networks: []servers.Network{{Port: port.ID}},
	}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	gone := func() {
		ctx := context.WithoutCancel(t.Context())
		_ = servers.Delete(ctx, nova, made.ID).ExtractErr()
		_ = kit.Poll(ctx, startWait, func() error { // what is left then is the cloud's business
			if _, err := servers.Get(ctx, nova, made.ID).Extract(); err == nil {
				return errors.New("the server is still there")
			}
			return nil
		})
		_ = ports.Delete(ctx, neutron, port.ID).ExtractErr()
	}
	t.Cleanup(gone)
	addr := port.FixedIPs[0].IPAddress
	if a := server(t, n.Lab, addr, made.ID); a.Host != "vm-of-lab" || a.Labels["image"] != "img1" || a.Labels["flavor"] == "" {
		t.Errorf("the host said %+v", a)
	}
	if out, err := login(t, addr, "ubuntu", "ubuntu", "hostname"); err != nil || out != "vm-of-lab\n" {
		t.Errorf("over SSH it said %q, %v", out, err)
	}
	first := n.Host(netip.MustParseAddr(addr))
	if err := servers.Rebuild(t.Context(), nova, made.ID, servers.RebuildOpts{ImageRef: named("img2")}).Err; err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "another host for the rebuilt server", func() bool {
		h := n.Host(first.Addr())
		if h == nil || h == first {
			return false
		}
		a, err := Ask(t.Context(), h.URL())
		return err == nil && a.Labels["image"] == "img2" && a.Labels["server"] == made.ID
	})
	gone()
	kit.Until(t, "the host of the deleted server to go", func() bool { return n.Host(first.Addr()) == nil })
}

func TestTheUpperHalfOfASubnetHasNoAddressThatAllListenTo(t *testing.T) {
	for subnet, want := range map[string][2]string{
		"10.201.8.0/24": {"10.201.8.128", "10.201.8.254"}, "10.10.0.0/16": {"10.10.128.0", "10.10.255.254"}, "10.0.0.16/29": {"10.0.0.20", "10.0.0.22"},
	} {
		first, last := upperHalf(netip.MustParsePrefix(subnet))
		if got := [2]string{first.String(), last.String()}; got != want {
			t.Errorf("%s: %v, want %v", subnet, got, want)
		}
	}
}
