package egress

import (
	"errors"
	"fmt"
	"net/http"
)

// maxRedirects is how often one request is redirected.
const maxRedirects = 5

// ErrRedirect is returned where an answer leads to another server than the request went to.
var ErrRedirect = errors.New("a redirect to another server isn't followed: it would be sent the credentials")

// SameServer is a CheckRedirect of [http.Client] for requests with credentials that a client
// would copy: it follows redirects to the server that the request was sent to, as Heat makes
// them from a stack's name to its id, and no others.
func SameServer(r *http.Request, via []*http.Request) error {
	switch from := via[0].URL; {
	case len(via) > maxRedirects:
		return fmt.Errorf("redirected more than %d times", maxRedirects)
	case r.URL.Scheme != from.Scheme || r.URL.Host != from.Host:
		return fmt.Errorf("%w: %s://%s", ErrRedirect, r.URL.Scheme, r.URL.Host)
	}
	return nil
}
