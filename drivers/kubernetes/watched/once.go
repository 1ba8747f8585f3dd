package watched

import (
	"context"
	"net/http"
	"strconv"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// client-go repeats a request that was answered with Retry-After up to ten times before it returns the error. An API
// server that can't convert one kind answers each with 429 after three seconds: that a kind can't be listed, and why,
// would be known after a minute. A list or watch is answered once therefore, and repeated after the time by its caller.

type onceKey struct{}

// once is one request that isn't repeated by the client.
type once struct{ after time.Duration }

// Once returns a context whose requests return the first answer, where they go through [AnswerOnce].
func Once(ctx context.Context) context.Context {
	ctx, _ = withOnce(ctx)
	return ctx
}

func withOnce(ctx context.Context) (context.Context, *once) {
	o := &once{}
	return context.WithValue(ctx, onceKey{}, o), o
}

// retryAfterMost is the longest pause that is taken from an answer: a proxy may ask for an hour.
const retryAfterMost = 30 * time.Second

// wait waits for as long as the server asked for, at most until ctx ends.
func (o *once) wait(ctx context.Context) {
	if o.after <= 0 {
		return
	}
	select {
	case <-time.After(min(o.after, retryAfterMost)):
	case <-ctx.Done():
	}
}

// AnswerOnce returns a transport for the requests of [Once]. Others pass as they are.
func AnswerOnce(next http.RoundTripper) http.RoundTripper { return onceTransport{next} }

type onceTransport struct{ next http.RoundTripper }

// WrappedRoundTripper lets the connections below be closed.
func (t onceTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections closes those of the transport below.
func (t onceTransport) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(t.next) }

// RoundTrip implements [http.RoundTripper].
func (t onceTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	asked, ok := r.Context().Value(onceKey{}).(*once)
	if !ok || err != nil {
		return resp, err
	}

	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		asked.after = time.Duration(seconds) * time.Second
		resp.Header.Del("Retry-After")
	}
	return resp, nil
}
