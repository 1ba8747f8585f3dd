package openstack

import (
	"net/http"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// confidential refuses requests whose credentials would go over the network in clear. Each
// request has some, and the catalogue of a Keystone that is asked by https may name services
// that are not.
type confidential struct {
	guard *egress.Guard
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (c *confidential) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.guard.MayCarryCredentials(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTripper has it; nobody reads it
		}
		return nil, err
	}
	return c.next.RoundTrip(r)
}

// CloseIdleConnections closes those of the transport below.
func (c *confidential) CloseIdleConnections() {
	if next, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
