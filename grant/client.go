package grant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

const (
	// maxAnswer is the most that an answer of an NFVO may hold, in bytes.
	maxAnswer = 4 << 20
	// Polling is how often a grant that isn't decided yet is asked for where the NFVO names no
	// time; an NFVO that names one is kept within leastPause and mostPause.
	Polling    = 2 * time.Second
	leastPause = time.Second
	mostPause  = 10 * time.Minute
)

// Client speaks to one NFVO's granting interface. It is safe for concurrent use.
type Client struct {
	root string // of its grants
	peer *peer.Client
}

// NewClient makes a client of the NFVO at an endpoint, the apiRoot; it connects to nothing yet.
// Authentication, TLS and Timeout of the settings say how it is called. It fails where a
// certificate or a key can't be read.
func NewClient(endpoint string, s peer.Settings) (*Client, error) {
	s.Version, s.MaxAnswer = Version, maxAnswer
	p, err := peer.New(s)
	if err != nil {
		return nil, err
	}
	return &Client{root: strings.TrimRight(endpoint, "/") + "/grant/v1/grants", peer: p}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.peer.Close() }

// Answer is what an NFVO said. Grant is nil where it hasn't decided yet: then Location is where
// it is asked again, not before After.
type Answer struct {
	Grant *Grant
	// Location is the URI of the grant, "" where the NFVO named none.
	Location string
	After    time.Duration
}

// ErrAway is returned where the NFVO gave no answer for now: it can't be reached, is
// overloaded, or doesn't take the credentials. The same request may be answered later.
var ErrAway = errors.New("the NFVO gives no answer")

// RetryError is an [ErrAway] with the time for which the NFVO wants to be left alone.
type RetryError struct {
	Err   error
	After time.Duration
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap gives the error itself.
func (e *RetryError) Unwrap() error { return e.Err }

// WrongError is returned for an answer that breaks the standard, or that says what can't be
// followed. Asking again won't help: a person has to look at the NFVO.
type WrongError struct{ What string }

func (e *WrongError) Error() string { return "the NFVO's answer can't be followed: " + e.What }

// wrong is a [*WrongError]. It may quote the answer, of which nothing is too long or unfit for a line.
func wrong(format string, args ...any) error {
	return &WrongError{clipTo(fmt.Sprintf(format, args...), maxWords+maxWords/2)} // with words of Jibe's own around it
}

// Ask puts the request to the NFVO. An error is a [*Denied], a [*WrongError] or [ErrAway]
// wrapped.
func (c *Client) Ask(ctx context.Context, r *Request) (Answer, error) {
	return c.call(ctx, http.MethodPost, c.root, r)
}

// Poll asks what became of a request to which the NFVO named the location. Errors are those of
// [Client.Ask].
func (c *Client) Poll(ctx context.Context, location string) (Answer, error) {
	if !peer.SameOrigin(location, c.root) {
		return Answer{}, wrong("it says that the grant is at %s, which isn't where the NFVO is: %s", peer.Place(location), peer.Place(c.root))
	}
	return c.call(ctx, http.MethodGet, location, nil)
}

func (c *Client) call(ctx context.Context, method, uri string, body any) (Answer, error) {
	said, err := c.peer.Do(ctx, method, uri, body)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrAway, err)
	}
	post := method == http.MethodPost
	switch status := said.Status; {
	case post && status == http.StatusCreated, !post && status == http.StatusOK:
		var g Grant
		if err := said.Decode(&g); err != nil {
			return Answer{}, wrong("it isn't a Grant: %s", reason(err))
		}
		if post {
			uri = href(said, &g, uri)
		}
		return Answer{Grant: &g, Location: uri}, nil
	case status == http.StatusAccepted:
		if post {
			if said.Header.Get("Location") == "" {
				return Answer{}, wrong("it was 202 Accepted without a Location, so that nobody can ask for the grant")
			}
			if uri, err = said.Location(); err != nil {
				return Answer{}, wrong("%s", reason(err))
			}
		}
		return Answer{Location: uri, After: pause(said)}, nil
	case status == http.StatusUnauthorized:
		return Answer{}, fmt.Errorf("%w: it doesn't take the credentials in %s (401 Unauthorized)", ErrAway, desired.PeersFile)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return Answer{}, &RetryError{fmt.Errorf("%w: %s", ErrAway, said.Refusal()), pause(said)}
	case status >= 400:
		return Answer{}, denied(said)
	case status >= 300:
		return Answer{}, wrong("%s, as the endpoint of the NFVO in %s", said.Refusal(), desired.PeersFile)
	}
	return Answer{}, wrong("%s, which says nothing of a grant", said.Refusal())
}

// reason is why an answer can't be used.
func reason(err error) string {
	if no, ok := errors.AsType[*peer.UnusableError](err); ok {
		return no.Reason
	}
	return err.Error()
}

// href is where the grant is, as the answer to a POST says it; "" where it says nothing. It is
// only shown, and so may be anywhere.
func href(said *peer.Answer, g *Grant, uri string) string {
	text := said.Header.Get("Location")
	if text == "" && g.Links.Self != nil {
		text = g.Links.Self.Href
	}
	base, err := url.Parse(uri)
	if text == "" || err != nil {
		return ""
	}
	u, err := base.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || len(u.String()) > maxHref {
		return ""
	}
	return u.String()
}

// pause is how long the NFVO wants to be left alone, within limits.
func pause(said *peer.Answer) time.Duration {
	after, ok := said.RetryAfter(time.Now())
	if !ok {
		after = Polling
	}
	return min(max(after, leastPause), mostPause)
}

// denied is the refusal in the NFVO's own words.
func denied(said *peer.Answer) error {
	d := &Denied{Status: said.Status, Title: "Grant refused"}
	title, detail := said.Problem()
	if d.Detail = detail; title != "" {
		d.Title = title
	}
	if d.Detail == "" {
		d.Detail = fmt.Sprintf("the NFVO answered %d %s and gave no reason", said.Status, http.StatusText(said.Status))
	}
	return d
}
