package ha

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

// Forge is a git server: git http-backend over HTTPS. It can be away, and it can take a push
// and have the answer lost.
type Forge struct {
	// Dir has the bare repositories; CA is the file of the authority of its certificate.
	Dir, CA string

	at     netip.Addr // zero: httptest's
	server *httptest.Server
	away   atomic.Bool
	lose   atomic.Int32 // how many answers of pushes are lost next
	wrong  atomic.Bool  // whether there is an error instead of those
	lost   atomic.Int32
	hook   atomic.Pointer[string]
}

// webhookWait bounds one call of the webhook, which nothing depends on.
const webhookWait = 2 * time.Second

// NewForge starts a git server with empty repositories in a folder, for this machine alone.
func NewForge(ctx context.Context, dir string, repositories ...string) (*Forge, error) {
	return newForge(ctx, &Forge{Dir: dir}, "", repositories)
}

// NewForgeAt is [NewForge] for a server that others reach at an address of this machine. It lets in
// who has the password, under any name.
func NewForgeAt(ctx context.Context, dir string, at netip.Addr, password string, repositories ...string) (*Forge, error) {
	return newForge(ctx, &Forge{Dir: dir, at: at}, password, repositories)
}

func newForge(ctx context.Context, f *Forge, password string, repositories []string) (*Forge, error) {
	dir := f.Dir
	f.CA = filepath.Join(dir, "ca.pem")
	for _, name := range repositories {
		repository := f.Repository(name)
		if _, err := process.Git(ctx, dir, "init", "--quiet", "--bare", "--initial-branch=main", repository); err != nil {
			return nil, err
		}
		for _, key := range []string{"http.receivepack", "receive.advertisePushOptions"} {
			if _, err := process.Git(ctx, repository, "config", key, "true"); err != nil {
				return nil, err
			}
		}
	}
	core, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("find git http-backend: %w", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Dir: dir, Stderr: io.Discard,
		Env: append(process.Environment(), "GIT_PROJECT_ROOT="+dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=person"),
	}
	f.server = httptest.NewUnstartedServer(known(password, f.handler(backend)))
	f.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of clients that were killed
	if f.at.IsValid() {
		if err := f.listen(); err != nil {
			return nil, err
		}
	}
	f.server.StartTLS()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	return f, os.WriteFile(f.CA, certificate, 0o644)
}

// listen has the server be at its address, with a certificate that names that.
func (f *Forge) listen() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{f.at.AsSlice()}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	_ = f.server.Listener.Close() // nobody has been told of it
	f.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	f.server.Listener, err = net.Listen("tcp", netip.AddrPortFrom(f.at, 0).String())
	return err
}

// known lets in who has the password; "" lets in everybody.
func known(password string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); password != "" && given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Close ends it.
func (f *Forge) Close() {
	f.away.Store(true)
	f.server.CloseClientConnections()
	f.server.Close()
}

// URL is that of a repository.
func (f *Forge) URL(name string) string { return f.server.URL + "/" + name }

// Repository is the folder of a repository.
func (f *Forge) Repository(name string) string { return filepath.Join(f.Dir, name) }

// Away says whether each connection is cut from now on.
func (f *Forge) Away(away bool) { f.away.Store(away) }

// Lose has the answers of the next n pushes lost, which are taken: the connection is cut, or the
// answer is an error.
func (f *Forge) Lose(n int, wrong bool) {
	f.wrong.Store(wrong)
	f.lose.Store(int32(n))
}

// Lost is how many answers were lost so far.
func (f *Forge) Lost() int { return int(f.lost.Load()) }

// Webhook is the URL that is called after each push, "" is none.
func (f *Forge) Webhook(url string) { f.hook.Store(&url) }

func (f *Forge) handler(backend http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.away.Load() {
			cut(w)
			return
		}
		// git says nothing of the length of what it sends in pieces, which http-backend has to know.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		answer := httptest.NewRecorder()
		// A push that has come is carried out, whether or not its client is still there.
		backend.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		if path.Base(r.URL.Path) == "git-receive-pack" {
			f.told()
			if f.lose.Add(-1) >= 0 {
				f.lost.Add(1)
				if f.wrong.Load() {
					http.Error(w, "taken, and nobody is told", http.StatusInternalServerError)
				} else {
					cut(w)
				}
				return
			}
			f.lose.Store(0)
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // a client that went away needs no answer
	})
}

// told calls the webhook, as forges do: once, and whatever becomes of it.
func (f *Forge) told() {
	url := f.hook.Load()
	if url == nil || *url == "" {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), webhookWait)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, *url, http.NoBody)
		if err != nil {
			return
		}
		if a, err := http.DefaultClient.Do(req); err == nil {
			_ = a.Body.Close()
		}
	}()
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}
