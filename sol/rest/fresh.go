package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// FreshWithin is how long an answer waits for what other replicas have answered. After that it
// is given with what is known here. A request that changes something may wait for changeWithin: it goes to git, and
// takes as long as git does.
const (
	FreshWithin  = time.Second
	changeWithin = 10 * time.Second
)

// Fresh has each request wait, for a second at most, or for ten where it may change something, until it can find what
// was answered by other replicas before it came. sync returns once that is so, as that of the operation log does, or
// with the error of its context. What goes wrong is no reason to refuse a request: it is answered with
// what there is. That something isn't there can't be said then: see [Missing].
func Fresh(sync func(context.Context) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		within := changeWithin
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			within = FreshWithin
		}
		ctx, cancel := context.WithTimeout(r.Context(), within)
		err := sync(ctx)
		cancel()
		if err != nil {
			r = r.WithContext(context.WithValue(r.Context(), behindKey{}, err))
		}
		next.ServeHTTP(w, r)
	})
}

type behindKey struct{}

// Missing is the status of an answer, and its detail, where what was asked for isn't found: 404, or 503 where this
// replica is behind the others, so that it may be there. Clients ask again then; they would take a 404 of what
// another replica has just made for its end.
func Missing(ctx context.Context, detail string) (status int, told string) {
	if err, behind := ctx.Value(behindKey{}).(error); behind {
		return http.StatusServiceUnavailable, fmt.Sprintf("this replica doesn't have yet what the others have (%v): ask again in a moment; it says: %s", err, detail)
	}
	return http.StatusNotFound, detail
}
