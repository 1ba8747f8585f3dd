package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/jibe-vnfm/jibe/app"
)

// client talks to a running server.
type client struct {
	server, tokenFile, data string
}

func (c *client) flags(f *pflag.FlagSet) {
	server := os.Getenv("JIBE_SERVER")
	if server == "" {
		server = "http://127.0.0.1:9890"
	}
	f.StringVar(&c.server, "server", server, "URL of the server (or $JIBE_SERVER)")
	f.StringVar(&c.tokenFile, "token-file", os.Getenv("JIBE_TOKEN_FILE"), "file with the bearer token (or $JIBE_TOKEN_FILE, or the token in $JIBE_TOKEN)")
	f.StringVar(&c.data, "data", os.Getenv("JIBE_DATA"), "data directory of a local server, whose token is used (or $JIBE_DATA)")
}

func (c *client) token() (string, error) {
	switch {
	case c.tokenFile != "":
		text, err := os.ReadFile(c.tokenFile)
		return strings.TrimSpace(string(text)), err
	case os.Getenv("JIBE_TOKEN") != "":
		return os.Getenv("JIBE_TOKEN"), nil
	case c.data != "":
		return app.LocalToken(c.data)
	}
	return "", nil
}

// errUnreachable is returned when no server answers.
var errUnreachable = errors.New("no server answers")

// requestTimeout bounds one request. The check of a large push takes the longest.
const requestTimeout = 2 * time.Minute

// do makes a request of the server and decodes the answer into out, if not nil. A relative
// path is below the server's URL.
func (c *client) do(ctx context.Context, method, path string, body, out any) (http.Header, error) {
	token, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	target := path
	if !strings.HasPrefix(path, "http") {
		target = strings.TrimRight(c.server, "/") + path
	}
	header := http.Header{"Version": {"2.0.0"}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	h, err := exchange(ctx, http.DefaultTransport, header, method, target, body, out)
	var none *url.Error
	switch {
	case !errors.As(err, &none):
		return h, err
	case none.Op == "parse":
		return nil, fmt.Errorf("--server %q: %w", c.server, err)
	}
	return nil, fmt.Errorf("%w at %s: %w (is `jibe serve` running? see --server)", errUnreachable, c.server, none.Err)
}

// exchange makes one request, with the body as JSON if not nil, and decodes the answer into
// out, if not nil. It returns a [*url.Error] where no server was reached, and a [*refusal]
// where the answer is no.
func exchange(ctx context.Context, via http.RoundTripper, header http.Header, method, target string, body, out any) (http.Header, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
		header.Set("Content-Type", "application/json")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	header.Set("Accept", "application/json")
	req.Header = header
	resp, err := (&http.Client{Transport: via}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, refusalOf(resp, data)
	}
	if out != nil && len(data) > 0 {
		if err := json.Unmarshal(data, out); err != nil {
			return nil, fmt.Errorf("answer of %s: %w", target, err)
		}
	}
	return resp.Header, nil
}

// refusal is the error that an answer becomes whose status says no.
type refusal struct {
	status int
	said   string
}

func (e *refusal) Error() string { return e.said }

// refusalOf makes an error of an answer that says no.
func refusalOf(resp *http.Response, data []byte) error {
	var p struct{ Title, Detail string }
	if json.Unmarshal(data, &p) != nil || p.Detail == "" {
		p.Detail = strings.TrimSpace(string(data))
	}
	hint := ""
	if resp.StatusCode == http.StatusUnauthorized {
		hint = " (give a token with --token-file, $JIBE_TOKEN or --data)"
	}
	return &refusal{resp.StatusCode, fmt.Sprintf("%s: %s%s", resp.Status, p.Detail, hint)}
}
