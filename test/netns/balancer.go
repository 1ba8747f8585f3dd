package netns

import (
	"context"
	"fmt"
	"net/netip"
)

// BalancerPort is where a balancer listens for the clients of its backend.
const BalancerPort = 80

// balancerConfig is that of a balancer whose backend has no server yet, for operators to
// fill in. /run/haproxy.pid is the master's, as under Debian's own unit.
const balancerConfig = `global
    user haproxy
    group haproxy
    maxconn 500
    hard-stop-after 30s

defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    timeout queue 10s
    timeout http-keep-alive 1s
    option redispatch
    retries 3

frontend vnf
    bind :80
    default_backend vnf

backend vnf
    balance roundrobin
    option httpchk GET /
    default-server check inter 500ms
`

// AddBalancer makes a host with a real haproxy, of which nothing is configured yet but
// that it leads [BalancerPort] to its backend "vnf". Its Labels, Users and name are those
// of the Spec.
func (l *Lab) AddBalancer(ctx context.Context, addr netip.Addr, spec Spec) (*Host, error) {
	if err := need(ctx, "haproxy", "haproxy"); err != nil {
		return nil, err
	}
	spec.Addrs, spec.NoWeb = []netip.Addr{addr}, true
	h, err := l.Add(ctx, spec)
	if err != nil {
		return nil, err
	}
	err = h.WriteFile("/etc/haproxy/haproxy.cfg", []byte(balancerConfig), 0)
	if err == nil {
		err = h.Serve("haproxy", "-W", "-f", "/etc/haproxy/haproxy.cfg", "-p", "/run/haproxy.pid")
	}
	if err == nil {
		err = h.await(ctx, BalancerPort)
	}
	if err != nil {
		h.Remove()
		return nil, fmt.Errorf("balancer at %s: %w", addr, err)
	}
	return h, nil
}
