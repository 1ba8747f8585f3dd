package auth

import (
	"errors"
	"fmt"
	"net/http"
)

// Callers is the [Authenticator] of all ways by which a server lets callers in. What a request
// carries says which way is taken, and there is only one: credentials that are wrong are
// refused, whatever else would have been right.
type Callers struct {
	Identities *Identities
	// ClientCAs, OIDC and Keystone are nil where these ways are closed.
	ClientCAs *ClientCAs
	OIDC      *OIDC
	Keystone  *Keystone
}

// Authenticate implements [Authenticator]. A token is looked for among the static ones first.
// One that says that it is of the issuer of OIDC is verified by its keys. Whatever else comes in
// X-Auth-Token Keystone is asked about: neither a static token nor a password or bearer token is
// ever sent there. A certificate counts where there is no token.
func (c *Callers) Authenticate(r *http.Request) (Identity, error) {
	token, ok := tokenOf(r)
	if !ok {
		return c.certified(r)
	}
	who, err := c.Identities.whose(token)
	switch {
	case err == nil || !errors.Is(err, ErrUnauthenticated):
		return who, err
	case c.OIDC != nil && c.OIDC.claims(token):
		return c.OIDC.whose(r.Context(), token)
	case c.Keystone != nil && r.Header.Get("Authorization") == "":
		return c.Keystone.whose(r, token)
	}
	return who, err
}

// Genuine reports whether a request has a JWT that the issuer of OIDC has signed for this server, and that
// counts now. The issuer's keys are asked for where that is due, and nothing else is asked.
func (c *Callers) Genuine(r *http.Request) bool {
	token, ok := tokenOf(r)
	if !ok || c.OIDC == nil || !c.OIDC.claims(token) {
		return false
	}
	_, err := c.OIDC.whose(r.Context(), token)

	return err == nil
}

// certified finds the caller by the certificate of the connection.
func (c *Callers) certified(r *http.Request) (Identity, error) {
	if c.ClientCAs != nil {
		leaf, err := c.ClientCAs.verify(r)
		switch {
		case err != nil:
			return Identity{}, err
		case leaf != nil:
			return c.Identities.Certified(leaf)
		}
	}
	return Identity{}, fmt.Errorf("%w: send the header \"Authorization: Bearer <token>\"", ErrUnauthenticated)
}
