package notify_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/sol/notify"
)

func TestWhoNamesACallbackLearnsNothingOfTheNetwork(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connection, nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	speaks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
			c.Close()
		}
	}))
	defer speaks.Close()
	tls := httptest.NewTLSServer(nil)
	defer tls.Close()
	// Who is silent is soon left; all others have the time to be told apart in the log.
	w, hasty := newWorld(t), newWorldWith(t, func(c *notify.Config) { c.CallTimeout = 500 * time.Millisecond })
	var first string
	for _, uri := range []string{
		closed.URL, "http://" + silent.Addr().String(), speaks.URL, tls.URL, "http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://[::1]:1/", "http://2130706433/", "http://224.0.0.1/",
	} {
		for _, auth := range []*notify.Authentication{nil, {AuthType: []string{notify.ClientCredentials},
			ClientCredentials: &notify.ClientCredentialsParams{ClientID: "jibe", ClientPassword: password, TokenEndpoint: strings.Replace(uri, "http:", "https:", 1)}}} {
			if auth != nil {
				uri = strings.Replace(uri, "http:", "https:", 1)
			}
			asked := w
			if strings.HasSuffix(uri, "://"+silent.Addr().String()) {
				asked = hasty
			}
			_, err := asked.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: uri, Authentication: auth})
			if err == nil {
				t.Fatalf("%s: taken", uri)
			}
			got := strings.Replace(err.Error(), "get a token: ", "", 1)
			if first == "" {
				first = got
			}
			if got != first {
				t.Errorf("%s: %q, and %q for another", uri, got, first)
			}
		}
	}
	for _, reason := range []string{"connection refused", "link-local", "metadata", "loopback"} {
		if !strings.Contains(w.logged.String(), reason) {
			t.Errorf("the log doesn't tell of %q", reason)
		}
	}
}
