package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnAnswerWaitsUntilItIsFreshAndNoLongerThanThat(t *testing.T) {
	for name, sync := range map[string]func(context.Context) error{
		"in time":  func(context.Context) error { return nil },
		"too late": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"never":    func(context.Context) error { return errors.New("the store is away") },
	} {
		t.Run(name, func(t *testing.T) {
			synced := false
			h := Fresh(func(ctx context.Context) error {
				if _, bounded := ctx.Deadline(); !bounded {
					t.Error("it may wait for ever")
				}
				err := sync(ctx)
				synced = true
				return err
			}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !synced || r.Context().Err() != nil {
					t.Errorf("served before it was fresh, or with a context that has ended: %v", r.Context().Err())
				}
				w.WriteHeader(http.StatusTeapot)
			}))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if w.Code != http.StatusTeapot {
				t.Errorf("answered with %d", w.Code)
			}
		})
	}
}

func TestARequestThatChangesSomethingWaitsLongerForWhatOthersHaveDone(t *testing.T) {
	for method, want := range map[string]time.Duration{http.MethodGet: FreshWithin, http.MethodHead: FreshWithin, http.MethodPost: changeWithin, http.MethodPut: changeWithin, http.MethodDelete: changeWithin} {
		synctest.Test(t, func(t *testing.T) {
			began, served := time.Now(), false
			h := Fresh(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "/", nil))
			if took := time.Since(began); took != want || !served {
				t.Errorf("%s waits for %s, want %s; served: %t", method, took, want, served)
			}
		})
	}
}

func TestWhatIsNotFoundIsNotSaidToBeAbsentByAReplicaThatIsBehind(t *testing.T) {
	a := New(Config{Log: slog.New(slog.DiscardHandler)}, Interface{Root: "/x/v1", Name: "x"})
	a.Free("/x/v1/things/{id}", Methods{http.MethodGet: func(http.ResponseWriter, *http.Request) error {
		return Problem(http.StatusNotFound, "thing 100%% does not exist")
	}})
	for sync, want := range map[error]int{nil: http.StatusNotFound, errors.New("the store is away"): http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		Fresh(func(context.Context) error { return sync }, a).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x/v1/things/1", nil))
		if w.Code != want || !strings.Contains(w.Body.String(), "thing 100% does not exist") ||
			sync != nil && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "the store is away")) {
			t.Errorf("sync ends with %v: %d %v %s", sync, w.Code, w.Header(), w.Body)
		}
	}
}
