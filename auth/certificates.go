package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// certificate says whose certificates are that have one subject or alternative name.
type certificate struct {
	Identity
	fileNames
}

// fileNames is what of a certificate names its owner: exactly one of them.
type fileNames struct {
	// Subject is its distinguished name as RFC 4514 writes it, in the order of the certificate:
	// "CN=nfvo,O=Example".
	Subject given `json:"subject"`
	URI     given `json:"uri"`
	DNS     given `json:"dns"`
	Email   given `json:"email"`
}

type fileCertificate struct {
	fileIdentity
	fileNames
}

// readCertificates checks the entries of the file.
func readCertificates(list []fileCertificate) ([]certificate, error) {
	var out []certificate
	for i, fc := range list {
		where := fmt.Sprintf("token file: certificates[%d]", i)
		id, err := fc.identity(IssuerCertificates)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		named := slices.DeleteFunc([]given{fc.Subject, fc.URI, fc.DNS, fc.Email}, func(g given) bool { return g == "" })
		if len(named) != 1 {
			return nil, fmt.Errorf("%s (%s): give one of subject, uri, dns and email", where, id.Name)
		}
		if fc.Subject != "" {
			subject, err := parseSubject(string(fc.Subject))
			if err != nil {
				return nil, fmt.Errorf("%s (%s): %w", where, id.Name, err)
			}
			fc.Subject = given(subject)
		}
		for j, other := range out {
			if other.Name == id.Name || other.fileNames == fc.fileNames {
				return nil, fmt.Errorf("%s (%s): certificates[%d] has the same name, or is of the same certificate", where, id.Name, j)
			}
		}
		out = append(out, certificate{id, fc.fileNames})
	}
	return out, nil
}

// of reports whether the leaf is one that the entry names. Its subject is compared as the certificate has it.
func (c *fileNames) of(leaf *x509.Certificate) bool {
	switch {
	case c.Subject != "":
		subject, err := subjectText(leaf.RawSubject)
		return err == nil && subject == string(c.Subject)
	case c.URI != "":
		for _, u := range leaf.URIs {
			if u.String() == string(c.URI) {
				return true
			}
		}
		return false
	case c.DNS != "":
		return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, string(c.DNS)) })
	}
	return c.Email != "" && slices.Contains(leaf.EmailAddresses, string(c.Email))
}

// shownSubject is the subject as a token file has to name it.
func shownSubject(leaf *x509.Certificate) string {
	subject, err := subjectText(leaf.RawSubject)
	if err != nil {
		return "a subject that can't be read"
	}
	return subject
}

func (t *Tokens) certified(leaf *x509.Certificate) (Identity, error) {
	var found []Identity
	for _, c := range t.certificates {
		if c.of(leaf) {
			found = append(found, c.Identity)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Identity{}, fmt.Errorf("%w: nobody is known by the certificate of %s", ErrUnauthenticated, nameOf(shownSubject(leaf)))
	}
	return Identity{}, fmt.Errorf("%w: the certificate is that of %s and of %s, so that it is nobody's", ErrUnauthenticated, found[0].Name, found[1].Name)
}

// ClientCAs are the authorities whose certificates callers may show, in a file that is read
// again when it changes. A file that can't be used leaves the last good ones in force. It is
// safe for concurrent use.
type ClientCAs struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	pool   *x509.CertPool
	text   [sha256.Size]byte
	looked time.Time
	broken bool
}

// lookAgain is how long the file of authorities is believed to be what it was.
const lookAgain = time.Second

// OpenClientCAs reads a PEM file of authorities.
func OpenClientCAs(path string, log *slog.Logger) (*ClientCAs, error) {
	c := &ClientCAs{path: path, log: log, now: time.Now}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// read reads the file. The caller has mu, or is the only one.
func (c *ClientCAs) read() error {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return fmt.Errorf("authorities of callers' certificates: %w", err)
	}
	c.looked = c.now()
	sum := sha256.Sum256(text)
	if c.pool != nil && sum == c.text {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("authorities of callers' certificates: %s holds no PEM certificate", c.path)
	}
	c.pool, c.text = pool, sum
	return nil
}

// Pool is the authorities as the file has them now.
func (c *ClientCAs) Pool() *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.looked) < lookAgain {
		return c.pool
	}
	err := c.read()
	c.looked = c.now()
	if err != nil && !c.broken {
		c.log.Error("the authorities of callers' certificates can't be read: those before are believed still", "error", err)
	}
	c.broken = err != nil
	return c.pool
}

// Configure has a server ask callers for a certificate, which they need not have. Whether one
// that is shown is believed is found out at each request ([ClientCAs.verify]), as a connection
// outlives what is believed.
func (c *ClientCAs) Configure(t *tls.Config) {
	t.ClientAuth = tls.RequestClientCert
}

// verify returns the certificate that the request's caller has shown, nil where there is none.
// An error wraps [ErrUnauthenticated].
func (c *ClientCAs) verify(r *http.Request) (*x509.Certificate, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	leaf := r.TLS.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, cert := range r.TLS.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: c.Pool(), Intermediates: between, CurrentTime: c.now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return nil, fmt.Errorf("%w: the certificate is of no authority that is believed, is not for clients, or isn't valid now", ErrUnauthenticated)
	}
	return leaf, nil
}
