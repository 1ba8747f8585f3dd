// Package egress decides which addresses this process may call on behalf of others: the
// callbacks of subscribers, token endpoints, VIMs, NFVOs and element managers, and the places
// that packages are fetched from. It owns the one dialer that all of these calls go through.
//
// An address is judged when a connection to it is about to be made, after its name was looked up,
// so that neither a name that changes its address between two looks, nor another way to write
// an address, nor a redirect leads around it. What is called because flags of this process name
// it (an identity provider, the key's service) doesn't go through here, and neither does git.
package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Options say what a [Guard] lets pass. The zero value refuses this machine, link-local,
// multicast, metadata, shared, reserved and other special addresses, goes through no proxy, and
// sends credentials by https only. Private networks are allowed: VIMs are there.
type Options struct {
	// Allow are networks that may be called although they are refused otherwise.
	Allow []netip.Prefix
	// Deny are networks that may not be called; they win over Allow.
	Deny []netip.Prefix
	// Proxy has calls go through the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name. This
	// process then looks the target's name up and refuses what it would refuse without a proxy;
	// but the proxy looks it up again, so that its own rules have to hold where names can't be
	// trusted.
	Proxy bool
	// PlainCredentials lets credentials be sent without TLS.
	PlainCredentials bool
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
	// Log gets one line for what was refused, at most one a second; nil is silence.
	Log *slog.Logger
}

// Guard judges addresses. It is safe for concurrent use, and nil is one of the zero [Options]:
// who forgets it gets the strictest.
type Guard struct {
	Options
	proxy    func(*url.URL) (*url.URL, error) // nil for none
	proxies  map[string]bool                  // their addresses, as the transport dials them
	anywhere bool
	// configured guards judge what an administrator has configured.
	configured bool
	own        func(netip.Addr) (bool, error) // nil is isOwn
	lastLine   atomic.Int64                   // when a refusal was last logged, Unix nanoseconds
	silent     atomic.Int64                   // refusals since
}

// New returns a guard. The environment's proxies are read once, here.
func New(o Options) *Guard {
	g := &Guard{Options: o}
	if o.Proxy {
		env := httpproxy.FromEnvironment()
		g.proxy, g.proxies = env.ProxyFunc(), map[string]bool{}
		for _, text := range []string{env.HTTPProxy, env.HTTPSProxy} {
			if at := proxyAddress(text); at != "" {
				g.proxies[at] = true
			}
		}
	}
	return g
}

// Anywhere returns a guard that refuses nothing, for a person's own command line and for tests.
func Anywhere() *Guard {
	return &Guard{anywhere: true, Options: Options{PlainCredentials: true}}
}

// With returns the guard that allows these networks, too. What is denied stays denied.
func (g *Guard) With(allow ...netip.Prefix) *Guard {
	o := g.options()
	o.Allow = append(append([]netip.Prefix{}, o.Allow...), allow...)
	out := &Guard{Options: o}
	if g != nil {
		out.proxy, out.proxies, out.anywhere = g.proxy, g.proxies, g.anywhere
		out.configured, out.own = g.configured, g.own
	}
	return out
}

// ForConfigured returns the guard of addresses that an administrator has configured, in vims/ or
// peers.yaml. They may be in the networks that a site uses for itself, as 100.64.0.0/10, and at
// this machine's address in its network, where a small site has the API server, too. Callers
// can't name such addresses; loopback, link-local and metadata addresses are refused for all.
func (g *Guard) ForConfigured() *Guard {
	out := g.With()
	out.configured = true
	return out
}

// WithoutProxy returns the guard that goes through no proxy, whatever the environment says.
func (g *Guard) WithoutProxy() *Guard {
	out := g.With()
	out.Options.Proxy, out.proxy, out.proxies = false, nil, nil
	return out
}

func (g *Guard) options() Options {
	if g == nil {
		return Options{}
	}
	return g.Options
}

// RefusedError is returned for an address that may not be called. The same call is refused again
// until the flags of the process change.
type RefusedError struct {
	// Address is as it was about to be called, Reason what it is.
	Address, Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %s", e.Address, e.Reason)
}

// Check returns a [*RefusedError] for an address that may not be called.
func (g *Guard) Check(ip netip.Addr) error {
	if g != nil && g.anywhere {
		return nil
	}
	for _, form := range forms(ip) {
		if reason := g.judge(form); reason != "" {
			return &RefusedError{Address: ip.String(), Reason: reason}
		}
	}
	return nil
}

func (g *Guard) resolver() *net.Resolver {
	if r := g.options().Resolver; r != nil {
		return r
	}
	return net.DefaultResolver
}

// NoAnswer is what somebody outside is told where a call had no answer, whatever the reason.
const NoAnswer = "no answer could be had: the log of the server says why"

// Host looks a name up, or reads an address in whichever notation, and returns a
// [*RefusedError] if any address that it stands for may not be called.
// What is connected to later is to be judged again, by the dialer.
func (g *Guard) Host(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return g.Check(ip)
	}
	if (g == nil || !g.anywhere) && numeric(host) {
		return &RefusedError{Address: host, Reason: numericReason}
	}
	found, err := g.resolver().LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("look %s up: %w", host, err)
	}
	for _, ip := range found {
		if err := g.Check(ip); err != nil {
			return err
		}
	}
	return nil
}

// DialContext returns what makes the connections of an [http.Transport] whose Proxy is
// [Guard.ProxyFor]; timeout bounds each.
func (g *Guard) DialContext(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	guarded := net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second, ControlContext: g.control, Resolver: g.options().Resolver}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if g != nil && g.proxies[address] {
			// ProxyFor has judged the target, and who started the process has named the proxy.
			return (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
		}
		if host, _, err := net.SplitHostPort(address); err == nil && numeric(host) && (g == nil || !g.anywhere) {
			err := &RefusedError{Address: address, Reason: numericReason}
			g.tell(ctx, address, err)
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return guarded.DialContext(ctx, network, address)
	}
}

const numericReason = "is no usual notation of an address: write it as 192.0.2.1 or 2001:db8::1"

// numeric says whether a host isn't an address as it is usually written, but one that some
// resolvers read as such: 2130706433, 0x7f000001, 0177.1. No name ends in that way.
func numeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	return last != "" && strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == ""
}

// control is asked for each address that a name stands for, when it is about to be called.
func (g *Guard) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	if g != nil && g.anywhere {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	switch {
	case !strings.HasPrefix(network, "tcp"):
		return &RefusedError{Address: address, Reason: "is none of TCP"}
	case err != nil:
		return &RefusedError{Address: address, Reason: "is no address that can be judged"}
	}
	if err := g.Check(at.Addr()); err != nil {
		g.tell(ctx, address, err)
		return err
	}
	return nil
}

// ProxyFor is the Proxy of an [http.Transport]. A request that would go through a proxy is
// refused here if it would be refused without one, or if its name can't be looked up.
func (g *Guard) ProxyFor(r *http.Request) (*url.URL, error) {
	if g == nil || g.proxy == nil {
		return nil, nil
	}
	through, err := g.proxy(r.URL)
	if err != nil {
		return nil, err
	}
	// Also where it goes directly: the target may be the proxy's own address, which is dialled freely.
	if err := g.Host(r.Context(), r.URL.Hostname()); err != nil {
		var no *RefusedError
		if errors.As(err, &no) {
			g.tell(r.Context(), r.URL.Host, err)
		}
		return nil, err
	}
	return through, nil
}

// tell logs a refusal. Whoever may cause them mustn't be able to fill the disk with them.
func (g *Guard) tell(ctx context.Context, address string, err error) {
	if g == nil || g.Log == nil {
		return
	}
	now, last := time.Now().UnixNano(), g.lastLine.Load()
	if now-last < int64(time.Second) || !g.lastLine.CompareAndSwap(last, now) {
		g.silent.Add(1)
		return
	}
	g.Log.WarnContext(ctx, "an outgoing connection was refused", "address", address, "error", err, "refusedBefore", g.silent.Swap(0))
}

// PlainError is returned where credentials would go over the network in clear.
type PlainError struct {
	// Place is the scheme and host that was to be called.
	Place string
}

func (e *PlainError) Error() string {
	return "credentials would be sent in clear to " + e.Place + ": give an address that begins with https://, or start jibe serve with --allow-credentials-over-http"
}

// MayCarryCredentials returns a [*PlainError] unless the URL is one of https, or an address
// of this machine itself, or the guard lets credentials be sent in clear.
func (g *Guard) MayCarryCredentials(u *url.URL) error {
	if strings.EqualFold(u.Scheme, "https") || g.options().PlainCredentials {
		return nil
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return &PlainError{Place: u.Scheme + "://" + u.Host}
}

// proxyAddress is how a transport dials the proxy that a variable names; "" for none.
func proxyAddress(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		if u, err = url.Parse("http://" + text); err != nil {
			return ""
		}
	}
	port := u.Port()
	if port == "" {
		switch u.Scheme {
		case "https":
			port = "443"
		case "socks5", "socks5h":
			port = "1080"
		default:
			port = "80"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}
