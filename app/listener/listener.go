// Package listener is the address of the API: its certificate, and what one client may take of it. It knows
// nothing of what is served there.
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/jibe-vnfm/jibe/app/answer"
)

// Options say where the API listens, and how.
type Options struct {
	Address           string // host:port; port 0 picks one
	CertFile, KeyFile string // "" for no TLS
	// AllowPlainHTTP lets a server without a certificate listen where other machines reach it.
	AllowPlainHTTP bool
	// InsecureDev lets everyone in without a token.
	InsecureDev bool
	Connections Connections
	Log         *slog.Logger
}

// Place opens addresses.
type Place interface {
	Listen(address string, log *slog.Logger) (net.Listener, error)
}

// Callers ask clients for their certificates.
type Callers interface{ Configure(*tls.Config) }

// Listener listens at the address of the API.
type Listener struct {
	Options
	certificate *certificate // nil without TLS
	listener    net.Listener
}

// New reads the certificate, where there is one.
func New(o Options) (*Listener, error) {
	l := &Listener{Options: o}
	if o.CertFile == "" && o.KeyFile == "" {
		return l, nil
	}
	var err error
	l.certificate, err = newCertificate(o.CertFile, o.KeyFile, o.Log)
	return l, err
}

// open listens at the address.
func (l *Listener) open(at Place) (net.Listener, error) {
	opened, err := at.Listen(l.Options.Address, l.Log)
	if err != nil {
		return nil, err
	}
	if err := l.checkListening(opened); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// Listen listens from now on. Addresses that are trusted have no bound of their own.
func (l *Listener) Listen(at Place, trusted func(netip.Addr) bool) error {
	opened, err := l.open(at)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", l.Options.Address, err)
	}
	l.listener = l.Connections.bound(opened, trusted, l.Log)
	return nil
}

// Address is where it listens.
func (l *Listener) Address() string { return l.listener.Addr().String() }

// URL is how the API is reached on this machine.
func (l *Listener) URL() string {
	if l.certificate != nil {
		return "https://" + l.Address()
	}
	return "http://" + l.Address()
}

// Close listens no longer. It may be called where it never did.
func (l *Listener) Close() error {
	if l.listener == nil {
		return nil
	}
	if err := l.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Run follows the certificate's files until ctx ends.
func (l *Listener) Run(ctx context.Context) error {
	if l.certificate == nil {
		return nil
	}
	return l.certificate.run(ctx)
}

// Server makes the server of what is served. callers is nil where clients show no certificates.
func (l *Listener) Server(h http.Handler, callers Callers) *http.Server {
	server := defaultLimits().server(h, l.Log)
	if l.certificate != nil {
		server.TLSConfig = tlsConfig(l.certificate)
		if callers != nil {
			callers.Configure(server.TLSConfig)
		}
	}
	return server
}

// Serve serves until the server is shut down.
func (l *Listener) Serve(server *http.Server) error { return l.serve(server, l.listener) }

func (l *Listener) serve(server *http.Server, at net.Listener) error {
	serve := func() error { return server.Serve(at) }
	if l.certificate != nil {
		serve = func() error { return server.ServeTLS(at, "", "") }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Defer answers, while the start waits for something, that the process lives and why it isn't ready, until
// stop is called, which frees the address again.
func (l *Listener) Defer(at Place, why string) (stop func(), err error) {
	opened, err := l.open(at)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer.Text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer.Text(w, http.StatusServiceUnavailable, why) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer.Problem(w, http.StatusServiceUnavailable, "this process is starting: ask again in a moment")
	})
	server := l.Server(mux, nil)
	server.SetKeepAlivesEnabled(false)

	var g sync.WaitGroup
	g.Go(func() {
		if err := l.serve(server, opened); err != nil {
			l.Log.Warn("that the start waits for the store can't be told any more", "error", err)
		}
	})
	return func() {
		_ = server.Close() // what is asked now is asked again
		g.Wait()
	}, nil
}
