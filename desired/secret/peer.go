package secret

import (
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

// ResolvePeer returns how the peer is called, with its credentials in clear; Version and the
// limits are left to the caller. An error names the field. A reference that the keeper's
// [Reach] rules out is a [*ForbiddenError].
func (k *Keeper) ResolvePeer(p *desired.Peer) (peer.Settings, error) {
	c := p.Credentials
	clear := map[string]string{}
	for _, f := range []struct{ name, ref string }{
		{"caCert", p.CACert},
		{"credentials.password", c.Password},
		{"credentials.clientPassword", c.ClientPassword},
		{"credentials.clientCert", c.ClientCert},
		{"credentials.clientKey", c.ClientKey},
	} {
		if f.ref == "" || f.name == "caCert" && !IsRef(f.ref) {
			clear[f.name] = f.ref
			continue
		}
		s, err := k.For(ForSettings()).Resolve(f.ref)
		if err != nil {
			return peer.Settings{}, fmt.Errorf("resolve peer %s: %w", p.Name, of(f.name, err))
		}
		clear[f.name] = s
	}
	out := peer.Settings{TLS: peer.TLS{CA: []byte(clear["caCert"]), Certificate: []byte(clear["credentials.clientCert"]), Key: []byte(clear["credentials.clientKey"])}}
	switch {
	case c.TokenEndpoint != "":
		out.Authentication = &peer.Authentication{OAuth: &peer.OAuth{
			TokenEndpoint: c.TokenEndpoint, ClientID: c.ClientID, ClientPassword: clear["credentials.clientPassword"]}}
	case c.Username != "":
		out.Authentication = &peer.Authentication{Basic: &peer.Basic{UserName: c.Username, Password: clear["credentials.password"]}}
	}
	return out, nil
}
