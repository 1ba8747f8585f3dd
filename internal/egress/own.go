package egress

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// isOwn reports whether the kernel would deliver what is sent to ip to this machine itself: it is
// an address of one of its interfaces, or its routing table has it as local.
//
// The kernel is asked for the source address of such a packet, which for an own address is that
// address. Nothing is sent, and the answer is that of this moment: a list of interfaces would be
// stale when an address is added, and lacks local routes.
func isOwn(ip netip.Addr) (bool, error) {
	const discard = 9 // any port will do
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, discard)))
	switch {
	case noRoute(err): // the call itself will say so
		return false, nil
	case err != nil:
		return false, err
	}
	defer c.Close()

	from, ok := netip.AddrFromSlice(c.LocalAddr().(*net.UDPAddr).IP)
	return ok && from.Unmap() == ip.WithZone(""), nil
}

// noRoute reports whether nothing can be sent to an address, to this machine or another one.
func noRoute(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT, syscall.EACCES, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (g *Guard) ownAddress(ip netip.Addr) (bool, error) {
	if g == nil || g.own == nil {
		return isOwn(ip)
	}
	return g.own(ip)
}
