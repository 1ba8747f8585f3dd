package openstack

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

const (
	defaultWait = 2 * time.Second // after a 429 without Retry-After
	// longestWait is the longest time that a request waits for a service. Where the service
	// asks for more, the request fails at once, and so does each other one until then.
	longestWait = 5 * time.Second
	maxRetries  = 3
)

// retryTransport bounds how many requests are under way, and honours services that have too
// many (429, or 503 with Retry-After): it sends them nothing before the time that they name,
// and then sends the request again. Once the driver is closed, it sends nothing any more.
//
// A library's backoff doesn't replace it: how long to wait is the service's to say, and it
// holds for all requests to the service at once.
type retryTransport struct {
	next  http.RoundTripper
	slots chan struct{}
	life  context.Context // of the driver

	mu    sync.Mutex
	until map[string]time.Time // by host and port: when it may be asked again
}

func newRetryTransport(life context.Context, next http.RoundTripper, parallel int) *retryTransport {
	return &retryTransport{life: life, next: next, slots: make(chan struct{}, parallel), until: map[string]time.Time{}}
}

// RoundTrip implements [http.RoundTripper].
func (t *retryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	for tried := 0; ; tried++ {
		if wait := t.pause(r.URL.Host); wait > 0 {
			if wait > longestWait {
				return tooManyRequests(r, wait), nil
			}
			select {
			case <-time.After(wait):
			case <-t.life.Done(): // once returns the error
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		answer, err := t.once(r)
		if err != nil || !throttled(answer) {
			return answer, err
		}
		wait := retryAfter(answer)
		t.mu.Lock()
		t.until[r.URL.Host] = time.Now().Add(wait)
		t.mu.Unlock()
		again, ok := rewound(r)
		if wait > longestWait || tried >= maxRetries || !ok {
			return answer, nil
		}
		_ = answer.Body.Close() // nothing in it is needed
		r = again
	}
}

func (t *retryTransport) once(r *http.Request) (*http.Response, error) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
		if t.life.Err() != nil {
			if r.Body != nil {
				_ = r.Body.Close() // the contract of RoundTripper asks for it; nobody reads an error
			}
			return nil, errClosed
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			// No service takes a limit: what comes late is refused while other work is under way, or is drift.
			if _, err := drivers.MayChange(r.Context()); err != nil {
				if r.Body != nil {
					_ = r.Body.Close() // likewise
				}
				return nil, err
			}
		}
		return t.next.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (t *retryTransport) pause(host string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.until[host])
}

// CloseIdleConnections is what http.Client calls.
func (t *retryTransport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// throttled says whether the service refused the request because it has too much to do.
func throttled(answer *http.Response) bool {
	return answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != ""
}

func retryAfter(answer *http.Response) time.Duration {
	after := answer.Header.Get("Retry-After")
	if n, err := strconv.Atoi(after); err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, time.Until(at))
	}
	return defaultWait
}

// rewound is a copy of the request to send again; false where its body can't be read again.
func rewound(r *http.Request) (*http.Request, bool) {
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	again.Body = body
	return again, err == nil
}

// tooManyRequests is the answer in place of a service that must not be asked yet.
func tooManyRequests(r *http.Request, wait time.Duration) *http.Response {
	seconds := strconv.Itoa(int(wait.Seconds() + 1))
	return &http.Response{
		Status: "429 Too Many Requests", StatusCode: http.StatusTooManyRequests, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Retry-After": {seconds}}, Body: http.NoBody, Request: r,
	}
}
