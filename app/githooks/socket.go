package githooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
)

// maxSocketPath is how long the path of a socket may be, bytes: 107 on Linux, and
// fewer elsewhere.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Routes adds what the hooks ask.
func (s *Service) Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+admission.PushPath, s.push)
	mux.HandleFunc("POST "+admission.LandPath, s.land)
}

// Listen answers what mux has on a socket that only this user can open, and knows who asks.
func Listen(path string, mux *http.ServeMux) (*http.Server, net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	if len(path) > maxSocketPath {
		return nil, nil, fmt.Errorf("the path of the hook's socket, %s, has %d bytes, and a socket's may have %d: give a data directory with a shorter path",
			path, len(path), maxSocketPath)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		if uid, ok := peerUser(c); ok {
			ctx = context.WithValue(ctx, peerKey{}, uid)
		}
		return ctx
	}}, l, nil
}

// HostOnly lets in, on the socket in the data directory, who could read the directory anyway, and
// records what they ask for.
func (s *Service) HostOnly(action string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := localPusher(r.Context())
		if err != nil {
			answer.Problem(w, http.StatusForbidden, err.Error())
			return
		}
		if action != "" {
			err := s.Audit.Record(r.Context(), audit.Record{Identity: by.who.Name, Issuer: auth.IssuerHost, Action: action, Outcome: audit.Done})
			if err != nil && !s.Audit.Unaudited() {
				answer.Problem(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		next(w, r)
	}
}
