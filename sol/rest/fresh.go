package rest

import (
	"context"
	"net/http"
	"time"
)

// freshWithin is how long an answer waits for what other replicas have answered. After that it
// is given with what is known here.
const freshWithin = time.Second

// Fresh has each request wait, for a second at most, until it can find what was answered by other
// replicas before it came. sync returns once that is so, as that of the operation log does, or with the
// error of its context. What goes wrong is no reason to refuse a request: it is answered with
// what there is.
func Fresh(sync func(context.Context) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), freshWithin)
		_ = sync(ctx)
		cancel()
		next.ServeHTTP(w, r)
	})
}
