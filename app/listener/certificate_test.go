package listener

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// shown is the number of the certificate that the server shows, in a handshake as the client wants
// it.
func shown(address string, config *tls.Config) (int64, error) {
	config = config.Clone()
	config.InsecureSkipVerify = true
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// serveTLS serves an empty answer by TLS with the certificate.
func serveTLS(t *testing.T, c *certificate, h http.HandlerFunc) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := defaultLimits().server(h, slog.New(slog.DiscardHandler))
	server.TLSConfig = tlsConfig(c)
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l.Addr().String()
}

func TestARenewedCertificateIsShownWithoutARestartAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := newCertificate(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a certificate that isn't there was taken")
	}
	kit.Issue(t, certFile, keyFile, 1)
	var log syncBuffer
	c, err := newCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	go c.run(t.Context())
	address := serveTLS(t, c, func(http.ResponseWriter, *http.Request) {})
	shows := func(want int64) {
		t.Helper()
		kit.Until(t, "the server shows another certificate", func() bool {
			n, err := shown(address, &tls.Config{})
			return err == nil && n == want
		})
	}
	shows(1)
	kit.Issue(t, certFile, keyFile, 2)
	shows(2)
	if err := os.WriteFile(certFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the log tells of the broken file", func() bool { return strings.Contains(log.String(), "wasn't renewed") })
	shows(2)
	kit.Issue(t, certFile, keyFile, 3)
	shows(3)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		if _, err := shown(address, &tls.Config{MinVersion: version, MaxVersion: version}); (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	for _, s := range tls.InsecureCipherSuites() {
		if _, err := shown(address, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{s.ID}}); err == nil {
			t.Errorf("%s is spoken", s.Name)
		}
	}
}

func TestPlainHTTPIsRefusedWhereOtherMachinesReachIt(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Address: "127.0.0.1:0"}, ""},
		{Options{Address: "127.9.9.9:0"}, ""},
		{Options{Address: "[::1]:0"}, ""},
		{Options{Address: "localhost:0"}, ""},
		{Options{Address: ":9890"}, "--allow-plain-http"},
		{Options{Address: "0.0.0.0:9890"}, "--allow-plain-http"},
		{Options{Address: "[::]:9890"}, "--allow-plain-http"},
		{Options{Address: "192.0.2.1:9890"}, "--allow-plain-http"},
		{Options{Address: "vnfm.example:9890"}, "--allow-plain-http"},
		{Options{Address: "[::ffff:192.0.2.1]:9890"}, "--allow-plain-http"},
		{Options{Address: "0.0.0.0:9890", AllowPlainHTTP: true}, ""},
		{Options{Address: "0.0.0.0:9890", CertFile: "x"}, ""},
		{Options{Address: "0.0.0.0:9890", CertFile: "x", InsecureDev: true}, "--insecure-dev"},
		{Options{Address: "0.0.0.0:9890", AllowPlainHTTP: true, InsecureDev: true}, "--insecure-dev"},
		{Options{Address: "127.0.0.1:9890", InsecureDev: true}, ""},
	} {
		err := c.o.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o.Address, err)
		}
	}
	// A name is as good as what it turned out to be.
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := (Options{Address: "localhost:0"}).checkListening(l); err == nil {
		t.Error("a server listens everywhere by a name of this machine")
	}
}

// syncBuffer is a buffer that may be written while it is read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
