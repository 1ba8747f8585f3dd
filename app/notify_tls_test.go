package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// certificate writes a certificate for the loopback address, which is its own authority, and its
// key.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTheCertificateOfTheFlagsIsShownToSubscribers(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "jibe")
	serverCert, serverKey := certificate(t, dir, "subscriber")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !clients.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	subscriber := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	subscriber.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	subscriber.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	subscriber.StartTLS()
	t.Cleanup(subscriber.Close)
	run := func(o app.NotifyOptions, serve func(*process.Server)) error {
		data := filepath.Join(t.TempDir(), "data")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return app.Run(ctx, app.Options{Data: data, Listen: "127.0.0.1:0", Egress: egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Branch: "main", Notify: o, Log: slog.New(slog.DiscardHandler), Ready: func(s *app.Server) {
			go func() {
				defer cancel()
				if token, err := auth.LocalToken(datadir.TokensFile(data)); err != nil {
					t.Error(err)
				} else {
					serve(&process.Server{URL: "http://" + s.Address(), Data: data, Token: token})
				}
			}()
		}})
	}
	subscribe := func(status int) func(*process.Server) {
		return func(s *process.Server) {
			a, err := s.Do(t.Context(), http.MethodPost, process.Subscriptions, map[string]any{"callbackUri": subscriber.URL, "authentication": map[string]any{"authType": []string{"TLS_CERT"}}})
			if err != nil || a.Status != status {
				t.Errorf("%v: %+v, want %d", err, a, status)
			}
		}
	}
	if err := run(app.NotifyOptions{Cert: cert, Key: key, CA: serverCert}, subscribe(http.StatusCreated)); err != nil {
		t.Error(err)
	}
	if err := run(app.NotifyOptions{Cert: cert, Key: key}, subscribe(http.StatusUnprocessableEntity)); err != nil { // who signed the subscriber's isn't known
		t.Error(err)
	}
	if err := run(app.NotifyOptions{}, subscribe(http.StatusBadRequest)); err != nil {
		t.Error(err)
	}
	nobody := func(*process.Server) { t.Error("it was started") }
	for says, o := range map[string]app.NotifyOptions{
		"--notify-client-key":                      {Cert: cert},
		"--notify-client-cert":                     {Cert: cert, Key: serverKey},
		"--notify-ca":                              {CA: filepath.Join(dir, "none")},
		"holds no PEM certificate":                 {CA: key},
		"--notify-retention -1s: want a duration ": {Retention: -time.Second},
	} {
		if err := run(o, nobody); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
