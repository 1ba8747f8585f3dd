package sol

import (
	"context"
	"errors"
	"net/http"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
)

// Subscriptions keeps the subscriptions to lifecycle change notifications;
// [notify.Lifecycle] is one. Errors are notify's and store.ErrNotFound.
type Subscriptions interface {
	Create(ctx context.Context, who auth.Identity, req notify.Request) (*notify.Subscription, error)
	// List returns the caller's, by id.
	List(ctx context.Context, who auth.Identity) ([]*notify.Subscription, error)
	Get(ctx context.Context, who auth.Identity, id string) (*notify.Subscription, error)
	Delete(ctx context.Context, who auth.Identity, id string) error
}

// createSubscription is POST subscriptions (SOL003 clause 5.4.18.3.1).
func (a *api) createSubscription(w http.ResponseWriter, r *http.Request) error {
	var req notify.Request
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	sub, err := a.Subscriptions.Create(r.Context(), rest.Caller(r.Context()), req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.Link("subscriptions", sub.ID))
	return rest.Reply(w, r, http.StatusCreated, sub)
}

// listSubscriptions is GET subscriptions (clause 5.4.18.3.2). It has no selectors.
func (a *api) listSubscriptions(w http.ResponseWriter, r *http.Request) error {
	q, err := rest.ParseQuery(r, rest.Resource{Schema: a.schemas.subscription})
	if err != nil {
		return err
	}
	subs, err := a.Subscriptions.List(r.Context(), rest.Caller(r.Context()))
	if err != nil {
		return err
	}
	return rest.List(a.API, w, r, &q, rest.Listing[*notify.Subscription]{
		All: func(yield func(*notify.Subscription, error) bool) {
			for _, sub := range subs {
				if sub.ID > q.After && !yield(sub, nil) {
					return
				}
			}
		},
		Position: func(sub *notify.Subscription) string { return sub.ID },
		Body:     func(sub *notify.Subscription) (any, error) { return sub, nil },
	})
}

// showSubscription is GET subscriptions/{id} (clause 5.4.19.3.2).
func (a *api) showSubscription(w http.ResponseWriter, r *http.Request) error {
	sub, err := a.Subscriptions.Get(r.Context(), rest.Caller(r.Context()), r.PathValue("id"))
	if err != nil {
		return noSubscription(r, err)
	}
	return rest.Reply(w, r, http.StatusOK, sub)
}

// deleteSubscription is DELETE subscriptions/{id} (clause 5.4.19.3.5).
func (a *api) deleteSubscription(w http.ResponseWriter, r *http.Request) error {
	if err := a.Subscriptions.Delete(r.Context(), rest.Caller(r.Context()), r.PathValue("id")); err != nil {
		return noSubscription(r, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func noSubscription(r *http.Request, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return rest.Problem(http.StatusNotFound, "subscription %.64s does not exist", r.PathValue("id"))
	}
	return err
}
