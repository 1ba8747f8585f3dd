// Package peer calls the parties beside Jibe whose addresses operators and clients give: an
// NFVO that grants, an EM or a VNF that coordinates, a subscriber. It owns what every such
// call needs whatever is said in it: authentication (BASIC, OAuth2 with a password or with a
// certificate, TLS client certificates), which certificates are trusted, time limits, the
// size of answers, and errors that hold no secret.
//
// It never follows a redirect, because that would take credentials, and what an address was
// checked for, elsewhere. It never repeats a request that may have been carried out: whether
// to ask again is the caller's to decide.
package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/trace"
)

const (
	// defaultTimeout bounds one request, its answer included.
	defaultTimeout = 20 * time.Second
	// defaultMaxAnswer is how many bytes of an answer's body are read.
	defaultMaxAnswer = 1 << 20
)

// ErrAnswer is returned for an answer that isn't what the API's definition says: no JSON, too
// long, a Location that leads to another host.
var ErrAnswer = errors.New("the answer can't be used")

// Settings say how a peer is called. They hold secrets in clear, and so don't print.
type Settings struct {
	// Version is sent as the Version header (SOL013 clause 9.3.3), as "1.0.0"; none if empty.
	Version string
	// Authentication goes with every request; nil for none.
	Authentication *Authentication
	// TLS says whom to trust and which certificate to show.
	TLS TLS
	// Timeout bounds one request, from the connection to the end of the answer. 0 means 20 s.
	Timeout time.Duration
	// MaxAnswer is how many bytes of an answer's body are read. 0 means 1 MiB.
	MaxAnswer int64
	// StatusOnly says that the content of answers is of no use: it isn't kept, and one that
	// breaks off is an answer too.
	StatusOnly bool
	// Egress says which addresses may be called, and whether credentials may be sent without
	// TLS; nil is the strictest guard.
	Egress *egress.Guard
	// Transport carries the requests, in place of one that is made of Egress and TLS. It lets peers that
	// trust the same share their connections. [NewTransport] makes one.
	Transport http.RoundTripper
}

// String keeps credentials out of logs and errors.
func (s Settings) String() string { return "settings of a peer" }

// GoString returns the same as String.
func (s Settings) GoString() string { return s.String() }

// Client calls one peer. It is safe for concurrent use; a token is fetched once for all.
type Client struct {
	http      *http.Client
	version   string
	maxAnswer int64
	bodiless  bool
	auth      *authorizer
}

// New returns a client. It fails where a certificate or a key can't be read, or where the
// authentication is incomplete; nothing is called yet.
func New(s Settings) (*Client, error) {
	transport := s.Transport
	if transport == nil {
		made, err := NewTransport(s.Egress, s.TLS, s.Timeout)
		if err != nil {
			return nil, err
		}
		transport = made
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.MaxAnswer == 0 {
		s.MaxAnswer = defaultMaxAnswer
	}
	c := &Client{version: s.Version, maxAnswer: s.MaxAnswer, bodiless: s.StatusOnly, http: &http.Client{
		Transport: transport, Timeout: s.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	auth, err := newAuthorizer(s.Authentication, c.http, s.Egress)
	if err != nil {
		return nil, err
	}
	c.auth = auth
	return c, nil
}

// Close lets go of connections that nobody uses. The client can be used on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do makes one request and reads its answer, whatever its status. body is sent as JSON; nil
// for none. An error means that there was no answer; whether the peer has seen the request is
// then unknown, unless the error is an [*AuthenticationError] or [NotSent] says so.
//
// Where the peer refuses a token that was fetched earlier, a new one is fetched and the
// request is sent once more.
func (c *Client) Do(ctx context.Context, method, uri string, body any) (*Answer, error) {
	var content []byte
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = b
	}
	for again := false; ; again = true {
		answer, fresh, err := c.once(ctx, method, uri, content)
		if err != nil {
			return nil, plain(err)
		}
		if answer.Status != http.StatusUnauthorized || !c.auth.forget() || fresh || again {
			return answer, nil
		}
	}
}

// once sends the request one time. fresh tells that it bore a token which was fetched for it.
func (c *Client) once(ctx context.Context, method, uri string, content []byte) (_ *Answer, fresh bool, _ error) {
	var body io.Reader
	if content != nil {
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, uri, body)
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", "jibe")
	if parent := trace.From(ctx).Traceparent(); parent != "" {
		req.Header.Set(trace.Header, parent)
	}
	if c.version != "" {
		req.Header.Set("Version", c.version)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if fresh, err = c.auth.authorize(ctx, req); err != nil {
		return nil, false, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	answer := &Answer{Status: resp.StatusCode, Header: resp.Header, uri: req.URL, method: method, limit: c.maxAnswer}
	if c.bodiless {
		// Reading it lets the connection be used again; a longer one isn't worth that.
		_, _ = io.CopyN(io.Discard, resp.Body, c.maxAnswer)
		return answer, fresh, nil
	}
	// One byte more than the limit tells an answer that is too long from one that just fits.
	b, err := io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
	if err != nil {
		return nil, false, fmt.Errorf("the answer of %s %s broke off: %w", method, Place(uri), err)
	}
	answer.Body = b
	if int64(len(b)) > c.maxAnswer {
		answer.Body, answer.cut = b[:c.maxAnswer], true
	}
	return answer, fresh, nil
}
