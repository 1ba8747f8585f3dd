package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/auth"
)

func newRegistry(m *reconciler.Metrics) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(m.Collectors()...)
	return r
}

// handler is everything that the API's address serves.
func (s *Server) handler() http.Handler {
	requests := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "jibe_http_request_duration_seconds",
		Help:    "Duration of API requests, by route, method and status.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 10),
	}, []string{"route", "method", "status"})
	s.registry.MustRegister(requests)
	mux := http.NewServeMux()
	mux.Handle("/vnflcm/", sol.New(sol.Config{
		Repo: s.repo, Operations: s.oplog, View: apiView{s.recon.View(), s.problems}, Secrets: s.keeper,
		Subscriptions: s.notify, Auth: s.auth, BaseURL: s.BaseURL, Poke: s.recon.Enqueue, Log: s.Log,
		Observe: func(route, method string, status int, took time.Duration) {
			requests.WithLabelValues(route, method, http.StatusText(status)).Observe(took.Seconds())
		},
	}))
	mux.Handle("/jibe/v1/", s.guardJibeAPI(s.jibeAPI()))
	mux.Handle("/git/", s.guardGit(s.git()))
	mux.HandleFunc("POST /webhook", s.webhook)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respondText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

func respondText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a client that went away needs no answer
}

// ready says whether the desired repository can be read and followed, and whether it and
// the store can be written.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := errors.Join(s.repo.Health(), s.disk.health()); err != nil {
		respondText(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	respondText(w, http.StatusOK, "ok\n")
}

// webhook makes a fetch happen now. Nothing in the request is believed, so that it needs no
// credentials, and many requests are the same as one.
func (s *Server) webhook(w http.ResponseWriter, _ *http.Request) {
	s.repo.Poke()
	w.WriteHeader(http.StatusAccepted)
}

// guardJibeAPI lets in whoever may read. A proposal makes the server fetch and render, and
// needs the role of a change, therefore.
func (s *Server) guardJibeAPI(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		role := auth.Read
		switch {
		case r.URL.Path == "/jibe/v1/accept":
			role = auth.Admin
		case r.Method != http.MethodGet:
			role = auth.Operate
		}
		who, err := s.auth.Authenticate(r)
		switch {
		case err != nil:
			w.Header().Set("WWW-Authenticate", `Bearer realm="jibe"`)
			respondProblem(w, http.StatusUnauthorized, "a valid bearer token is needed")
		case !who.Role.Allows(role):
			respondProblem(w, http.StatusForbidden, "role "+string(role)+" is needed")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// guardGit is [Server.guardJibeAPI] for git clients, which send the token as a password. A
// push needs the role that a change by the API would.
func (s *Server) guardGit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		need := auth.Read
		if strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack" {
			need = auth.Operate
		}
		who, err := s.auth.Authenticate(r)
		switch {
		case err != nil:
			w.Header().Set("WWW-Authenticate", `Basic realm="jibe: the token is the password"`)
			respondText(w, http.StatusUnauthorized, "a token is needed as the password\n")
		case !who.Role.Allows(need):
			respondText(w, http.StatusForbidden, "role "+string(need)+" is needed\n")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// git serves the local repositories by real git.
func (s *Server) git() http.Handler {
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, r *http.Request, dir, prefix string) {
		r.Header.Del("Authorization") // the repositories' hooks have no need of it
		http.StripPrefix(prefix, gitrepo.ServeHTTP(dir, s.Log)).ServeHTTP(w, r)
	}
	mux.HandleFunc("/git/desired.git/", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, s.data.Desired(), "/git/desired.git")
	})
	mux.HandleFunc("/git/packages/{name}/", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		dir := filepath.Join(s.data.Packages(), name)
		if !strings.HasSuffix(name, ".git") || !filepath.IsLocal(name) || !isDir(dir) {
			http.NotFound(w, r)
			return
		}
		serve(w, r, dir, "/git/packages/"+name)
	})
	return mux
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// maxSocketPath is how long the path of a socket may be, bytes: 107 on Linux, and
// fewer elsewhere.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// pushHookServer serves Jibe's API on a socket that only this user can open: the push hook
// of the local repository asks there.
func (s *Server) pushHookServer(context.Context) (*http.Server, net.Listener, error) {
	path := s.data.Socket()
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
	return &http.Server{Handler: s.jibeAPI(), ReadHeaderTimeout: 10 * time.Second}, l, nil
}

// settleTime lets the files of one push arrive before it is looked at.
const settleTime = 5 * time.Millisecond

// watchPackages notices pushes to local package repositories at once, and fetches the
// others every Poll.
func (s *Server) watchPackages(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	dirs, err := filepath.Glob(filepath.Join(s.data.Packages(), "*.git"))
	if err != nil {
		return err
	}
	for _, d := range dirs {
		for _, sub := range []string{"", "refs/heads", "refs/tags"} {
			if err := w.Add(filepath.Join(d, sub)); err != nil {
				return err
			}
		}
	}
	poll := s.Poll
	if poll <= 0 {
		poll = 30 * time.Second
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("the watch of the package repositories ended")
			}
			if !strings.HasSuffix(e.Name, ".lock") && (strings.Contains(e.Name, "/refs/") || filepath.Base(e.Name) == "packed-refs") {
				timer.Reset(settleTime)
			}
			continue
		case err := <-w.Errors:
			s.Log.WarnContext(ctx, "watch of the package repositories", "error", err)
			continue
		case <-timer.C:
		}
		if err := s.syncPackages(ctx); err != nil {
			s.Log.WarnContext(ctx, "package repositories were not all fetched", "error", err)
		}
		s.recon.EnqueueUnobeyed() // the packages that they name may be there now
		s.follower.PackagesChanged()
		timer.Reset(poll)
	}
}
