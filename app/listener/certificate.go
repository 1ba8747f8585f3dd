package listener

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// certificate is that of the API, which is read again when its files change: who renews it needs
// no restart. A file that can't be used changes nothing, and the log says so.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	seen    []byte // what the files had when they were read last, whether or not it was of use
}

// How soon after a change, and how often without being told of one, the files are looked at.
// Some file systems tell of nothing.
const (
	certificateSettles = 200 * time.Millisecond
	certificateLook    = time.Minute
)

// newCertificate reads the files; they MUST be of use.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := c.read(); err != nil {
		return nil, fmt.Errorf("certificate of the API (--tls-cert, --tls-key): %w", err)
	}
	return c, nil
}

// read takes what the files have, and says whether that is new.
func (c *certificate) read() (changed bool, err error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, err
	}
	text := bytes.Join([][]byte{cert, key}, []byte{0})
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(text, c.seen) {
		return false, nil
	}
	c.seen = text
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, err
	}
	c.current = &pair
	return true, nil
}

// get implements tls.Config's GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, nil
}

// run follows the files until ctx ends.
func (c *certificate) run(ctx context.Context) error {
	var events chan fsnotify.Event
	var failed chan error
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer w.Close()
		events, failed = w.Events, w.Errors
		// The directories: files are mostly renewed by another one that takes their name.
		for _, dir := range []string{filepath.Dir(c.certFile), filepath.Dir(c.keyFile)} {
			if err := w.Add(dir); err != nil {
				c.log.WarnContext(ctx, "certificate's directory isn't watched, looking at it every minute", "dir", dir, "error", err)
			}
		}
	}
	look := time.NewTimer(certificateLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			look.Reset(certificateSettles)
			continue
		case err := <-failed:
			c.log.WarnContext(ctx, "watch of the certificate's files", "error", err)
			continue
		case <-look.C:
		}
		switch changed, err := c.read(); {
		case err != nil:
			c.log.ErrorContext(ctx, "certificate of the API wasn't renewed, the former one stays in use", "error", err)
		case changed:
			c.log.InfoContext(ctx, "certificate of the API was renewed", "file", c.certFile)
		}
		look.Reset(certificateLook)
	}
}

// tlsConfig is how the API speaks TLS. From 1.2 on, crypto/tls offers those cipher suites alone that
// hide a connection's content also from who gets the key later.
func tlsConfig(c *certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get, NextProtos: []string{"h2", "http/1.1"}}
}

// Check refuses what anybody on the way could read or answer, unless that was allowed.
func (o Options) Check() error {
	if loopback(o.Address) {
		return nil
	}
	if o.InsecureDev {
		return fmt.Errorf("--insecure-dev lets everyone in, and --listen %s is reached from other machines: listen on 127.0.0.1", o.Address)
	}
	if o.CertFile == "" && !o.AllowPlainHTTP {
		return fmt.Errorf("--listen %s is reached from other machines, which would send their tokens in clear: give a certificate with --tls-cert and --tls-key, "+
			"or listen on 127.0.0.1 behind a proxy that has one; where the network between is trusted, --allow-plain-http allows it", o.Address)
	}
	return nil
}

// loopback says whether an address to listen on is this machine's alone, by all that its name
// stands for.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return true // nobody can listen there
	}
	if host == "localhost" { // which may be anything where /etc/hosts says so: see checkListening
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkListening is [Options.Check] for the address that a name turned out to be.
func (o Options) checkListening(l net.Listener) error {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		o.Address = net.JoinHostPort(a.IP.String(), "0")
	}
	return o.Check()
}
