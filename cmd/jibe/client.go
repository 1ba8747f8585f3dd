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

// errUnreachable is returned when no server answers.
var errUnreachable = errors.New("no server answers")

// requestTimeout bounds one request. The check of a large push takes the longest.
const requestTimeout = 2 * time.Minute

// do makes a request of the server and decodes the answer into out, if not nil. A relative
// path is below the server's URL.
func (c *client) do(ctx context.Context, method, path string, body, out any) (http.Header, error) {
	return c.doAs(ctx, http.Header{"Version": {"2.0.0"}}, method, path, body, out)
}

// doAs is do with the header of another interface.
func (c *client) doAs(ctx context.Context, header http.Header, method, path string, body, out any) (http.Header, error) {
	token, from, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("token of %s: %w", from, err)
	}
	target := path
	if !strings.HasPrefix(path, "http") {
		target = strings.TrimRight(c.server, "/") + path
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	h, err := exchange(ctx, http.DefaultTransport, header, method, target, body, out)
	var none *url.Error
	switch {
	case !errors.As(err, &none):
		return h, explainToken(err, token, from)
	case none.Op == "parse":
		return nil, fmt.Errorf("--server %q: %w", c.server, err)
	}
	return nil, fmt.Errorf("%w at %s: %w (is `jibe serve` running? see --server)", errUnreachable, c.server, none.Err)
}

// archive is the body of a request that is a file, and no JSON.
type archive struct {
	io.Reader
	size int64
}

// rawText is an answer that isn't JSON.
type rawText []byte

// exchange makes one request, with the body as JSON if not nil, and decodes the answer into
// out, if not nil. It returns a [*url.Error] where no server was reached, and a [*refusal]
// where the answer is no.
func exchange(ctx context.Context, via http.RoundTripper, header http.Header, method, target string, body, out any) (http.Header, error) {
	var content io.Reader
	if file, ok := body.(archive); ok {
		content = file
		header.Set("Content-Type", "application/zip")
	} else if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
		header.Set("Content-Type", "application/json")
	}
	if _, ok := body.(archive); !ok { // which takes as long as its size needs
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	header.Set("Accept", "application/json")
	req.Header = header
	if file, ok := body.(archive); ok {
		req.ContentLength = file.size
	}
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
	if raw, ok := out.(*rawText); ok {
		*raw = data
		return resp.Header, nil
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
	return &refusal{resp.StatusCode, fmt.Sprintf("%s: %s", resp.Status, p.Detail)}
}
