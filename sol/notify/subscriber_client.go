package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// callTimeout bounds one request to a subscriber, answer included.
	callTimeout = 20 * time.Second
	// maxAnswer is how many bytes of an answer are read; its content is ignored.
	maxAnswer = 64 << 10
	// apiVersion is that of SOL003 v3.3.1's VNF lifecycle management API.
	apiVersion = "2.0.0"
)

// newClient returns the client that is used where none is given. It doesn't call link-local
// addresses, where a cloud's metadata service may answer.
func newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if ip := at.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
			return fmt.Errorf("%s is not an address of a subscriber", ip)
		}
		return nil
	}}
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: callTimeout,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
	}}
}

// guarded returns the client with the limits of every call to a subscriber. It doesn't
// follow redirects, which would evade the checks of the URI.
func guarded(c *http.Client) *http.Client {
	g := *c
	g.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if g.Timeout == 0 {
		g.Timeout = callTimeout
	}
	return &g
}

// caller calls one subscriber with its authentication. It is used by one
// goroutine at a time.
type caller struct {
	client *http.Client
	auth   *Authentication // with passwords as secrets resolves them
	// secrets is nil where the passwords are in clear, as in a request.
	secrets Secrets
	tokens  oauth2.TokenSource
}

func (c *caller) clear(password string) (string, error) {
	if c.secrets == nil || password == "" {
		return password, nil
	}
	clear, err := c.secrets.Resolve(password)
	if err != nil {
		return "", fmt.Errorf("decrypt the subscriber's credentials: %w", err)
	}
	return clear, nil
}

// authorize sets the Authorization header. OAuth2 goes before BASIC where the
// subscriber takes both.
func (c *caller) authorize(ctx context.Context, req *http.Request) error {
	switch {
	case c.auth == nil:
		return nil
	case slices.Contains(c.auth.AuthType, ClientCredentials):
		if c.tokens == nil {
			p := c.auth.ClientCredentials
			password, err := c.clear(p.ClientPassword)
			if err != nil {
				return err
			}
			config := clientcredentials.Config{ClientID: p.ClientID, ClientSecret: password,
				TokenURL: p.TokenEndpoint, AuthStyle: oauth2.AuthStyleInHeader}
			c.tokens = config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, c.client))
		}
		token, err := c.tokens.Token()
		if err != nil {
			c.tokens = nil
			return fmt.Errorf("get a token: %w", plain(err))
		}
		token.SetAuthHeader(req)
	case slices.Contains(c.auth.AuthType, Basic):
		password, err := c.clear(c.auth.Basic.Password)
		if err != nil {
			return err
		}
		req.SetBasicAuth(c.auth.Basic.UserName, password)
	}
	return nil
}

// call makes one request and returns the status of its answer. body is nil for
// the test of a callback.
func (c *caller) call(ctx context.Context, method, uri string, body any) (int, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("encode notification: %w", err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, uri, content)
	if err != nil {
		return 0, plain(err)
	}
	req.Header.Set("Version", apiVersion)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "jibe")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.authorize(ctx, req); err != nil {
		return 0, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, plain(err)
	}
	defer resp.Body.Close()
	// Reading the answer lets the connection be used again; a longer one is not worth it.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	if resp.StatusCode == http.StatusUnauthorized {
		c.tokens = nil // it may have been revoked
	}
	return resp.StatusCode, nil
}

// plain returns err without parts that may hold a secret: the query of a URI, the body of a
// token endpoint's answer.
func plain(err error) error {
	var token *oauth2.RetrieveError
	if errors.As(err, &token) {
		status := "no status"
		if token.Response != nil {
			status = token.Response.Status
		}
		return fmt.Errorf("the token endpoint answered %s", status)
	}
	var call *url.Error
	if errors.As(err, &call) {
		return fmt.Errorf("%s %s: %w", call.Op, place(call.URL), call.Err)
	}
	return err
}

// place returns a URI for logs and errors: without query and user.
func place(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return "(unreadable URI)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
