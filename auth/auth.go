// Package auth identifies callers of the API and says what they may do.
//
// It owns the ways to authenticate (static tokens, tokens of an issuer, certificates,
// Keystone) and what comes of each: an [Identity]. It never decides what a request needs
// (that is sol and app), knows no folder, repository or VIM (which project these belong to
// is desired's to say), and never logs a token.
package auth

import (
	"errors"
	"net/http"
	"strings"
)

// ErrUnauthenticated is returned when a request carries no credentials, or wrong
// ones. The API answers 401.
var ErrUnauthenticated = errors.New("no valid bearer token")

// Authenticator identifies callers.
type Authenticator interface {
	// Authenticate MUST return an error that wraps [ErrUnauthenticated] for a
	// request without valid credentials. It is safe for concurrent use.
	Authenticate(r *http.Request) (Identity, error)
}

// tokenOf finds the request's token: a bearer token, the password of HTTP basic
// authentication (git, and clients that know nothing else), or X-Auth-Token, which clients
// of OpenStack's services send.
func tokenOf(r *http.Request) (string, bool) {
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return token, true
	}
	token := r.Header.Get("X-Auth-Token")
	return token, token != ""
}

// Anyone is the [Authenticator] of a development server: everyone is admin.
type Anyone struct{}

// Authenticate accepts every request.
func (Anyone) Authenticate(*http.Request) (Identity, error) {
	return Identity{Name: "anonymous", Issuer: IssuerNone, Permissions: []Permission{{Role: Admin}}}, nil
}
