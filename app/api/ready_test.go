package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
)

func TestMetricsAreForViewersUnlessTheyAreOpen(t *testing.T) {
	t.Parallel()

	for _, open := range []bool{false, true} {
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for who, a := range map[string]auth.Authenticator{"known": auth.Anyone{}, "unknown": nobody{}, "of one project": confined{projects: []string{"core"}}, "an element manager": confined{em: "em-1"}} {
			server := &API{Config: Config{OpenMetrics: open, Auth: a}}
			w := httptest.NewRecorder()

			server.guardMetrics(ok).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))

			if want := who == "known" || open; (w.Code == http.StatusOK) != want {
				t.Errorf("%s, open %v: %d", who, open, w.Code)
			}
			if want := who == "known" || open; server.showsReasons(readyz()) != want {
				t.Errorf("%s, open %v: reasons are shown: %v", who, open, !want)
			}
		}
	}
}

func TestAStrangerLearnsNoReasonFromReadyz(t *testing.T) {
	t.Parallel()
	const reason = "redis.internal:6379 refuses the password"

	for who, a := range map[string]auth.Authenticator{"known": auth.Anyone{}, "unknown": nobody{}, "of one project": confined{projects: []string{"core"}}} {
		server := &API{Config: Config{Auth: a}}
		w := httptest.NewRecorder()

		server.answerReady(w, readyz(), errors.New(reason))

		if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), reason) != (who == "known") {
			t.Errorf("%s: %d %s", who, w.Code, w.Body)
		}

		w = httptest.NewRecorder()
		server.answerReady(w, readyz(), nil)
		if w.Code != http.StatusOK {
			t.Errorf("%s: a probe of what is ready is answered with %d", who, w.Code)
		}
	}
}

func readyz() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	r.Header.Set("Authorization", "Bearer a-token")

	return r
}

// confined lets a viewer of some projects, or of an element manager's instances, in.
type confined struct {
	projects []string
	em       string
}

func (c confined) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{Name: "anna", EM: c.em, Permissions: []auth.Permission{{Role: auth.Viewer, Projects: c.projects}}}, nil
}

// nobody lets nobody in.
type nobody struct{}

func (nobody) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{}, auth.ErrUnauthenticated
}
