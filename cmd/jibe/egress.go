package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// egressFlags are those that say whom others may have the server call.
func egressFlags(f *pflag.FlagSet, o *egress.Options) {
	f.Var((*networks)(&o.Allow), "egress-allow", "networks that subscribers, VIMs, NFVOs, element managers and packages may be in although they aren't called otherwise: loopback, link-local, multicast, reserved, metadata; may be repeated")
	f.Var((*networks)(&o.Deny), "egress-deny", "networks that may not be called; they win over --egress-allow; may be repeated")
	f.BoolVar(&o.Proxy, "egress-proxy", false, "call them through the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name; the proxy's own rules must keep it from forbidden addresses then")
	f.BoolVar(&o.PlainCredentials, "allow-credentials-over-http", false, "send credentials also to addresses that begin with http://")
}

// networks is a flag with networks.
type networks []netip.Prefix

// Set implements pflag.Value: a bad entry refuses all of text.
func (n *networks) Set(text string) error {
	more, err := egress.ParseNetworks(text)
	if err != nil {
		return err
	}
	*n = append(*n, more...)
	return nil
}

// String implements pflag.Value.
func (n *networks) String() string { return strings.Trim(fmt.Sprint([]netip.Prefix(*n)), "[]") }

// Type implements pflag.Value: it is what the help calls the value.
func (n *networks) Type() string { return "CIDR,…" }
