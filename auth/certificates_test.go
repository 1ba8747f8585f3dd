package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{}
	a.cert, a.key = a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a authority) issue(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotBefore.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func TestACertificateTellsWhoCallsWhereItsAuthorityIsBelieved(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ours.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	cas, err := OpenClientCAs(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	callers := &Callers{ClientCAs: cas, Identities: identities(t, `
tokens: [{name: nfvo, role: viewer, token: 0123456789abcdef}]
certificates:
- {name: orchestrator, role: operator, subject: "CN=nfvo,O=Example"}
- {name: ems-1, role: operator, interface: sol002, em: ems-1, uri: "spiffe://example/ems-1"}
- {name: ci, role: planner, dns: ci.example}
- {name: ann, role: viewer, email: ann@example.com}
`)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := callers.Authenticate(r)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(who.String()))
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	spiffe, err := url.Parse("spiffe://example/ems-1")
	if err != nil {
		t.Fatal(err)
	}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	nfvo := func() *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "nfvo", Organization: []string{"Example"}}, ExtKeyUsage: client}
	}
	expired := nfvo()
	expired.NotBefore, expired.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	forServers := nfvo()
	forServers.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	call := func(what string, by *authority, c *x509.Certificate, token, want string) {
		t.Helper()
		transport := server.Client().Transport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		if c != nil {
			made, key := by.issue(t, c)
			transport.TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{made.Raw}, PrivateKey: key}}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		defer resp.Body.Close()
		got := make([]byte, 100)
		n, _ := resp.Body.Read(got)
		if string(got[:n]) != want {
			t.Errorf("%s: %d %q, want %q", what, resp.StatusCode, got[:n], want)
		}
	}
	call("a subject", &ours, nfvo(), "", "orchestrator (certificate)")
	call("a URI", &ours, &x509.Certificate{URIs: []*url.URL{spiffe}, ExtKeyUsage: client}, "", "ems-1 (certificate)")
	call("a name of DNS", &ours, &x509.Certificate{DNSNames: []string{"CI.example"}, ExtKeyUsage: client}, "", "ci (certificate)")
	call("an address", &ours, &x509.Certificate{EmailAddresses: []string{"ann@example.com"}, ExtKeyUsage: client}, "", "ann (certificate)")
	call("none", nil, nil, "", "")
	call("of another authority", &others, nfvo(), "", "")
	call("signed by itself", &authority{}, nfvo(), "", "")
	call("expired", &ours, expired, "", "")
	call("for servers", &ours, forServers, "", "")
	call("of nobody who is known", &ours, &x509.Certificate{Subject: pkix.Name{CommonName: "nfvo"}, ExtKeyUsage: client}, "", "")
	call("with a subject that looks alike", &ours, &x509.Certificate{Subject: pkix.Name{CommonName: "nfvo,O=Example"}, ExtKeyUsage: client}, "", "")
	call("of two callers", &ours, &x509.Certificate{DNSNames: []string{"ci.example"}, EmailAddresses: []string{"ann@example.com"}, ExtKeyUsage: client}, "", "")
	call("a token beside it", &ours, nfvo(), "0123456789abcdef", "nfvo")
	call("a wrong token beside it", &ours, nfvo(), "0123456789abcdeg", "")
	// Another authority takes the place of the first, which nobody restarts anything for.
	if err := os.WriteFile(file, others.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * lookAgain)
	cas.now = func() time.Time { return later }
	call("of the former authority", &ours, nfvo(), "", "")
	call("of the new one", &others, nfvo(), "", "orchestrator (certificate)")
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	later = later.Add(2 * lookAgain)
	call("where the file is broken", &others, nfvo(), "", "orchestrator (certificate)")
}

func TestACertificateOfTwoCallersIsRefusedInTheFile(t *testing.T) {
	for _, in := range []string{
		"{name: a, role: viewer}", "{name: a, role: viewer, dns: x, uri: y}", "{name: a, role: viewer, dns: ''}", "{name: a, role: viewer, dns: }",
		"{name: a, role: viewer, dns: x}, {name: b, role: viewer, dns: x}", "{name: a, role: viewer, dns: x}, {name: a, role: viewer, dns: y}", "{role: viewer, dns: x}",
	} {
		if _, err := Parse([]byte("certificates: [" + in + "]")); err == nil {
			t.Errorf("%s was accepted", in)
		}
	}
}
