package sol

import (
	"context"
	"errors"
	"net/http"

	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
)

// Subscriptions keeps the subscriptions to lifecycle change notifications;
// [notify.Service] is one. Errors are notify's and store.ErrNotFound.
type Subscriptions interface {
	Create(ctx context.Context, req notify.Request) (*notify.Subscription, error)
	// List returns all, by id.
	List(ctx context.Context) ([]*notify.Subscription, error)
	Get(ctx context.Context, id string) (*notify.Subscription, error)
	Delete(ctx context.Context, id string) error
}

// createSubscription is POST subscriptions (SOL003 clause 5.4.18.3.1).
func (a *api) createSubscription(w http.ResponseWriter, r *http.Request) error {
	var req notify.Request
	if err := read(w, r, &req); err != nil {
		return err
	}
	sub, err := a.Subscriptions.Create(r.Context(), req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.link("subscriptions", sub.ID))
	return reply(w, http.StatusCreated, sub)
}

// listSubscriptions is GET subscriptions (clause 5.4.18.3.2). It has no selectors.
func (a *api) listSubscriptions(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r, nil, func([]string) int { return 0 })
	if err != nil {
		return err
	}
	subs, err := a.Subscriptions.List(r.Context())
	if err != nil {
		return err
	}
	return respond(a, w, r, &q, listing[*notify.Subscription]{
		all: func(yield func(*notify.Subscription, error) bool) {
			for _, sub := range subs {
				if sub.ID > q.after && !yield(sub, nil) {
					return
				}
			}
		},
		position: func(sub *notify.Subscription) string { return sub.ID },
		body:     func(sub *notify.Subscription) (any, error) { return sub, nil },
	})
}

// showSubscription is GET subscriptions/{id} (clause 5.4.19.3.2).
func (a *api) showSubscription(w http.ResponseWriter, r *http.Request) error {
	sub, err := a.Subscriptions.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return noSubscription(r, err)
	}
	return reply(w, http.StatusOK, sub)
}

// deleteSubscription is DELETE subscriptions/{id} (clause 5.4.19.3.5).
func (a *api) deleteSubscription(w http.ResponseWriter, r *http.Request) error {
	if err := a.Subscriptions.Delete(r.Context(), r.PathValue("id")); err != nil {
		return noSubscription(r, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func noSubscription(r *http.Request, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return problem(http.StatusNotFound, "subscription %.64s does not exist", r.PathValue("id"))
	}
	return err
}
