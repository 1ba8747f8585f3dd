package peer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
)

func client(t *testing.T, s peer.Settings) *peer.Client {
	t.Helper()
	s.Egress = egress.Anywhere()
	c, err := peer.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestARequestBearsItsVersionItsContentAndBasicCredentials(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		got := fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("Version"), " ", r.Header.Get("Content-Type"), " ", user, ":", password, " ", string(body))
		if want := `POST /x 1.0.0 application/json jibe:s3cret {"a":1}`; got != want {
			t.Errorf("the peer was sent %s, want %s", got, want)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"7"}`)
	})
	c := client(t, peer.Settings{Version: "1.0.0", Authentication: &peer.Authentication{Basic: &peer.Basic{UserName: "jibe", Password: "s3cret"}}})
	answer, err := c.Do(t.Context(), http.MethodPost, at+"/x", map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	var body struct{ ID string }
	if err := answer.Decode(&body); err != nil || answer.Status != http.StatusCreated || body.ID != "7" {
		t.Errorf("status %d, body %+v, %v", answer.Status, body, err)
	}
}

// tokens is a token endpoint and a peer that takes only the newest token.
type tokens struct {
	mu      sync.Mutex
	fetched int
	asked   []string // how the client said who it is
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/token" {
		s.fetched++
		user, password, _ := r.BasicAuth()
		shown := ""
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			shown = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		s.asked = append(s.asked, fmt.Sprintf("basic=%s:%s form=%s cert=%s grant=%s", user, password, r.FormValue("client_id"), shown, r.FormValue("grant_type")))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer","expires_in":3600}`, s.fetched)
		return
	}
	if r.Header.Get("Authorization") != fmt.Sprintf("Bearer t%d", s.fetched) || s.fetched == 0 {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func TestATokenIsFetchedOnceForAllAndAnewWhereItWasRevoked(t *testing.T) {
	endpoint := &tokens{}
	at := serve(t, endpoint.ServeHTTP)
	c := client(t, peer.Settings{Authentication: &peer.Authentication{OAuth: &peer.OAuth{TokenEndpoint: at + "/token", ClientID: "jibe", ClientPassword: "s3cret"}}})
	ask := func() {
		if answer, err := c.Do(t.Context(), http.MethodGet, at+"/x", nil); err != nil || answer.Status != http.StatusOK {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(ask)
	}
	all.Wait()
	if endpoint.fetched != 1 {
		t.Errorf("10 requests at once fetched %d tokens, want 1", endpoint.fetched)
	}
	endpoint.mu.Lock()
	endpoint.fetched = 7 // t1 isn't taken any more
	endpoint.mu.Unlock()
	ask()
	if endpoint.fetched != 8 {
		t.Errorf("after its token was revoked, the client fetched %d, want 1", endpoint.fetched-7)
	}
	if want := "basic=jibe:s3cret form= cert= grant=client_credentials"; endpoint.asked[0] != want {
		t.Errorf("the token endpoint was asked with %s, want %s", endpoint.asked[0], want)
	}
}

func TestARefusedPasswordIsTriedOnce(t *testing.T) {
	asked := 0
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked++; w.WriteHeader(http.StatusUnauthorized) })
	c := client(t, peer.Settings{Authentication: &peer.Authentication{Basic: &peer.Basic{UserName: "jibe", Password: "wrong"}}})
	answer, err := c.Do(t.Context(), http.MethodGet, at, nil)
	if err != nil || answer.Status != http.StatusUnauthorized || asked != 1 {
		t.Errorf("%+v, %v after %d requests", answer, err, asked)
	}
}

// pair returns a certificate that stands for itself, and its key, both in PEM.
func pair(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestACertificateProvesTheClientToTokenEndpointAndPeer(t *testing.T) {
	certificate, key := pair(t, "jibe")
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(certificate)
	endpoint := &tokens{}
	server := httptest.NewUnstartedServer(endpoint)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca}
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	auth := &peer.Authentication{OAuth: &peer.OAuth{TokenEndpoint: server.URL + "/token", ClientID: "jibe"}}
	c := client(t, peer.Settings{Authentication: auth, TLS: peer.TLS{CA: trusted, Certificate: certificate, Key: key}})
	if answer, err := c.Do(t.Context(), http.MethodGet, server.URL+"/x", nil); err != nil || answer.Status != http.StatusOK {
		t.Fatalf("%+v, %v", answer, err)
	}
	if want := "basic=: form=jibe cert=jibe grant=client_credentials"; endpoint.asked[0] != want {
		t.Errorf("the token endpoint was asked with %s, want %s", endpoint.asked[0], want)
	}

	t.Run("one that isn't trusted is not called", func(t *testing.T) {
		c := client(t, peer.Settings{TLS: peer.TLS{Certificate: certificate, Key: key}})
		_, err := c.Do(t.Context(), http.MethodGet, server.URL+"/x", nil)
		if err == nil || !peer.NotSent(err) {
			t.Errorf("error %v, which must say that nothing was sent", err)
		}
	})
	t.Run("one that was renewed is shown from the next connection on", func(t *testing.T) {
		own, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		known, asked := x509.NewCertPool(), 0
		known.AddCert(server.Certificate())
		c := client(t, peer.Settings{TLS: peer.TLS{Roots: known, Renewed: func() (*tls.Certificate, error) { asked++; return &own, nil }}})
		for range 2 {
			if _, err := c.Do(t.Context(), http.MethodGet, server.URL+"/x", nil); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		if asked != 2 {
			t.Errorf("it was asked for %d times on 2 connections", asked)
		}
	})
	t.Run("a key that isn't the certificate's is refused at once", func(t *testing.T) {
		_, other := pair(t, "other")
		if _, err := peer.New(peer.Settings{TLS: peer.TLS{Certificate: certificate, Key: other}}); err == nil {
			t.Error("it is taken")
		}
	})
}

func TestErrorsHoldNoSecret(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/denied" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, `{"error":"s3cret","s3cret":1}`)
	})
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	oauth := func(endpoint string) *peer.Authentication {
		return &peer.Authentication{OAuth: &peer.OAuth{TokenEndpoint: endpoint, ClientID: "jibe", ClientPassword: "s3cret"}}
	}
	for name, c := range map[string]struct {
		uri  string
		auth *peer.Authentication
	}{
		"the token endpoint refuses":          {at, oauth(at + "/denied?key=s3cret")},
		"the token endpoint answers no token": {at, oauth(at + "/none?key=s3cret")},
		"the token endpoint is down":          {at, oauth(down.URL + "/?key=s3cret")},
		"the peer is down":                    {down.URL + "/?key=s3cret", nil},
		"the URI can't be read":               {"http://s3cret:%zz@host/", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client(t, peer.Settings{Authentication: c.auth}).Do(t.Context(), http.MethodGet, c.uri, nil)
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error: %v", err)
			}
			if err != nil && name != "the URI can't be read" && !peer.NotSent(err) {
				t.Errorf("nothing was sent, and the error doesn't say so: %v", err)
			}
		})
	}
	settings := peer.Settings{Authentication: oauth(at), TLS: peer.TLS{Key: []byte("s3cret")}}
	for _, shown := range []string{fmt.Sprint(settings), fmt.Sprintf("%#v %+v", settings, settings.Authentication)} {
		if strings.Contains(shown, "s3cret") {
			t.Errorf("printed: %s", shown)
		}
	}
}

func TestAPeerThatMisbehavesIsBounded(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	for range 1 << 10 {
		_, _ = z.Write(make([]byte, 10<<10)) // 10 MiB
	}
	_ = z.Close()
	release := make(chan struct{})
	defer close(release)
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/endless":
			for b := bytes.Repeat([]byte("x"), 1<<16); ; {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
		case "/dribble":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		case "/silent":
			<-release
		case "/elsewhere":
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		case "/headers":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		case "/list":
			fmt.Fprint(w, `{"id":["a"]}`)
		case "/short":
			w.Header().Set("Content-Length", "1000")
		case "/half":
			fmt.Fprint(w, `{"id":`)
		case "/deep":
			fmt.Fprint(w, strings.Repeat(`{"id":`, 20000))
		}
	})
	quick := client(t, peer.Settings{Timeout: 300 * time.Millisecond})
	patient := client(t, peer.Settings{MaxAnswer: 64 << 10})
	careless := client(t, peer.Settings{MaxAnswer: 64 << 10, StatusOnly: true})
	for _, path := range []string{"/endless", "/bomb", "/half", "/short"} {
		if answer, err := careless.Do(t.Context(), http.MethodGet, at+path, nil); err != nil || answer.Status != http.StatusOK || answer.Body != nil {
			t.Errorf("%s, of which only the status matters: %+v, %v", path, answer, err)
		}
	}
	if _, err := patient.Do(t.Context(), http.MethodGet, at+"/short", nil); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("an answer that breaks off: %v", err)
	}
	for path, want := range map[string]string{
		"/endless": "it is longer than 65536 bytes",
		"/bomb":    "it is longer than 65536 bytes",
		"/html":    "its Content-Type is text/html and not application/json",
		"/list":    "attribute id is a JSON array",
		"/half":    "it is no JSON",
		"/deep":    "it is longer than 65536 bytes",
	} {
		answer, err := patient.Do(t.Context(), http.MethodGet, at+path, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var body struct {
			ID string `json:"id"`
		}
		if err := answer.Decode(&body); !errors.Is(err, peer.ErrAnswer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	for _, path := range []string{"/dribble", "/silent", "/headers"} {
		if _, err := quick.Do(t.Context(), http.MethodGet, at+path, nil); err == nil || peer.NotSent(err) {
			t.Errorf("%s: error %v, which mustn't say that nothing was sent", path, err)
		}
	}
	answer, err := patient.Do(t.Context(), http.MethodPost, at+"/elsewhere", nil)
	if err != nil || !strings.Contains(answer.Refusal(), "it leads to "+elsewhere+": redirects aren't followed") {
		t.Errorf("a redirect: %+v, %v", answer, err)
	}
	t.Run("who asks can give up", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := patient.Do(ctx, http.MethodGet, at+"/silent", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("link-local addresses are not called", func(t *testing.T) {
		strict, err := peer.New(peer.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"http://169.254.169.254/latest/meta-data", at, strings.Replace(at, "127.0.0.1", "localhost", 1), strings.Replace(at, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
			_, err := strict.Do(t.Context(), http.MethodGet, uri, nil)
			if _, no := errors.AsType[*egress.RefusedError](err); !no || !peer.NotSent(err) || peer.Outward(err) != egress.NoAnswer {
				t.Errorf("%s: error %v", uri, err)
			}
		}
	})
}

func TestCredentialsAreNotSentInClearAndNobodyIsCalled(t *testing.T) {
	called := 0
	at := strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) { called++ }), "127.0.0.1", "localhost", 1)
	basic := &peer.Authentication{Basic: &peer.Basic{UserName: "jibe", Password: "s3cret"}}
	token := &peer.Authentication{OAuth: &peer.OAuth{TokenEndpoint: at + "/token", ClientID: "jibe", ClientPassword: "s3cret"}}
	networks, err := egress.ParseNetworks("127.0.0.0/8,::1")
	if err != nil {
		t.Fatal(err)
	}
	for name, how := range map[string]struct {
		auth *peer.Authentication
		uri  string
	}{"a password": {basic, at}, "a token for http": {token, at}, "a token by http": {token, strings.Replace(at, "http:", "https:", 1)}} {
		c, err := peer.New(peer.Settings{Authentication: how.auth, Egress: egress.New(egress.Options{Allow: networks})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(t.Context(), http.MethodPost, how.uri, map[string]any{})
		if err == nil || !peer.NotSent(err) || !strings.Contains(err.Error(), "--allow-credentials-over-http") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if called != 0 {
		t.Errorf("the peer was called %d times", called)
	}
	if _, err := client(t, peer.Settings{Authentication: basic}).Do(t.Context(), http.MethodPost, at, nil); err != nil || called != 1 {
		t.Errorf("where the flag allows it: %v, called %d times", err, called)
	}
}

func TestAnAnswerTellsWhereToAskOnAndWhen(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = r.URL.Query()["location"]
		w.Header().Set("Retry-After", r.URL.Query().Get("after"))
	})
	c := client(t, peer.Settings{})
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ask := func(location, after string) *peer.Answer {
		req, _ := http.NewRequest(http.MethodGet, at+"/api/coordinations", nil)
		q := req.URL.Query()
		if location != "" {
			q.Set("location", location)
		}
		q.Set("after", after)
		req.URL.RawQuery = q.Encode()
		answer, err := c.Do(t.Context(), http.MethodGet, req.URL.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for location, want := range map[string]string{
		"/api/coordinations/7":              at + "/api/coordinations/7",
		"7":                                 at + "/api/7",
		at + "/other/7":                     at + "/other/7",
		"":                                  "",
		"https://evil.example/7":            "",
		"//evil.example/7":                  "",
		"http://user:pw@127.0.0.1/7":        "",
		"file:///etc/passwd":                "",
		strings.Replace(at, ":", "s:", 1):   "",
		"http://127.0.0.1:1/coordinations/": "",
		"%zz":                               "",
	} {
		got, err := ask(location, "").Location()
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, peer.ErrAnswer) {
			t.Errorf("Location %q: %q, %v; want %q", location, got, err, want)
		}
	}
	for uri, want := range map[string]bool{
		at + "/other/7": true, "/relative": false, "%": false, "": false, strings.Replace(at, ":", "s:", 1): false,
		strings.Replace(at, "//", "//user@", 1): false, "http://127.0.0.1:1/": false, "mailto:nfvo@example.com": false,
	} {
		if peer.SameOrigin(uri, at+"/api") != want {
			t.Errorf("%q at the origin of %s: %v, want %v", uri, at, !want, want)
		}
	}
	for after, want := range map[string]time.Duration{
		"30": 30 * time.Second, "0": 0, "Wed, 01 Jul 2026 12:00:05 GMT": 5 * time.Second, "Wed, 01 Jul 2020 12:00:05 GMT": 0,
		"": -1, "-5": -1, "soon": -1, "99999999999999999999": -1,
	} {
		got, ok := ask("", after).RetryAfter(now)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("Retry-After %q: %s, %v", after, got, ok)
		}
	}
}

func TestARefusalSaysWhatThePeerSaid(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, "{\"title\":\"Busy\",\"detail\":\"a backup\\nruns\\u001b[31m\",\"status\":409}")
	})
	answer, err := client(t, peer.Settings{}).Do(t.Context(), http.MethodGet, at+"/x?token=s3cret", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := answer.Refusal(), "GET "+at+"/x was answered with 409 Conflict: Busy: a backup runs [31m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
