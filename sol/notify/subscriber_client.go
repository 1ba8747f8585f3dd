package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

const (
	// maxAnswer is how many bytes of an answer are read; its content is ignored.
	maxAnswer = 64 << 10
	// apiVersion is that of SOL003 v3.3.1's VNF lifecycle management API.
	apiVersion = "2.0.0"
)

// newTransport returns what carries the calls of all subscribers and token endpoints.
func newTransport(c Config) (*http.Transport, error) {
	t, err := peer.NewTransport(c.Egress, peer.TLS{Roots: c.CAs, Renewed: c.Certificate}, c.CallTimeout)
	if err != nil {
		return nil, fmt.Errorf("connections to subscribers: %w", err)
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 64
	return t, nil
}

// caller calls one subscriber with its authentication. It is used by one
// goroutine at a time.
type caller struct {
	settings peer.Settings   // but for the authentication
	auth     *Authentication // with passwords as secrets resolves them
	// secrets is nil where the passwords are in clear, as in a request.
	secrets Secrets
	peer    *peer.Client // nil until the passwords could be resolved
}

// newCaller returns how the subscriber is called; secrets may be nil.
func (s *Service) newCaller(api *API, auth *Authentication, secrets Secrets) *caller {
	return &caller{auth: auth, secrets: secrets, settings: peer.Settings{
		Version: api.Version, Egress: s.Egress, Transport: s.transport, Timeout: s.CallTimeout, MaxAnswer: maxAnswer, StatusOnly: true,
	}}
}

func (c *caller) clear(password string) (string, error) {
	if c.secrets == nil || password == "" {
		return password, nil
	}
	if !strings.HasPrefix(password, desired.RefAge) {
		// A subscriber's password is one that was encrypted here, and never a file's or a variable's.
		return "", &credentialsError{errors.New("the record has no encrypted password: subscribe again")}
	}
	clear, err := c.secrets.Resolve(password)
	if err != nil {
		return "", &credentialsError{err}
	}
	return clear, nil
}

// credentialsError is returned where the stored credentials can't be decrypted.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string {
	return fmt.Sprintf("decrypt the subscriber's credentials: %v", e.err)
}

func (e *credentialsError) Unwrap() error { return e.err }

// authentication is what goes with each call, nil for nothing. Where the subscriber takes
// several, OAuth2 goes before BASIC, and a client is known by its certificate before its
// password.
func (c *caller) authentication() (*peer.Authentication, error) {
	switch {
	case c.auth == nil:
		return nil, nil
	case slices.Contains(c.auth.AuthType, ClientCert):
		p := c.auth.ClientCert
		return &peer.Authentication{OAuth: &peer.OAuth{ClientID: p.ClientID, TokenEndpoint: p.TokenEndpoint}}, nil
	case slices.Contains(c.auth.AuthType, ClientCredentials):
		p := c.auth.ClientCredentials
		password, err := c.clear(p.ClientPassword)
		if err != nil {
			return nil, err
		}
		return &peer.Authentication{OAuth: &peer.OAuth{ClientID: p.ClientID, ClientPassword: password, TokenEndpoint: p.TokenEndpoint}}, nil
	case slices.Contains(c.auth.AuthType, Basic):
		password, err := c.clear(c.auth.Basic.Password)
		if err != nil {
			return nil, err
		}
		return &peer.Authentication{Basic: &peer.Basic{UserName: c.auth.Basic.UserName, Password: password}}, nil
	}
	return nil, nil
}

// call makes one request and returns the status of its answer. body is JSON, or nil for
// the test of a callback.
func (c *caller) call(ctx context.Context, method, uri string, body json.RawMessage) (int, error) {
	if c.peer == nil {
		auth, err := c.authentication()
		if err != nil {
			return 0, err
		}
		c.settings.Authentication = auth
		if c.peer, err = peer.New(c.settings); err != nil {
			return 0, &credentialsError{err}
		}
	}
	var content any
	if body != nil {
		content = body
	}
	answer, err := c.peer.Do(ctx, method, uri, content)
	if err != nil {
		return 0, err
	}
	return answer.Status, nil
}

// why names the reason for which a call was in vain, in one of a few words and in more. Where
// there was no answer it doesn't say what stood in the way: whoever may name a callback
// could have Jibe look around in a network otherwise.
func why(status int, err error) (reason, text string) {
	if err == nil {
		text = fmt.Sprintf("the subscriber answered %d %s", status, http.StatusText(status))
		switch {
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return "unauthorized", text
		case status >= 300 && status < 400:
			return "redirect", text + ", and redirects are not followed"
		case status >= 400 && status < 500:
			return "refused", text
		}
		return "unavailable", text
	}
	var (
		token       *peer.AuthenticationError
		credentials *credentialsError
		plain       *egress.PlainError
	)
	switch {
	case errors.As(err, &credentials):
		return "credentials", err.Error()
	case errors.As(err, &plain):
		return "credentials", plain.Error()
	case errors.As(err, &token):
		return "token", peer.Outward(err)
	}
	return "connection", peer.Outward(err)
}
