package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/sim"
)

// TestNoRequestIsHiddenInAnother sends what a proxy in front may take for one request and a
// careless server for two.
func TestNoRequestIsHiddenInAnother(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), &sim.Cloud{}, "")
	defer stop()
	auth := "Authorization: Bearer " + s.Token + "\r\nVersion: 2.0.0\r\nHost: x\r\n"
	hidden := "DELETE /vnflcm/v2/subscriptions/hidden HTTP/1.1\r\n" + auth + "\r\n"
	const body = `{"vnfdId": "x"}`
	post := "POST /vnflcm/v2/vnf_instances HTTP/1.1\r\nContent-Type: application/json\r\n" + auth
	for name, request := range map[string]string{
		"two lengths":             post + "Content-Length: 15\r\nContent-Length: 200\r\n\r\n" + body + hidden,
		"two lengths in one line": post + "Content-Length: 15, 200\r\n\r\n" + body + hidden,
		"a signed length":         post + "Content-Length: +15\r\n\r\n" + body + hidden,
		"a length in hex":         post + "Content-Length: 0xf\r\n\r\n" + body + hidden,
		"an unknown coding":       post + "Transfer-Encoding: xchunked\r\n\r\n" + body + hidden,
		"two codings":             post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a coding twice":          post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		"space before the colon":  post + "Content-Length : 15\r\n\r\n" + body + hidden,
		"a folded header":         post + "X-A: a\r\n Content-Length: 15\r\nContent-Length : 3\r\n\r\n" + body + hidden,
		"a bad chunk":             post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + hidden,
		"a chunk too large":       post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n" + hidden,
		"two hosts":               post + "Host: y\r\nContent-Length: 15\r\n\r\n" + body + hidden,
		"no version of HTTP":      "POST /vnflcm/v2/vnf_instances\r\n" + auth + "\r\n" + hidden,
	} {
		answers := converse(t, s.URL, request)
		if len(answers) != 1 || answers[0].StatusCode < 400 || answers[0].StatusCode >= 500 && answers[0].StatusCode != http.StatusNotImplemented {
			t.Errorf("%s: answered with %v", name, statuses(answers))
		}
	}
	// A length beside a coding says nothing: the chunks count, and what follows them is read
	// as a request of its own, as by every proxy that obeys RFC 9112.
	both := post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	if answers := converse(t, s.URL, both+"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); len(answers) == 0 || answers[0].StatusCode != http.StatusUnprocessableEntity ||
		len(answers) > 1 && (len(answers) > 2 || answers[1].StatusCode != http.StatusOK) {
		t.Errorf("a length beside chunks: %v", statuses(answers))
	}
}

func statuses(answers []*http.Response) (out []int) {
	for _, a := range answers {
		out = append(out, a.StatusCode)
	}
	return out
}

// converse sends text on one connection and returns the answers, until the server ends it.
func converse(t *testing.T, url, text string) (answers []*http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite() // a server that refuses the first request may have ended the connection by now
	for r := bufio.NewReader(c); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return append(answers, res)
		}
		answers = append(answers, res)
	}
}

// TestWhoIsNotKnownLearnsNothing asks without a token for what is there and what isn't.
func TestWhoIsNotKnownLearnsNothingAndUnknownPathsAreProblemDetails(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), &sim.Cloud{}, "")
	defer stop()
	ask := func(method, path, token string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Version", "2.0.0")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, string(b)
	}
	for _, path := range []string{"/vnflcm/v2/vnf_instances/x", "/vnflcm/v1/vnf_instances", "/vnflcm/v2/nothing", "/vnflcm/v9/x", "/vnffm/v1/alarms", "/nothing", "/", "/jibe/v1/drift"} {
		if status, header, body := ask("PUT", path, ""); status != http.StatusUnauthorized || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/vnflcm", "/vnflcm/v1", "/vnflcm/v9/x", "/vnffm/v1/alarms", "/vnfpm/v2/pm_jobs", "/nothing", "/", "/a/../b", "/vnflcm/v2/./vnf_instances", "/vnflcm/v2/vnf_instances/"} {
		if status, header, body := ask("GET", path, s.Token); status != http.StatusNotFound || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, `"detail"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"//vnflcm/v2//vnf_instances", "/vnflcm///v2/vnf_instances", "//vnflcm/v2/api_versions"} {
		if status, _, body := ask("GET", path, s.Token); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, header, body := ask("HEAD", "/vnflcm/v2/vnf_instances", s.Token); status != http.StatusOK || body != "" || header.Get("Version") != "2.0.0" {
		t.Errorf("HEAD: %d %v %q", status, header, body)
	}
}
