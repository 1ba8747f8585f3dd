package grant_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/grant"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/published"
)

func client(t *testing.T, endpoint string, how peer.Settings) *grant.Client {
	t.Helper()
	if how.Timeout == 0 {
		how.Timeout = time.Minute
	}
	how.Egress = egress.Anywhere()
	c, err := grant.NewClient(endpoint, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// basic are settings by which a password goes with each request.
func basic(name, password string) peer.Settings {
	return peer.Settings{Authentication: &peer.Authentication{Basic: &peer.Basic{UserName: name, Password: password}}}
}

func TestAnNFVOGrantsAtOnceOrWhenItIsAskedAgain(t *testing.T) {
	published.Held(t)
	n := nfvo.New(t)
	c := client(t, n.URL, peer.Settings{})
	r := instantiation(t).Request()
	a, err := c.Ask(t.Context(), r)
	if err != nil || a.Grant == nil || a.Grant.VnfLcmOpOccID != operation || len(a.Grant.Add) != len(r.Add) || !strings.HasSuffix(a.Location, a.Grant.ID) {
		t.Fatalf("%+v, %v", a, err)
	}
	n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{Later: 1} })
	if a, err = c.Ask(t.Context(), r); err != nil || a.Grant != nil || a.Location == "" || a.After != time.Second {
		t.Fatalf("%+v, %v", a, err)
	}
	at := a.Location
	if a, err = c.Poll(t.Context(), at); err != nil || a.Grant != nil || a.Location != at {
		t.Fatalf("%+v, %v", a, err)
	}
	if a, err = c.Poll(t.Context(), at); err != nil || a.Grant == nil {
		t.Fatalf("%+v, %v", a, err)
	}
}

// away, wrong and denied are the three kinds of errors: each is another thing to do.
func away(err error) bool { return errors.Is(err, grant.ErrAway) }

func wrong(err error) bool { var w *grant.WrongError; return errors.As(err, &w) }

func denied(err error) bool { var d *grant.Denied; return errors.As(err, &d) }

func TestAnNFVOThatMisbehavesIsSortedOut(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("somebody else was asked, with the credentials of the NFVO")
	}))
	defer elsewhere.Close()
	raw := func(status int, header map[string]string, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		is     func(error) bool
		says   string
	}{
		"refuses":                    {raw(403, nil, `{"status":403,"title":"Quota","detail":"the site is full"}`), denied, "the site is full"},
		"refuses without a word":     {raw(422, nil, ``), denied, "422"},
		"is overloaded":              {raw(503, map[string]string{"Retry-After": "7"}, `{"detail":"later"}`), away, "later"},
		"fails":                      {raw(500, nil, "<html>"), away, "500"},
		"doesn't know us":            {raw(401, nil, ``), away, "credentials"},
		"redirects":                  {raw(307, map[string]string{"Location": elsewhere.URL}, ``), wrong, "redirects"},
		"answers no JSON":            {raw(201, nil, `{"id":`), wrong, "isn't a Grant"},
		"answers a page":             {raw(201, map[string]string{"Content-Type": "text/html"}, `<p>`), wrong, "text/html"},
		"answers another status":     {raw(204, nil, ``), wrong, "204"},
		"accepts without a Location": {raw(202, nil, ``), wrong, "without a Location"},
		"says to ask somebody else":  {raw(202, map[string]string{"Location": elsewhere.URL + "/grant/v1/grants/1"}, ``), wrong, "isn't at"},
		"never ends": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			for chunk := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, wrong, "longer than"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(201)
			_, _ = w.Write([]byte(`{"id":"x"`))
		}, away, "broke off"},
		"hangs up":             {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, away, "EOF"},
		"nests a million deep": {raw(201, nil, `{"zones":`+strings.Repeat("[", 1000000)), wrong, "isn't a Grant"},
		"sends wrong types":    {raw(201, nil, `{"id":"x","addResources":"all"}`), wrong, "isn't a Grant"},
	} {
		t.Run(name, func(t *testing.T) {
			n := nfvo.New(t)
			n.Decide(func(nfvo.Ask) nfvo.Decision { return nfvo.Decision{Raw: c.answer} })
			_, err := client(t, n.URL, basic("jibe", "s3cret")).Ask(t.Context(), instantiation(t).Request())
			if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want it to say %q", err, c.says)
			}
			var retry *grant.RetryError
			if name == "is overloaded" && (!errors.As(err, &retry) || retry.After != 7*time.Second) {
				t.Errorf("it says nothing of the 7 s: %v", err)
			}
		})
	}
}

func TestASlowNFVOIsLeftWhenItsTimeIsUp(t *testing.T) {
	n := nfvo.New(t)
	end := make(chan struct{})
	n.Decide(func(nfvo.Ask) nfvo.Decision {
		return nfvo.Decision{Raw: func(http.ResponseWriter, *http.Request) { <-end }}
	})
	t.Cleanup(func() { close(end) })
	_, err := client(t, n.URL, peer.Settings{Timeout: 50 * time.Millisecond}).Ask(t.Context(), instantiation(t).Request())
	if !away(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestALocationElsewhereIsNeverPolled(t *testing.T) {
	n := nfvo.New(t)
	c := client(t, n.URL, basic("u", "p"))
	for _, at := range []string{"http://elsewhere.invalid/grant/v1/grants/1", "https" + strings.TrimPrefix(n.URL, "http") + "/g", "%", "/relative"} {
		if _, err := c.Poll(t.Context(), at); !wrong(err) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if n.Polls() > 0 {
		t.Error("it was polled")
	}
}

func TestCredentialsOfEachKindReachTheNFVO(t *testing.T) {
	var tokens int
	oauth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, password, basic := r.BasicAuth()
		if err := r.ParseForm(); err != nil || r.Form.Get("grant_type") != "client_credentials" || !basic || id != "jibe" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tokens++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600})
	}))
	defer oauth.Close()
	password := func(r *http.Request) bool { u, p, _ := r.BasicAuth(); return u == "jibe" && p == "s3cret" }
	bearer := func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer t0ken" }
	token := func(password, endpoint string) peer.Settings {
		return peer.Settings{Authentication: &peer.Authentication{OAuth: &peer.OAuth{TokenEndpoint: endpoint, ClientID: "jibe", ClientPassword: password}}}
	}
	for name, c := range map[string]struct {
		allow func(*http.Request) bool
		how   peer.Settings
		ok    bool
	}{
		"BASIC":                   {password, basic("jibe", "s3cret"), true},
		"a wrong password":        {password, basic("jibe", "wrong"), false},
		"OAuth 2.0":               {bearer, token("s3cret", oauth.URL), true},
		"a wrong client secret":   {bearer, token("wrong", oauth.URL), false},
		"no token endpoint there": {bearer, token("s3cret", "http://127.0.0.1:1/"), false},
	} {
		t.Run(name, func(t *testing.T) {
			n := nfvo.New(t)
			n.Allow(c.allow)
			caller := client(t, n.URL, c.how)
			for range 2 {
				if _, err := caller.Ask(t.Context(), instantiation(t).Request()); (err == nil) != c.ok || err != nil && !away(err) {
					t.Error(err)
				}
			}
		})
	}
	if tokens != 1 {
		t.Errorf("%d tokens were got for two requests", tokens)
	}
}

func TestAClientCertificateProvesWhoAsksAndTheCAWhoAnswers(t *testing.T) {
	n := nfvo.Unstarted(t)
	n.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	n.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.Certificate().Raw})
	key, err := x509.MarshalPKCS8PrivateKey(n.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	pair := peer.TLS{CA: ca, Certificate: ca, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}
	if a, err := client(t, n.URL, peer.Settings{TLS: pair}).Ask(t.Context(), instantiation(t).Request()); err != nil || a.Grant == nil {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := client(t, n.URL, peer.Settings{TLS: peer.TLS{CA: ca}}).Ask(t.Context(), instantiation(t).Request()); !away(err) {
		t.Errorf("without a certificate: %v", err)
	}
	if _, err := client(t, n.URL, peer.Settings{}).Ask(t.Context(), instantiation(t).Request()); !away(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
	if _, err := grant.NewClient(n.URL, peer.Settings{TLS: peer.TLS{CA: []byte("none")}}); err == nil {
		t.Error("a CA without a certificate was taken")
	}
}

// RFC 8705: a client certificate, and no secret, proves to the token endpoint who asks.
func TestATokenIsGotByTheCertificateAlone(t *testing.T) {
	oauth := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Form.Get("client_id") != "jibe" || r.Form.Has("client_secret") || len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "t0ken", "token_type": "Bearer"})
	}))
	oauth.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	oauth.StartTLS()
	defer oauth.Close()
	n := nfvo.Unstarted(t)
	n.StartTLS()
	n.Allow(func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer t0ken" })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: oauth.Certificate().Raw})
	key, err := x509.MarshalPKCS8PrivateKey(oauth.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	to := peer.Settings{TLS: peer.TLS{CA: ca, Certificate: ca, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})},
		Authentication: &peer.Authentication{OAuth: &peer.OAuth{TokenEndpoint: oauth.URL, ClientID: "jibe"}}}
	if a, err := client(t, n.URL, to).Ask(t.Context(), instantiation(t).Request()); err != nil || a.Grant == nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAnNFVOCanNotHaveItsPausesAndLinksAsItLikes(t *testing.T) {
	t.Parallel()
	n := nfvo.New(t)
	c := client(t, n.URL, peer.Settings{})
	ask := func(status int, header map[string]string, body string) grant.Answer {
		n.Decide(func(nfvo.Ask) nfvo.Decision {
			return nfvo.Decision{Raw: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for k, v := range header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			}}
		})
		a, err := c.Ask(t.Context(), instantiation(t).Request())
		if err != nil {
			t.Fatal(err)
		}
		return a
	}

	for text, want := range map[string]time.Duration{
		"31536000": 10 * time.Minute, "99999999999999999999": grant.Polling, "Fri, 31 Dec 9999 23:59:59 GMT": 10 * time.Minute,
		"-5": grant.Polling, "0": time.Second, "Thu, 01 Jan 1970 00:00:00 GMT": time.Second, "soon": grant.Polling,
	} {
		if a := ask(202, map[string]string{"Location": "/grant/v1/grants/1", "Retry-After": text}, ""); a.After != want {
			t.Errorf("Retry-After: %s has it asked again after %v, want %v", text, a.After, want)
		}
	}
	for text, want := range map[string]string{
		"https://elsewhere.example/grants/1": "https://elsewhere.example/grants/1",
		"javascript:alert(1)":                "", "file:///etc/passwd": "", "https://x.example/" + strings.Repeat("x", 3000): "",
	} {
		if a := ask(201, map[string]string{"Location": text}, `{"id":"g-1"}`); a.Location != want {
			t.Errorf("the grant at %.40s is shown at %.40q, want %q", text, a.Location, want)
		}
	}
}
