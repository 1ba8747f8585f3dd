package egress_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

func TestTheMachinesOwnAddressesAreKnownOnEachInterface(t *testing.T) {
	t.Parallel()
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		ip, ok := netip.AddrFromSlice(i.(*net.IPNet).IP)
		if ip = ip.Unmap(); !ok || ip.IsLinkLocalUnicast() { // link-local addresses are refused as such
			continue
		}

		if own, err := egress.IsOwn(ip); !own || err != nil {
			t.Errorf("%s: %v, %v", ip, own, err)
		}
		if err := (*egress.Guard)(nil).Check(ip); !refused(err) {
			t.Errorf("%s: %v", ip, err)
		}
	}

	for _, other := range []string{"10.255.255.253", "2001:4860::1", "198.51.100.77"} {
		if own, err := egress.IsOwn(netip.MustParseAddr(other)); own || err != nil {
			t.Errorf("%s: %v, %v", other, own, err)
		}
	}
}

func TestOwnAddressesAreRefusedInEachFormToCallers(t *testing.T) {
	t.Parallel()
	g := egress.New(egress.Options{Allow: networks(t, "10.7.0.9")}).
		WithOwn(netip.MustParseAddr("10.7.0.1"), netip.MustParseAddr("10.7.0.9"), netip.MustParseAddr("fd07::1"))
	for address, no := range map[string]bool{
		"10.7.0.1": true, "fd07::1": true, "fd07::1%eth0": true, "::ffff:10.7.0.1": true, "::ffff:0:10.7.0.1": true, "::10.7.0.1": true,
		"64:ff9b::a07:1": true, "2002:a07:1::1": true, "2001:0:a07:1::1": true, "fd00::5efe:a07:1": true,

		"10.7.0.2": false, "fd07::2": false, "10.7.0.9": false,
	} {
		err := g.Check(netip.MustParseAddr(address))
		if refused(err) != no || no && !strings.Contains(err.Error(), "this machine's own address") {
			t.Errorf("%s: %v", address, err)
		}
		if err := g.With(networks(t, "0.0.0.0/0,::/0")...).Check(netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s, which is allowed: %v", address, err)
		}
	}
}

func TestConfiguredAddressesMayBeWhereASiteHasItsOwn(t *testing.T) {
	t.Parallel()
	g := egress.New(egress.Options{Deny: networks(t, "100.64.9.0/24")}).
		WithOwn(netip.MustParseAddr("10.7.0.1")).ForConfigured()
	for address, no := range map[string]bool{
		"10.7.0.1": false, "100.64.0.1": false, "198.18.0.1": false, "192.0.2.1": false, "192.0.0.8": false, "10.7.0.2": false,

		"127.0.0.1": true, "::1": true, "169.254.169.254": true, "fe80::1": true, "100.100.100.200": true, "192.0.0.192": true,
		"240.0.0.1": true, "0.0.0.0": true, "100.64.9.1": true, "64:ff9b::7f00:1": true,
	} {
		if err := g.Check(netip.MustParseAddr(address)); refused(err) != no {
			t.Errorf("%s: %v", address, err)
		}
		if err := g.WithoutProxy().Check(netip.MustParseAddr(address)); refused(err) != no {
			t.Errorf("%s without a proxy: %v", address, err)
		}
	}
}
