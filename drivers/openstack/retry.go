package openstack

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The waits that a service may ask for: what is longer is an error, and the time is
// heeded all the same.
const (
	unsaid      = 2 * time.Second // 429 without Retry-After
	longestWait = 5 * time.Second
	waits       = 3
)

// patient bounds how many requests are under way, and heeds services that say they have
// too many (429, or 503 with Retry-After): nobody asks them before the time that they name.
// Once it is closed, it sends nothing any more.
type patient struct {
	next  http.RoundTripper
	slots chan struct{}
	life  context.Context // of the driver

	mu    sync.Mutex
	until map[string]time.Time // by host and port: when it may be asked again
}

func newPatient(life context.Context, next http.RoundTripper, parallel int) *patient {
	return &patient{life: life, next: next, slots: make(chan struct{}, parallel), until: map[string]time.Time{}}
}

// RoundTrip implements [http.RoundTripper].
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for tried := 0; ; tried++ {
		if wait := p.pause(r.URL.Host); wait > 0 {
			if wait > longestWait {
				return busy(r, wait), nil
			}
			select {
			case <-time.After(wait):
			case <-p.life.Done(): // which once says
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		answer, err := p.once(r)
		if err != nil || !throttled(answer) {
			return answer, err
		}
		wait := retryAfter(answer)
		p.mu.Lock()
		p.until[r.URL.Host] = time.Now().Add(wait)
		p.mu.Unlock()
		again, ok := rewound(r)
		if wait > longestWait || tried >= waits || !ok {
			return answer, nil
		}
		_ = answer.Body.Close() // nothing in it is needed
		r = again
	}
}

func (p *patient) once(r *http.Request) (*http.Response, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		if p.life.Err() != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as the contract of RoundTripper has it; nobody reads it
			}
			return nil, errClosed
		}
		return p.next.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (p *patient) pause(host string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until[host])
}

// CloseIdleConnections is what http.Client calls.
func (p *patient) CloseIdleConnections() {
	if c, ok := p.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// throttled says whether the service did nothing because it has too much to do.
func throttled(answer *http.Response) bool {
	return answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != ""
}

func retryAfter(answer *http.Response) time.Duration {
	said := answer.Header.Get("Retry-After")
	if n, err := strconv.Atoi(said); err == nil && n >= 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(said); err == nil {
		return max(0, time.Until(at))
	}
	return unsaid
}

// rewound is the request once more; false where its body can't be read again.
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

// busy is the answer of a service that asked not to be asked yet.
func busy(r *http.Request, wait time.Duration) *http.Response {
	seconds := strconv.Itoa(int(wait.Seconds() + 1))
	return &http.Response{
		Status: "429 Too Many Requests", StatusCode: http.StatusTooManyRequests, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Retry-After": {seconds}}, Body: http.NoBody, Request: r,
	}
}
