package egress_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

func networks(t *testing.T, text string) []netip.Prefix {
	t.Helper()
	out, err := egress.ParseNetworks(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func client(g *egress.Guard) *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: g.ProxyFor, DialContext: g.DialContext(time.Second), DisableKeepAlives: true}}
}

func refused(err error) bool {
	_, is := errors.AsType[*egress.RefusedError](err)
	return is
}

func TestAddressesOfThisMachineTheLinkAndMetadataAreRefusedInEachFormAndOthersNot(t *testing.T) {
	for address, no := range map[string]bool{
		"127.0.0.1": true, "127.255.1.2": true, "0.0.0.0": true, "0.1.2.3": true, "169.254.169.254": true, "169.254.1.1": true,
		"224.0.0.1": true, "255.255.255.255": true, "240.0.0.1": true, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"::": true, "::1": true, "fe80::1": true, "fe80::1%eth0": true, "fec0::1": true, "ff02::1": true, "fd00:ec2::254": true, "fd20:ce::254": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "::127.0.0.1": true, "::ffff:0:127.0.0.1": true,
		"64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b:1::a9fe:a9fe": true,
		"2002:7f00:1::1": true, "2002:a9fe:a9fe::": true, "2001:0:a9fe:a9fe::1": true, "2001:0:102:304:0:0:80ff:fffe": true,
		"fd00::5efe:7f00:1": true, "2001:db8::200:5efe:a9fe:a9fe": true,

		"100.64.0.1": true, "100.127.255.254": true, "192.0.0.1": true, "192.0.0.8": true, "198.18.0.1": true, "198.19.255.254": true,
		"192.0.2.1": true, "198.51.100.1": true, "203.0.113.1": true, "2001:db8::1": true, "3fff::1": true, "2001:2::1": true, "5f00::1": true,
		"::ffff:100.64.0.1": true, "64:ff9b::6440:1": true, "2002:c612:1::1": true, "64:ff9b::c000:201": true, "192.88.99.1": true,

		"10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "100.63.255.255": false, "100.128.0.0": false, "198.20.0.1": false, "8.8.8.8": false,
		"fd00::1": false, "2001:4860::1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::1": false,
	} {
		if err := (*egress.Guard)(nil).WithOwn().Check(netip.MustParseAddr(address)); refused(err) != no {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAllowedNetworksPassAndDeniedOnesWinInEachForm(t *testing.T) {
	g := egress.New(egress.Options{Allow: networks(t, "127.0.0.0/8, fe80::/10, 0.0.0.0/0"), Deny: networks(t, "10.9.0.0/16, 127.0.0.9,fd99::/16")}).WithOwn()
	for address, no := range map[string]bool{
		"127.0.0.1": false, "fe80::1": false, "::ffff:127.0.0.1": false, "169.254.169.254": false, "64:ff9b::7f00:1": false, "10.8.0.1": false,
		"127.0.0.9": true, "10.9.1.1": true, "::ffff:10.9.1.1": true, "64:ff9b::a09:101": true, "2002:a09:101::": true, "fd99::1": true, "::1": true,
	} {
		if err := g.Check(netip.MustParseAddr(address)); refused(err) != no {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := g.With(networks(t, "::1,10.9.1.1")...).Check(netip.MustParseAddr("10.9.1.1")); !refused(err) {
		t.Errorf("a network that was denied was allowed afterwards: %v", err)
	}
	if err := g.With(networks(t, "::1")...).Check(netip.MustParseAddr("::1")); err != nil {
		t.Error(err)
	}
}

func TestANetworkThatCannotBeReadRefusesAll(t *testing.T) {
	for _, bad := range []string{"", "10.0.0.0/8,", "10.0.0.1/8", "10.0.0.0/33", "localhost", "fe80::1%eth0", "::ffff:10.0.0.0/90", "10.0.0.0/8 11.0.0.0/8"} {
		if got, err := egress.ParseNetworks(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	if got := networks(t, "::ffff:10.0.0.0/104, 192.0.2.1"); got[0].String() != "10.0.0.0/8" || got[1].String() != "192.0.2.1/32" {
		t.Errorf("got %v", got)
	}
}

// counted is a server on this machine's loopback that counts who connects.
func counted(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &connections
}

func TestNoNotationOfLoopbackReachesAServerThere(t *testing.T) {
	s, connections := counted(t)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	g := egress.New(egress.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.1", "0x7F.1", "2130706433.", "0", "0.0.0.0", "[::]"} {
		if resp, err := client(g).Get("http://" + host + ":" + u.Port()); err == nil {
			resp.Body.Close()
			t.Errorf("%s was called", host)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	if !strings.Contains(log.String(), "loopback") || strings.Count(log.String(), "\n") > 5 {
		t.Errorf("the log says:\n%s", &log)
	}
	open := egress.New(egress.Options{Allow: networks(t, "127.0.0.0/8")})
	resp, err := client(open).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if connections.Load() != 1 {
		t.Error("nobody was called where loopback is allowed")
	}
}

func TestARedirectToAForbiddenAddressIsNotFollowed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	var called atomic.Bool
	inner := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Store(true) })}}
	inner.Start()
	defer inner.Close()
	front := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusFound))
	defer front.Close()
	resp, err := client(egress.New(egress.Options{Allow: networks(t, "127.0.0.1")})).Get(front.URL)
	if err == nil {
		resp.Body.Close()
	}
	if !refused(err) || called.Load() {
		t.Errorf("the redirect was followed: %v", err)
	}
}

func TestAProxyIsUsedOnlyWhereAllowedAndNeverForAForbiddenTarget(t *testing.T) {
	var asked atomic.Value
	asked.Store("")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Host)
		_, _ = io.WriteString(w, "from the proxy")
	}))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")

	through := client(egress.New(egress.Options{Proxy: true}))
	for _, target := range []string{
		"http://169.254.169.254/latest", "https://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://[::ffff:169.254.169.254]/", "http://127.0.0.9/", proxy.URL,
		"http://2130706433/", "http://0x7f.1/", "http://localhost./",
	} {
		if resp, err := through.Get(target); err == nil {
			resp.Body.Close()
			t.Errorf("%s was called", target)
		}
	}
	if got := asked.Load(); got != "" {
		t.Fatalf("the proxy was asked for %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := egress.New(egress.Options{Proxy: true}).Host(ended, "name.example"); err == nil {
		t.Error("a name that couldn't be looked up passed")
	}
	// The proxy's own address is one of loopback, which its being named by the environment allows.
	resp, err := through.Get("http://10.2.0.7/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := asked.Load(); got != "10.2.0.7" {
		t.Errorf("the proxy was asked for %q", got)
	}
	for _, g := range []*egress.Guard{nil, egress.New(egress.Options{}), egress.New(egress.Options{Proxy: true}).WithoutProxy()} {
		r := httptest.NewRequest(http.MethodGet, "http://10.2.0.7/", nil)
		if u, err := g.ProxyFor(r); u != nil || err != nil {
			t.Errorf("a guard that doesn't allow proxies goes through %v (%v)", u, err)
		}
	}
}

func TestCredentialsGoInClearOnlyToThisMachineOrWhereAFlagSaysSo(t *testing.T) {
	for text, may := range map[string]bool{
		"https://nfvo.example/": true, "HTTPS://nfvo.example/": true, "http://127.0.0.1:1/": true, "http://[::1]/": true,
		"http://nfvo.example/": false, "http://10.0.0.1/": false, "http://localhost/": false, "http://127.0.0.1.example/": false, "ftp://nfvo.example": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, plain := errors.AsType[*egress.PlainError]((*egress.Guard)(nil).MayCarryCredentials(u))
		if plain == may {
			t.Errorf("%s: credentials may go there: %v", text, !plain)
		}
		if err := egress.New(egress.Options{PlainCredentials: true}).MayCarryCredentials(u); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzForms holds that no writing of an address of this machine passes, wherever IPv6 carries
// it, and that judging never fails.
func FuzzForms(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::1", "10.0.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := egress.ParseNetworks(text); err == nil && strings.Contains(text, "%") {
			t.Errorf("%q has a zone and was taken as a network", text)
		}
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return
		}
		err = (*egress.Guard)(nil).Check(ip)
		if u := ip.Unmap(); (u.IsLoopback() || u.IsLinkLocalUnicast() || u.IsMulticast() || u.IsUnspecified()) && !refused(err) {
			t.Errorf("%s passed", text)
		}
	})
}
