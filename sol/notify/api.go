package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// API is one version of an interface whose clients subscribe to notifications. What it
// describes is all that the interfaces differ in: subscriptions, the outbox, delivery and
// its figures are the same for each. To add an interface:
//
//   - put its events into the outbox with [oplog.Log.Tell], together with the record that they
//     tell of;
//   - give its API to [New] (Config.APIs);
//   - have its handlers use [Service.Subscriptions].
type API struct {
	// Root is its path below the base, as "/vnflcm/v2". It stands in the record of each
	// subscription, so that it must never change. Versions of one interface (roots with the
	// same parent) show and delete each other's subscriptions, and every subscription is
	// notified in the form of the version that made it.
	Root string
	// Version is the header Version of what its subscribers are sent.
	Version string
	// Events are those that its subscribers may want: the [oplog.Event].API.
	Events string
	// Filter reads the filter of a stored subscription: the JSON of what
	// [Subscriptions.Subscribe] was given.
	Filter func(stored json.RawMessage) (Matcher, error)
	// Notification makes the body of a notification. It MUST be pure: each delivery of the
	// same event has the same body. Its id is [NotificationID].
	Notification func(sub *Subscription, base string, e oplog.Event) (any, error)
}

// Matcher is the filter of a subscription. Its JSON is what clients are shown.
type Matcher interface {
	// Match says whether the subscriber wants to be notified of the event, which is always
	// one of the API's.
	Match(e oplog.Event) bool
}

// Wanted is a subscription request of any interface.
type Wanted struct {
	Filter         Matcher // nil matches every event of the API
	CallbackURI    string
	Authentication *Authentication
	Verbosity      string // "" where the interface has none
	// Owner is who subscribes: they are told of what they could see, and they alone and who may
	// do everything see the subscription.
	Owner auth.Identity
}

// Subscriptions are those of one interface, as one version of it shows them.
type Subscriptions struct {
	*Service
	api *API
}

// Subscriptions returns those of the API with the root, which must be one that the Service
// was made with.
func (s *Service) Subscriptions(root string) *Subscriptions {
	api := s.apis[root]
	if api == nil {
		panic("notify: no API has the root " + root)
	}
	return &Subscriptions{Service: s, api: api}
}

// family is what the versions of one interface have in common.
func family(root string) string { return path.Dir(root) }

// Subscribe adds a subscription to everything that happens from now on (SOL003
// clauses 5.4.18.3.1 and 10.4.7.3.1). It returns [ErrInvalid] for a request that isn't
// acceptable and [ErrCallback] where a GET of the callback URI, with the subscription's own
// authentication, isn't answered with 204. Nothing is stored then.
func (s *Subscriptions) Subscribe(ctx context.Context, w Wanted) (*Subscription, error) {
	if err := w.validate(s.Certificate); err != nil {
		return nil, err
	}
	if !s.SkipTest {
		if err := s.test(ctx, s.api, w); err != nil {
			return nil, err
		}
	}
	auth, err := s.sealed(w.Authentication)
	if err != nil {
		return nil, err
	}
	rec := &record{ID: uuid.NewString(), API: s.api.Root, CallbackURI: w.CallbackURI, Authentication: auth, Verbosity: w.Verbosity, Owner: &w.Owner, matcher: w.Filter}
	if w.Filter != nil {
		if rec.Filter, err = json.Marshal(w.Filter); err != nil {
			return nil, fmt.Errorf("subscription %s: %w", rec.ID, err)
		}
	}
	if err := s.add(ctx, rec); err != nil {
		return nil, err
	}
	return s.view(rec), nil
}

func (s *Subscriptions) view(rec *record) *Subscription {
	v := &Subscription{ID: rec.ID, Filter: rec.matcher, CallbackURI: rec.CallbackURI, Verbosity: rec.Verbosity}
	v.Links.Self.Href = s.Base + s.api.Root + "/subscriptions/" + rec.ID
	return v
}

// Get returns a subscription of the caller's, or [store.ErrNotFound].
func (s *Subscriptions) Get(ctx context.Context, who auth.Identity, id string) (*Subscription, error) {
	rec, err := s.find(ctx, who, id)
	if err != nil {
		return nil, err
	}
	return s.view(rec), nil
}

func (s *Subscriptions) find(ctx context.Context, who auth.Identity, id string) (*record, error) {
	if _, err := uuid.Parse(id); err != nil {
		return nil, fmt.Errorf("subscription %.64q: %w", id, store.ErrNotFound)
	}
	stored, err := s.Store.Get(ctx, subscriptionPrefix+id)
	if err != nil {
		return nil, fmt.Errorf("subscription %s: %w", id, err)
	}
	rec, err := s.read(stored)
	if err != nil {
		return nil, err
	}
	if family(rec.API) != family(s.api.Root) || !rec.of(who) {
		return nil, fmt.Errorf("subscription %s: %w", id, store.ErrNotFound)
	}
	return rec, nil
}

// List returns the caller's subscriptions, by id.
func (s *Subscriptions) List(ctx context.Context, who auth.Identity) ([]*Subscription, error) {
	recs, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*Subscription, 0, len(recs))
	for _, rec := range recs {
		if family(rec.API) == family(s.api.Root) && rec.of(who) {
			out = append(out, s.view(rec))
		}
	}
	return out, nil
}

// Delete ends a subscription and a delivery under way. An unknown one is
// [store.ErrNotFound], and so is another caller's.
func (s *Subscriptions) Delete(ctx context.Context, who auth.Identity, id string) error {
	if _, err := s.find(ctx, who, id); err != nil {
		return err
	}
	return s.remove(ctx, id)
}

// read decodes a subscription's record. One of an API that isn't there (an older Jibe runs on
// the store of a newer one) has neither api nor matcher. One without proof has nothing that is acted on.
func (s *Service) read(stored store.Record) (*record, error) {
	object, proven := s.Sealer.Open(stored.Key, stored.Value)
	if !proven {
		return unprovenRecord(stored), nil
	}
	rec := &record{}
	if err := json.Unmarshal(object, rec); err != nil {
		return nil, fmt.Errorf("%s: the record in the store can't be read: %w", stored.Key, err)
	}
	rec.API = cmp.Or(rec.API, lifecycleRoot)
	if api := s.apis[rec.API]; api != nil && rec.Filter != nil {
		var err error
		if rec.matcher, err = api.Filter(rec.Filter); err != nil {
			return nil, fmt.Errorf("%s: the filter in the store can't be read: %w", stored.Key, err)
		}
	}
	return rec, nil
}

func (s *Service) records(ctx context.Context) ([]*record, error) {
	stored, err := s.Store.List(ctx, subscriptionPrefix, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	recs := make([]*record, 0, len(stored))
	for _, r := range stored {
		rec, err := s.read(r)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	s.unproven.note(s.Log, recs)

	return recs, nil
}
