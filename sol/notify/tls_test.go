package notify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	pair := a.issue("authority")
	var err error
	if a.cert, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	a.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate for the loopback address; the first one is the authority's own.
func (a *authority) issue(name string) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: a.cert == nil}
	parent, signer := cert, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// guard serves h to clients that have a certificate of the authority.
func (a *authority) guard(h http.Handler) string {
	a.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*a.issue("server")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool}
	s.StartTLS()
	a.t.Cleanup(s.Close)
	return s.URL
}

func print256(c *tls.Certificate) string {
	sum := sha256.Sum256(c.Certificate[0])
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestASubscriberThatAsksForACertificateGetsOneAndTheRenewedOneLater(t *testing.T) {
	a := newAuthority(t)
	var shown atomic.Value
	shown.Store(a.issue("jibe-1"))
	w := newWorldWith(t, func(c *notify.Config) {
		c.CAs = a.pool
		c.Certificate = func() (*tls.Certificate, error) { return shown.Load().(*tls.Certificate), nil }
	})
	s := newSubscriber(t)
	var client atomic.Value
	url := a.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		w.Header().Set("Connection", "close") // so that the next one is asked for its certificate again
		s.Config.Handler.ServeHTTP(w, r)
	}))
	sub := w.subscribe(notify.Request{CallbackURI: url, Authentication: &notify.Authentication{AuthType: []string{notify.TLSCert}},
		Filter: &notify.Filter{OperationStates: []string{"COMPLETED"}, NotificationTypes: []string{notify.OperationNotification}}})
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "op001 COMPLETED")
	if client.Load() != "jibe-1" {
		t.Errorf("it was shown %v", client.Load())
	}
	shown.Store(a.issue("jibe-2"))
	w.restart()
	w.operate("amf", lcm.Scale)
	s.waitForAgain(t, "op001 COMPLETED", "op002 COMPLETED")
	if client.Load() != "jibe-2" {
		t.Errorf("after the renewal it was shown %v", client.Load())
	}
	if got, err := w.lcm.Get(t.Context(), nfvo(), sub.ID); err != nil || got.CallbackURI != url {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestATokenIsGotByTheCertificate(t *testing.T) {
	a := newAuthority(t)
	own := a.issue("jibe")
	w := newWorldWith(t, func(c *notify.Config) {
		c.CAs, c.Certificate = a.pool, func() (*tls.Certificate, error) { return own, nil }
	})
	s := newSubscriber(t)
	s.authorized = func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer by-certificate" }
	tokens := a.guard(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _, basic := r.BasicAuth()
		if err := r.ParseForm(); err != nil || basic || r.Form.Get("client_id") != "jibe" || r.Form.Has("client_secret") ||
			r.Form.Get("grant_type") != "client_credentials" || r.TLS.PeerCertificates[0].Subject.CommonName != "jibe" {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"access_token":"by-certificate","token_type":"Bearer","expires_in":3600}`)
	}))
	request := func(change func(*notify.ClientCertParams)) notify.Request {
		p := &notify.ClientCertParams{ClientID: "jibe", Reference: notify.CertificateRef{Type: "x5t#256", Value: print256(own)}, TokenEndpoint: tokens + "/token"}
		change(p)
		return notify.Request{CallbackURI: s.URL, Authentication: &notify.Authentication{AuthType: []string{notify.ClientCert}, ClientCert: p}}
	}
	w.subscribe(request(func(*notify.ClientCertParams) {}))
	w.operate("amf", lcm.Scale)
	s.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	w.restart()
	w.operate("amf", lcm.Heal)
	s.waitForAgain(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED", "op002 STARTING", "op002 PROCESSING", "op002 COMPLETED")
	for what, change := range map[string]func(*notify.ClientCertParams){
		"certificateRef.value": func(p *notify.ClientCertParams) { p.Reference.Value = print256(a.issue("another")) },
		"certificateRef.type":  func(p *notify.ClientCertParams) { p.Reference.Type = "x5u" },
		"clientId":             func(p *notify.ClientCertParams) { p.ClientID = "" },
		"https://": func(p *notify.ClientCertParams) {
			p.TokenEndpoint = strings.Replace(p.TokenEndpoint, "https", "http", 1)
		},
	} {
		if _, err := w.lcm.Create(t.Context(), nfvo(), request(change)); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWithoutACertificateNobodyIsPromisedOne(t *testing.T) {
	w, s := newWorld(t), newSubscriber(t)
	for _, auth := range []*notify.Authentication{
		{AuthType: []string{notify.TLSCert}},
		{AuthType: []string{notify.ClientCert}, ClientCert: &notify.ClientCertParams{ClientID: "jibe", TokenEndpoint: "https://tokens.example/"}},
	} {
		if _, err := w.lcm.Create(t.Context(), nfvo(), notify.Request{CallbackURI: s.URL, Authentication: auth}); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "--notify-client-cert") {
			t.Errorf("%v: %v", auth, err)
		}
	}
}
