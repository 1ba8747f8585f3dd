package peer

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/internal/egress"
)

// TLS says whom a client trusts and who it is.
type TLS struct {
	// CA is the PEM certificates of the authorities that are trusted. Empty means the system's.
	CA []byte
	// Roots are such authorities that were read already; they are used where CA is empty.
	Roots *x509.CertPool
	// Certificate and Key are shown to a server that asks (mTLS), in PEM; both or neither.
	Certificate, Key []byte
	// Renewed gives the certificate to show for each connection, in place of Certificate and
	// Key, so that one that was renewed is shown from then on.
	Renewed func() (*tls.Certificate, error)
}

const (
	// dialTimeout bounds a connection and a TLS handshake, each.
	dialTimeout = 10 * time.Second
	// maxHeader is how many bytes the headers of an answer may have.
	maxHeader = 64 << 10
)

// NewTransport returns a transport for [Settings.Transport]. timeout is that of a request: a
// connection takes half of it at most, so that a failure names what was slow; 0 is the default.
// It fails where a certificate or the key can't be read.
//
// It calls what the guard lets pass; nil is the strictest guard.
func NewTransport(guard *egress.Guard, t TLS, timeout time.Duration) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.Roots}
	if t.Renewed != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.Renewed() }
	}
	if len(t.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, errors.New("the CA isn't a certificate in PEM form")
		}
	}
	if len(t.Certificate) > 0 || len(t.Key) > 0 {
		own, err := tls.X509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("the client certificate and its key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	dial := min(dialTimeout, cmp.Or(timeout, defaultTimeout)/2)
	return &http.Transport{
		Proxy: guard.ProxyFor, DialContext: guard.DialContext(dial), ForceAttemptHTTP2: true,
		TLSClientConfig: config, TLSHandshakeTimeout: dial, MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
	}, nil
}
