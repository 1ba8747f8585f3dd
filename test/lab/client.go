package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Client calls a laboratory at its simulator. It may be used from any goroutine, and for the process
// that comes after one that was killed.
type Client struct{ http http.Client }

// At is a client of the laboratory with this data directory.
func At(data string) *Client {
	return &Client{http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket(data))
	}}}}
}

// ask makes one call and returns what it is answered with.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return "", err
	}
	a, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("laboratory: %s: %s", a.Status, text)
	}
	return string(text), err
}

// Observes says how often the simulator was looked at.
func (c *Client) Observes(ctx context.Context) (int, error) {
	text, err := c.ask(ctx, http.MethodGet, "/observes", nil)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// Resize changes the number of units of an object, as somebody else at the VIM does.
func (c *Client) Resize(ctx context.Context, object string, units int) error {
	_, err := c.ask(ctx, http.MethodPost, "/units", url.Values{"object": {object}, "units": {strconv.Itoa(units)}})
	return err
}

// Drift changes the content of an object, as somebody else at the VIM does.
func (c *Client) Drift(ctx context.Context, object string) error {
	_, err := c.ask(ctx, http.MethodPost, "/drift", url.Values{"object": {object}})
	return err
}

// Lose makes an object vanish with its units, as if somebody else had deleted it.
func (c *Client) Lose(ctx context.Context, object string) error {
	_, err := c.ask(ctx, http.MethodPost, "/lose", url.Values{"object": {object}})
	return err
}

// Fail keeps the units of an object from becoming ready, for the reason given; "" ends that.
func (c *Client) Fail(ctx context.Context, object, reason string) error {
	_, err := c.ask(ctx, http.MethodPost, "/fail", url.Values{"object": {object}, "reason": {reason}})
	return err
}

// SetAway takes a VIM away ([Refused], [Hanging]), or brings it back ([Back]).
func (c *Client) SetAway(ctx context.Context, vim, how string) error {
	_, err := c.ask(ctx, http.MethodPost, "/away", url.Values{"vim": {vim}, "how": {how}})
	return err
}

// SetLatency is how long what runs in the simulator takes from now on to become ready and to go.
func (c *Client) SetLatency(ctx context.Context, d time.Duration) error {
	_, err := c.ask(ctx, http.MethodPost, "/latency", url.Values{"latency": {d.String()}})
	return err
}
