package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// ParseNetworks reads networks in CIDR form, or single addresses, with commas between them. One
// that can't be read refuses all.
func ParseNetworks(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		network, err := netip.ParsePrefix(entry)
		if err != nil {
			ip, bad := netip.ParseAddr(entry)
			if bad != nil || ip.Zone() != "" {
				return nil, fmt.Errorf("%q is no network: want CIDR form, as 10.1.0.0/16 or fd00:1::/32, or an address", entry)
			}
			network = netip.PrefixFrom(ip, ip.BitLen())
		}
		if ip := network.Addr(); ip.Is4In6() {
			if network.Bits() < 96 {
				return nil, fmt.Errorf("%q is no network of IPv4: write it as such", entry)
			}
			network = netip.PrefixFrom(ip.Unmap(), network.Bits()-96)
		}
		if whole := network.Masked(); whole != network {
			return nil, fmt.Errorf("%q has bits behind its prefix: write %s for the network, or %s for the address", entry, whole, network.Addr())
		}
		out = append(out, network)
	}
	return out, nil
}

// class is a kind of address that isn't called unless it is allowed.
type class struct {
	network netip.Prefix
	is      string
	// site networks are those that a site may use for itself, so that what an administrator has
	// configured may be there.
	site bool
}

func classes() []class {
	out := make([]class, 0, 48)

	for _, c := range []struct{ network, is string }{
		// Where clouds keep credentials and settings of a machine, beyond the link-local range.
		{"100.100.100.200/32", "metadata"}, {"192.0.0.192/32", "metadata"}, {"168.63.129.16/32", "metadata"},
		{"fd00:ec2::254/128", "metadata"}, {"fd00:ec2::23/128", "metadata"}, {"fd20:ce::254/128", "metadata"}, {"fd00:42::42/128", "metadata"},
		{"0.0.0.0/8", "unspecified"}, {"::/128", "unspecified"},
		{"127.0.0.0/8", "loopback"}, {"::1/128", "loopback"},
		{"169.254.0.0/16", "link-local"}, {"fe80::/10", "link-local"}, {"fec0::/10", "site-local"},
		{"224.0.0.0/4", "multicast"}, {"ff00::/8", "multicast"},
		{"240.0.0.0/4", "reserved"}, {"100::/64", "discard-only"},
		// NAT64 of a network's own (RFC 8215): where in it the IPv4 address stands can't be told.
		{"64:ff9b:1::/48", "translated"},
	} {
		out = append(out, class{network: netip.MustParsePrefix(c.network), is: c.is})
	}

	// What else the registries of special-purpose addresses (RFC 6890) have as not globally
	// reachable, save for private networks.
	for _, c := range []struct{ network, is string }{
		{"100.64.0.0/10", "shared (CGNAT)"}, {"192.0.0.0/24", "protocol-assignment"},
		{"198.18.0.0/15", "benchmarking"}, {"2001:2::/48", "benchmarking"},
		{"192.0.2.0/24", "documentation"}, {"198.51.100.0/24", "documentation"}, {"203.0.113.0/24", "documentation"},
		{"2001:db8::/32", "documentation"}, {"3fff::/20", "documentation"},
		{"192.88.99.0/24", "6to4-relay"}, {"5f00::/16", "segment-routing"}, {"100:0:0:1::/64", "dummy"},
		{"2001:10::/28", "ORCHID"}, {"2001:20::/28", "ORCHID"}, {"2001:30::/28", "drone"},
	} {
		out = append(out, class{network: netip.MustParsePrefix(c.network), is: c.is, site: true})
	}

	return out
}

// judge says why an address in one form may not be called, "" if it may.
func (g *Guard) judge(ip netip.Addr) string {
	o, configured := g.options(), g != nil && g.configured

	if contains(o.Deny, ip) {
		return "is in a network that --egress-deny names"
	}
	if contains(o.Allow, ip) {
		return ""
	}

	for _, c := range classes() {
		if c.network.Contains(ip) && !(configured && c.site) {
			return "is a " + c.is + " address, which isn't called unless --egress-allow names it"
		}
	}

	if configured {
		return ""
	}
	switch own, err := g.ownAddress(ip); {
	case err != nil:
		return "can't be told from this machine's own addresses (" + err.Error() + "), which aren't called unless --egress-allow names them"
	case own:
		return "is this machine's own address, which isn't called unless --egress-allow names it"
	}
	return ""
}

func contains(networks []netip.Prefix, ip netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}

// forms are an address and the IPv4 addresses that it leads to where a network translates it, in
// each of the ways that this has been written. Each has to pass.
func forms(ip netip.Addr) []netip.Addr {
	ip = ip.WithZone("").Unmap()
	if ip.Is4() {
		return []netip.Addr{ip}
	}
	out := []netip.Addr{ip}
	b := ip.As16()
	four := func(at ...int) { out = append(out, netip.AddrFrom4([4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]})) }
	in := func(network string) bool { return netip.MustParsePrefix(network).Contains(ip) }
	switch {
	case ip.IsUnspecified() || ip.IsLoopback(): // they look like IPv4-compatible ones
	case in("::/96"), in("::ffff:0:0:0/96"), in("64:ff9b::/96"): // IPv4-compatible, SIIT (RFC 2765), NAT64 (RFC 6052)
		four(12, 13, 14, 15)
	case in("2002::/16"): // 6to4 (RFC 3056)
		four(2, 3, 4, 5)
	case in("2001::/32"): // Teredo (RFC 4380): the server, and the client with its bits turned
		four(4, 5, 6, 7)
		out = append(out, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP (RFC 5214), in any network
		four(12, 13, 14, 15)
	}
	return out
}
