package app_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// A foreign page has the browser of an operator send text or a form: the browser adds the certificate by itself, and no
// header that the page couldn't.
func TestARequestThatAnotherSiteSendsIsRefused(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	kit.Issue(t, path("server.pem"), path("server.key"), 1)
	kit.Issue(t, path("client.pem"), path("client.key"), 2)
	s, stop := startWith(t, app.Options{Data: path("data"), Poll: time.Hour,
		TLSCert: path("server.pem"), TLSKey: path("server.key"), ClientCA: path("client.pem")})
	t.Cleanup(stop)
	certified(t, s.Data, "CN=jibe")

	pair, err := tls.LoadX509KeyPair(path("client.pem"), path("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}
	t.Cleanup(transport.CloseIdleConnections)
	send := func(method, path, body string, header ...string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "https"+strings.TrimPrefix(s.URL, "http")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	kit.Eventually(t, func() error {
		if got := send(http.MethodGet, "/jibe/v1/drift", ""); got != http.StatusOK {
			return fmt.Errorf("the certificate is answered %d", got)
		}
		return nil
	})

	foreign := map[string][]string{
		"another site":             {"Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"},
		"another port":             {"Sec-Fetch-Site", "same-site", "Content-Type", "text/plain"},
		"an older browser":         {"Origin", "https://elsewhere.example", "Content-Type", "application/x-www-form-urlencoded"},
		"a page without an origin": {"Origin", "null", "Content-Type", "text/plain"},
		"with a typed-in password": {"Sec-Fetch-Site", "cross-site", "Authorization", "Basic eDp5"},
	}
	head := desiredOf(t, s).Head()
	for name, header := range foreign {
		for _, to := range []string{
			"/v1.0/vims", "/vnflcm/v1/vnf_instances", "/vnflcm/v2/vnf_instances", "/vnflcm/v2/subscriptions", "/vnfpkgm/v1/vnf_packages", "/vnfpkgm/v2/vnf_packages",
			"/jibe/v1/ui-links", "/jibe/v1/accept", "/git/desired.git/git-receive-pack", "/v1.0//vims",
		} {
			if got := send(http.MethodPost, to, "{}", header...); got != http.StatusForbidden {
				t.Errorf("%s: POST %s: %d", name, to, got)
			}
		}
	}
	if now := desiredOf(t, s).Head(); now != head {
		t.Error("another site has made a commit")
	}

	for name, header := range map[string][]string{
		"no browser": nil, "the page's own script": {"Sec-Fetch-Site", "same-origin"}, "a person who types the address": {"Sec-Fetch-Site", "none"},
		"a tool in a browser, with a token": {"Origin", "chrome-extension://x", "Authorization", "Bearer " + s.Token},
		"the same with Keystone's header":   {"Origin", "chrome-extension://x", "X-Auth-Token", s.Token},
	} {
		header = append(header, "Content-Type", "application/json", "Version", "2.0.0")
		if got := send(http.MethodPost, "/vnflcm/v2/vnf_instances", "{}", header...); got != http.StatusBadRequest {
			t.Errorf("%s isn't heard, and told what is missing: %d", name, got)
		}
	}
	if got := send(http.MethodGet, "/jibe/v1/drift", "", "Sec-Fetch-Site", "cross-site"); got != http.StatusOK {
		t.Errorf("a link to what only shows: %d", got)
	}
}

// A page whose name suddenly leads to this machine is of the same site for a browser.
func TestOnlyItsOwnNamesReachAServerForEveryone(t *testing.T) {
	t.Parallel()

	s, stop := startWith(t, app.Options{Data: t.TempDir(), Poll: time.Hour, InsecureDev: true, BaseURL: "https://jibe.example"})
	t.Cleanup(stop)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for host, want := range map[string]int{
		"127.0.0.1:" + port: http.StatusOK, "localhost:" + port: http.StatusOK, "LOCALHOST": http.StatusOK, "[::1]:" + port: http.StatusOK, "jibe.example": http.StatusOK,
		"evil.example:" + port: http.StatusForbidden, "evil.example": http.StatusForbidden, "localhost.evil.example": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden,
	} {
		for _, path := range []string{"/jibe/v1/drift", "/ui/", "/git/desired.git/info/refs?service=git-upload-pack"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s of %s: %d, want %d", path, host, answer.StatusCode, want)
			}
		}
	}
}

// certified makes an administrator of the caller with a certificate of the subject.
func certified(t *testing.T, data, subject string) {
	t.Helper()
	file := datadir.TokensFile(data)
	text, err := os.ReadFile(file)
	if err == nil {
		text = append(text, "\ncertificates:\n  - {name: person, role: admin, subject: \""+subject+"\"}\n"...)
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
