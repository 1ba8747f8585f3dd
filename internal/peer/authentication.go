package peer

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Authentication says how requests prove who sends them (SOL013 clause 8.3.4): by one of the
// two. A TLS client certificate ([TLS]) may go with either, or alone.
type Authentication struct {
	Basic *Basic
	OAuth *OAuth
}

// Basic is HTTP basic authentication (RFC 7617).
type Basic struct{ UserName, Password string }

// OAuth is the OAuth2 client credentials grant (RFC 6749 clause 4.4).
type OAuth struct {
	TokenEndpoint string
	ClientID      string
	// ClientPassword is sent to the token endpoint by BASIC. Without one the client is known by
	// the certificate that it shows there (RFC 8705): OAUTH2_CLIENT_CERT.
	ClientPassword string
	// Scopes are asked for; most token endpoints need none.
	Scopes []string
}

// String keeps credentials out of logs and errors.
func (a *Authentication) String() string { return "authentication" }

// GoString returns the same as String.
func (a *Authentication) GoString() string { return a.String() }

// authorizer puts credentials into requests. The zero value puts in none.
type authorizer struct {
	basic  *Basic
	config *clientcredentials.Config
	http   *http.Client
	egress *egress.Guard

	mu    sync.Mutex
	token *oauth2.Token
}

func newAuthorizer(a *Authentication, client *http.Client, guard *egress.Guard) (*authorizer, error) {
	switch {
	case a == nil || a.Basic == nil && a.OAuth == nil:
		return &authorizer{}, nil
	case a.Basic != nil && a.OAuth != nil:
		return nil, errors.New("a peer is authenticated to by BASIC or by OAuth2, not by both")
	case a.Basic != nil:
		return &authorizer{basic: a.Basic, egress: guard}, nil
	case a.OAuth.ClientID == "" || a.OAuth.TokenEndpoint == "":
		return nil, errors.New("OAuth2 needs a client id and a token endpoint")
	}
	style := oauth2.AuthStyleInHeader
	if a.OAuth.ClientPassword == "" {
		style = oauth2.AuthStyleInParams // the client's id alone: its certificate proves it
	}
	return &authorizer{http: client, egress: guard, config: &clientcredentials.Config{
		ClientID: a.OAuth.ClientID, ClientSecret: a.OAuth.ClientPassword, TokenURL: a.OAuth.TokenEndpoint,
		Scopes: a.OAuth.Scopes, AuthStyle: style,
	}}, nil
}

// authorize sets the Authorization header; fresh tells that a token was fetched for it. Its
// error is an [*AuthenticationError].
func (a *authorizer) authorize(ctx context.Context, req *http.Request) (fresh bool, _ error) {
	if a.basic == nil && a.config == nil {
		return false, nil
	}
	if err := a.egress.MayCarryCredentials(req.URL); err != nil {
		return false, &AuthenticationError{err}
	}
	if a.basic != nil {
		req.SetBasicAuth(a.basic.UserName, a.basic.Password)
		return false, nil
	}
	endpoint, err := url.Parse(a.config.TokenURL)
	if err == nil {
		err = a.egress.MayCarryCredentials(endpoint)
	}
	if err != nil {
		return false, &AuthenticationError{err}
	}
	// While one request fetches the token, the others wait for it rather than fetch their own.
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.token.Valid() {
		token, err := a.config.Token(context.WithValue(ctx, oauth2.HTTPClient, a.http))
		if err != nil {
			return false, &AuthenticationError{err}
		}
		a.token, fresh = token, true
	}
	a.token.SetAuthHeader(req)
	return fresh, nil
}

// forget drops the token, which may have been revoked; it returns whether tokens are used.
func (a *authorizer) forget() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = nil
	return a.config != nil
}
