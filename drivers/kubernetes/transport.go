package kubernetes

import (
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// discoveryPatience bounds one question about the kinds that the API server has.
const discoveryPatience = 32 * time.Second

// transport is the way of all requests to the API server. It stands before whatever adds
// credentials to them, so that nothing is asked for credentials either once the line is
// closed.
//
// A request that changes something is begun only while enough of the instance's lease is left
// ([drivers.MayChange]), and the API server is told to give up when that ends. One that has needed
// longer than that gets its own time for a while: what comes late is drift, and is put right, while not to
// write at all would be an outage.
type transport struct {
	next   http.RoundTripper
	closed atomic.Bool
	// slow is until when the API server is given its own time, in Unix nanoseconds.
	slow atomic.Int64
}

// slowFor is how long an API server that has needed longer than the lease lasted is given its own time.
const slowFor = 10 * time.Minute

// newTransport returns the transport; wrap is [Options.Wrap].
func newTransport(config *rest.Config, wrap func(http.RoundTripper) http.RoundTripper) (*transport, error) {
	next, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	if wrap != nil {
		next = wrap(next)
	}
	return &transport{next: watched.AnswerOnce(bound().Bound(next))}, nil
}

// RoundTrip implements [http.RoundTripper].
func (l *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.closed.Load() {
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTripper has it; nobody reads it
		}
		return nil, watched.ErrClosed
	}
	if !changes(r) {
		return l.next.RoundTrip(r)
	}
	limit, err := drivers.MayChange(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // likewise
		}
		return nil, err
	}
	if limit == 0 || time.Now().UnixNano() < l.slow.Load() {
		return l.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Set("timeout", limit.Round(time.Millisecond).String())
	r.URL.RawQuery = q.Encode()
	answer, err := l.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusGatewayTimeout {
		l.slow.Store(time.Now().Add(slowFor).UnixNano())
	}
	return answer, err
}

// changes says whether the request may change something: it isn't read alone, and isn't a dry run.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && !r.URL.Query().Has("dryRun")
}

func (l *transport) close() { l.closed.Store(true) }

// closeIdle ends the connections on which nothing is under way. Connections may be
// shared with drivers whose VIM has the same certificates; those make new ones.
func (l *transport) closeIdle() { utilnet.CloseIdleConnectionsFor(l.next) }
