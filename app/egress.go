package app

import (
	"net/netip"
	"os"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

// newGuard makes what judges the addresses that others have this process call.
func (s *host) newGuard() *egress.Guard {
	o := s.Egress
	o.Log = s.Log
	if !o.Proxy && (os.Getenv("HTTPS_PROXY") != "" || os.Getenv("https_proxy") != "" || os.Getenv("HTTP_PROXY") != "" || os.Getenv("http_proxy") != "") {
		s.Log.Warn("the environment names a proxy, which calls to VIMs, subscribers, NFVOs and element managers don't go through: start jibe serve with --egress-proxy if they should")
	}
	return egress.New(o)
}

// packageSources judges the places that packages are fetched from. There is no proxy in between.
func (s *host) packageSources() *egress.Guard {
	guard := s.egress.WithoutProxy()
	if s.Packages.LocalSources {
		guard = guard.With(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
	}
	return guard
}

// peer is [reconciler.Peers]: how an element manager is called.
func (s *host) peer(p *desired.Peer) (peer.Settings, error) {
	out, err := secrets{s.keeper}.Peer(p)
	out.Egress = s.egress.ForConfigured()
	return out, err
}

// nfvoSettings say how the NFVO is called.
func (s *host) nfvoSettings(p *desired.Peer) (peer.Settings, error) {
	out, err := s.keeper.ResolvePeer(p)
	out.Egress = s.egress.ForConfigured()
	return out, err
}
