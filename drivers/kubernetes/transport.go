package kubernetes

import (
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// discoveryPatience bounds one question about the kinds that the API server has.
const discoveryPatience = 32 * time.Second

// transport is the way of all requests to the API server. It stands before whatever adds
// credentials to them, so that nothing is asked for credentials either once the line is
// closed.
type transport struct {
	next   http.RoundTripper
	closed atomic.Bool
}

// newTransport returns the transport; wrap is [Options.Wrap].
func newTransport(config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) (*transport, error) {
	next, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		next = wrap(next)
	}
	return &transport{next: next}, nil
}

// RoundTrip implements [http.RoundTripper].
func (l *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.closed.Load() {
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTripper has it; nobody reads it
		}
		return nil, watched.ErrClosed
	}
	return l.next.RoundTrip(r)
}

func (l *transport) close() { l.closed.Store(true) }

// closeIdle ends the connections on which nothing is under way. Connections may be
// shared with drivers whose VIM has the same certificates; those make new ones.
func (l *transport) closeIdle() { utilnet.CloseIdleConnectionsFor(l.next) }
