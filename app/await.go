package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
)

// awaitPause is how often a start looks whether Redis is there again.
const awaitPause = time.Second

// errEnded is returned by a start that was told to end while it waited.
var errEnded = errors.New("told to end before the start was done")

// awaitRedis opens the Redis, and waits for one that can't be reached: whoever started this process would
// only start it again. Meanwhile /healthz says that it lives, and everything else that it isn't ready. What
// Redis itself refuses, as a wrong password, ends the start.
func (s *Server) awaitRedis(ctx context.Context, o redis.Options) (*redis.Store, error) {
	r, err := redis.Open(ctx, o)
	if !errors.Is(err, store.ErrUnavailable) || redis.Refused(err) {
		return r, err
	}
	s.Log.WarnContext(ctx, "Redis can't be reached: the start waits for it", "error", err)
	since := time.Now()
	stop, lerr := s.sayNotReady(err)
	if lerr != nil {
		return nil, errors.Join(err, lerr)
	}
	defer stop()
	for errors.Is(err, store.ErrUnavailable) && !redis.Refused(err) {
		select {
		case <-s.ending:
			return nil, errEnded
		case <-time.After(awaitPause):
		}
		r, err = redis.Open(ctx, o)
	}
	if err == nil {
		s.Log.InfoContext(ctx, "Redis is there, the start goes on", "waited", time.Since(since).Round(time.Second))
	}
	return r, err
}

// sayNotReady answers requests until stop is called, which frees the address again.
func (s *Server) sayNotReady(why error) (stop func(), err error) {
	l, err := s.data.Listen(s.Listen, s.Log)
	if err != nil {
		return nil, err
	}
	if err := s.checkListening(l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	text := "starting: the store isn't reached yet\n"
	if s.OpenMetrics || s.InsecureDev {
		text = "starting: " + why.Error() + "\n"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { respondText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { respondText(w, http.StatusServiceUnavailable, text) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		respondProblem(w, http.StatusServiceUnavailable, "this process is starting: ask again in a moment")
	})
	server := defaultLimits().server(mux, s.Log)
	server.SetKeepAlivesEnabled(false)
	var g sync.WaitGroup
	g.Go(func() {
		serve := func() error { return server.Serve(l) }
		if s.certificate != nil {
			server.TLSConfig = tlsConfig(s.certificate)
			serve = func() error { return server.ServeTLS(l, "", "") }
		}
		if err := closed(serve()); err != nil {
			s.Log.Warn("that the start waits for Redis can't be told any more", "error", err)
		}
	})
	return func() {
		_ = server.Close() // what is asked now is asked again
		g.Wait()
	}, nil
}
