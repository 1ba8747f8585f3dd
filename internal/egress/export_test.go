package egress

import "net/netip"

// WithOwn returns the guard of a machine that has these addresses.
func (g *Guard) WithOwn(addresses ...netip.Addr) *Guard {
	out := g.With()
	out.own = func(ip netip.Addr) (bool, error) {
		for _, a := range addresses {
			if a == ip {
				return true, nil
			}
		}
		return false, nil
	}
	return out
}

// IsOwn is isOwn.
func IsOwn(ip netip.Addr) (bool, error) { return isOwn(ip) }
