package gitrepo

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// httpForge is a forge that serves a repository over HTTP by real git. A test may take pushes
// into its own hands.
type httpForge struct {
	dir, url string

	mu     sync.Mutex
	pushes int
	// limit is how many pushes it takes within a time, 0 for all; came is when those that it took
	// did, and refused counts the others.
	limit   int
	within  time.Duration
	came    []time.Time
	refused int
	// mishap is called for a push instead of taking it; take does that, and may be called later.
	mishap func(w http.ResponseWriter, take func() *httptest.ResponseRecorder)
	work   sync.WaitGroup
	ends   chan struct{} // closed when the test ends
	deny   atomic.Value  // string: the service that isn't there
}

func newHTTPForge(t *testing.T) *httpForge {
	t.Helper()
	f := &httpForge{dir: bareRemote(t), ends: make(chan struct{})}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	t.Cleanup(f.work.Wait)
	t.Cleanup(func() { close(f.ends) })
	f.deny.Store("")
	f.url = srv.URL
	return f
}

func (f *httpForge) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	backend, err := httpBackend()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if denied := f.deny.Load(); denied != "" && strings.HasSuffix(req.URL.String(), denied.(string)) {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	req = req.Clone(req.Context())
	req.Body, req.ContentLength, req.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	git := &cgi.Handler{Path: backend, Stderr: io.Discard, Env: append(git.Runner{}.Environ(), "GIT_PROJECT_ROOT="+f.dir, "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true")}
	// What is sent before a push of more than a megabyte is no push yet.
	if req.URL.Path != "/git-receive-pack" || string(body) == "0000" {
		git.ServeHTTP(w, req)
		return
	}
	f.mu.Lock()
	f.pushes++
	if n := len(f.came); f.limit > 0 && n >= f.limit && time.Since(f.came[n-f.limit]) < f.within {
		f.refused++
		f.mu.Unlock()
		http.Error(w, "too many pushes", http.StatusTooManyRequests)
		return
	}
	f.came = append(f.came, time.Now())
	mishap := f.mishap
	f.mishap = nil
	f.mu.Unlock()
	if mishap == nil {
		git.ServeHTTP(w, req)
		return
	}
	mishap(w, func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		git.ServeHTTP(answer, req.WithContext(context.WithoutCancel(req.Context())))
		return answer
	})
}

// next has the next push go wrong.
func (f *httpForge) next(mishap func(w http.ResponseWriter, take func() *httptest.ResponseRecorder)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mishap = mishap
}

func cut(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}
