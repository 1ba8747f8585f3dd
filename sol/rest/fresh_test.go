package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
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
