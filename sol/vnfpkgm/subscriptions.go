package vnfpkgm

import (
	"errors"
	"net/http"

	"github.com/jibe-vnfm/jibe/sol/filter"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/store"
)

// subscriptions serves the subscriptions of one version of the interface (SOL003 clauses
// 10.4.7 and 10.4.8).
type subscriptions struct {
	*rest.API
	of *notify.Subscriptions
}

// create is POST subscriptions.
func (s subscriptions) create(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Filter         *Filter                `json:"filter"`
		CallbackURI    string                 `json:"callbackUri"`
		Authentication *notify.Authentication `json:"authentication"`
	}
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	wanted := notify.Wanted{CallbackURI: req.CallbackURI, Authentication: req.Authentication, Owner: rest.Caller(r.Context())}
	if req.Filter != nil {
		if err := req.Filter.validate(); err != nil {
			return err
		}
		wanted.Filter = req.Filter
	}
	sub, err := s.of.Subscribe(r.Context(), wanted)
	if err != nil {
		return err
	}
	w.Header().Set("Location", s.Link("subscriptions", sub.ID))
	return rest.Reply(w, r, http.StatusCreated, sub)
}

// list is GET subscriptions. It has no selectors.
func (s subscriptions) list(w http.ResponseWriter, r *http.Request) error {
	q, err := rest.ParseQuery(r, rest.Resource{Schema: filter.SchemaOf(notify.Subscription{}, nil)})
	if err != nil {
		return err
	}
	subs, err := s.of.List(r.Context(), rest.Caller(r.Context()))
	if err != nil {
		return err
	}
	return rest.List(s.API, w, r, &q, rest.Listing[*notify.Subscription]{
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

// show is GET of one subscription.
func (s subscriptions) show(w http.ResponseWriter, r *http.Request) error {
	sub, err := s.of.Get(r.Context(), rest.Caller(r.Context()), r.PathValue("id"))
	if err != nil {
		return noSubscription(r, err)
	}
	return rest.Reply(w, r, http.StatusOK, sub)
}

// remove is DELETE of one subscription.
func (s subscriptions) remove(w http.ResponseWriter, r *http.Request) error {
	if err := s.of.Delete(r.Context(), rest.Caller(r.Context()), r.PathValue("id")); err != nil {
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
