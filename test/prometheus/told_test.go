package prometheus

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// told is the API of a Gitea that is away until it is mended, and then takes all that it is told.
type told struct{ mended atomic.Bool }

// serve returns its URL.
func (f *told) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !f.mended.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{}")
		case strings.HasSuffix(r.URL.Path, "/user"):
			_, _ = io.WriteString(w, `{"id": 1, "login": "jibe"}`)
		default: // lists
			_, _ = io.WriteString(w, "[]")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
