package notify

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// The prefixes of keys in the store.
const (
	subscriptionPrefix = "subscription/"
	cursorPrefix       = "cursor/"
)

// maxSubscriptions bounds the memory and the connections that subscribers cost.
const maxSubscriptions = 1000

// Config holds what a Service works with.
type Config struct {
	Oplog *oplog.Log
	Store store.Store
	// Secrets encrypts the subscribers' passwords for the store.
	Secrets Secrets
	// Sealer proves that a subscription's record is this installation's own: a record without
	// proof is never delivered to.
	Sealer sealed.Sealer
	// APIs are the interfaces beside /vnflcm/v2, which is always there.
	APIs []API
	// Base is the root of the API's URIs: "https://vnfm.example:9890".
	Base string
	// Certificate is shown to subscribers and token endpoints that ask for one; nil is none.
	Certificate Certificate
	// CAs are those that a server's certificate may come from; nil are the system's.
	CAs *x509.CertPool
	// Egress says which addresses subscribers may have; nil is the strictest guard.
	Egress *egress.Guard
	// Sees says whether who made a subscription may be told of the event, as of now. nil is
	// nothing.
	Sees func(owner auth.Identity, e oplog.Event) bool
	// Session returns the lease that this process holds while it is alive, false while it has
	// none: of several processes over one store, the one serves a subscription that has attached
	// it to its session. nil where this process is the only one; else Oplog MUST be shared.
	Session func() (store.Lease, bool)
	// Mine says which subscriptions this process is to serve; nil is all that no other serves.
	// It must not block, and is asked again and again.
	Mine func(subscription string) bool
	// Trace follows deliveries of operations; nil doesn't.
	Trace *trace.Tracer
	// Observe is told of each try to deliver an event that had an end, and must not block; nil
	// where nobody listens.
	Observe func(e oplog.Event, began time.Time, taken bool)
	Now     func() time.Time // nil is the machine's clock
	Log     *slog.Logger     // nil is silence
	// SkipTest accepts callback URIs without calling them.
	SkipTest bool
	// RetryMin and RetryMax bound the pause before a delivery is tried again, which
	// doubles each time: 1 s and 5 min by default.
	RetryMin, RetryMax time.Duration
	// CallTimeout bounds one request to a subscriber, answer included: 20 s by default.
	CallTimeout time.Duration
	// Retention is how long an undelivered event is kept: [DefaultRetention] by default.
	Retention time.Duration
}

// DefaultRetention is how long a subscriber may be away without missing anything.
const DefaultRetention = 24 * time.Hour

// Service keeps subscriptions and delivers to them. It is safe for concurrent use.
type Service struct {
	Config
	apis      map[string]*API
	transport *http.Transport
	feed      *feed
	wake      chan struct{} // wakes the trimmer when a cursor has moved

	// mu keeps subscriptions from being created and deleted while the outbox is trimmed: a
	// new cursor must not lose the events after it.
	mu      sync.Mutex
	run     context.Context // of Run, nil while it doesn't run
	workers map[string]*worker
	group   sync.WaitGroup
	claims  *claims // nil where this process is the only one

	unproven unproven
}

// New makes a Service. It delivers nothing until [Service.Run].
func New(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Base = strings.TrimRight(c.Base, "/")
	c.RetryMin = cmp.Or(c.RetryMin, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 5*time.Minute)
	c.CallTimeout = cmp.Or(c.CallTimeout, 20*time.Second)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	transport, err := newTransport(c)
	if err != nil {
		return nil, err
	}
	s := &Service{Config: c, apis: map[string]*API{}, transport: transport, feed: newFeed(c.Oplog), wake: make(chan struct{}, 1), workers: map[string]*worker{}}
	if c.Session != nil {
		s.claims = newClaims(s)
	}
	for _, api := range append([]API{LifecycleAPI(lifecycleRoot, apiVersion, nil)}, c.APIs...) {
		s.apis[api.Root] = &api
	}
	return s, nil
}

// test calls the callback once. Its errors don't quote the subscriber's answer: a caller must
// not read other services through Jibe.
func (s *Service) test(ctx context.Context, api *API, w Wanted) error {
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	status, err := s.newCaller(api, w.Authentication, nil).call(ctx, http.MethodGet, w.CallbackURI, nil)
	if err != nil {
		s.Log.WarnContext(ctx, "a callback didn't pass its test", "callback", peer.Place(w.CallbackURI), "error", err)
		_, text := why(0, err)
		return fmt.Errorf("%w: %s", ErrCallback, text)
	}
	if status != http.StatusNoContent {
		return fmt.Errorf("%w: GET %s was answered with %d, not 204", ErrCallback, peer.Place(w.CallbackURI), status)
	}
	return nil
}

// add stores a new subscription, whose cursor is at the end of the outbox.
func (s *Service) add(ctx context.Context, rec *record) error {
	value, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("subscription %s: %w", rec.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there, err := s.Store.List(ctx, cursorPrefix, "", maxSubscriptions)
	if err != nil {
		return fmt.Errorf("create subscription: %w", err)
	}
	if len(there) >= maxSubscriptions {
		return fmt.Errorf("%w: there are %d subscriptions, and may be no more: delete those that nobody needs", ErrInvalid, len(there))
	}
	s.Oplog.SetSubscribed(true)
	defer s.moved() // where this is in vain, nobody may be subscribed
	end, err := s.Oplog.End(ctx)
	if err != nil {
		return fmt.Errorf("create subscription: %w", err)
	}
	at, err := cursor{After: end}.value()
	if err != nil {
		return err
	}
	if _, err := s.Store.Put(ctx,
		store.Record{Key: subscriptionPrefix + rec.ID, Value: s.Sealer.Seal(subscriptionPrefix+rec.ID, value)},
		store.Record{Key: cursorPrefix + rec.ID, Value: at},
	); err != nil {
		return fmt.Errorf("create subscription: %w", err)
	}
	if s.claims != nil {
		s.claims.note(rec.ID)
		return nil
	}
	s.start(rec, claim{})
	return nil
}

// remove ends a subscription.
func (s *Service) remove(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(ctx, id)
	for {
		var gone []store.Record
		for _, key := range []string{subscriptionPrefix + id, cursorPrefix + id} {
			rec, err := s.Store.Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("delete subscription %s: %w", id, err)
			}
			gone = append(gone, store.Record{Key: key, Version: rec.Version, Delete: true})
		}
		_, err := s.Store.Put(ctx, gone...)
		switch {
		case err == nil:
			s.moved()
			return nil
		case !errors.Is(err, store.ErrConflict):
			return fmt.Errorf("delete subscription %s: %w", id, err)
		}
	}
}

// Run delivers until ctx ends, then waits for deliveries under way. It is idle while nothing
// happens. It must not run twice at a time.
func (s *Service) Run(ctx context.Context) error {
	wake, unsignal := s.Oplog.Signal()
	defer unsignal()
	s.mu.Lock()
	recs, err := s.records(ctx)
	if err != nil {
		s.mu.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s.run = ctx
	if s.claims == nil {
		for _, rec := range recs {
			s.start(rec, claim{})
		}
	}
	s.mu.Unlock()
	if s.claims != nil {
		s.group.Go(func() { s.claims.run(ctx) })
	}
	s.group.Go(func() { s.feed.run(ctx, s.Log) })
	s.group.Go(func() { s.watchUnproven(ctx) })
	defer func() {
		s.mu.Lock()
		s.run = nil
		clear(s.workers)
		s.mu.Unlock()
		s.group.Wait()
	}()
	trim := time.NewTimer(0) // an earlier run may have left something to trim
	armed := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-s.wake:
		case <-trim.C:
			armed = false
			if err := s.trim(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
				s.Log.Error("the outbox of notifications can't be trimmed; it grows", "error", err)
			}
			continue
		}
		if !armed {
			armed = true
			trim.Reset(settle)
		}
	}
}

// end ends delivery to a subscription here, and has others take it. The caller has mu.
func (s *Service) end(ctx context.Context, id string) {
	w := s.workers[id]
	if w == nil {
		return
	}
	w.stop()
	<-w.done
	delete(s.workers, id)
	if !w.claim.shared() {
		return
	}
	if err := s.Store.Release(context.WithoutCancel(ctx), w.claim.lease); err != nil {
		s.Log.Warn("a subscription that is no longer served here can't be given to another replica before this one ends", "subscription", id, "error", err)
	}
}

// start begins delivery to a subscription under a claim, if the Service runs. The caller has mu.
func (s *Service) start(rec *record, under claim) {
	if s.run == nil || s.workers[rec.ID] != nil || rec.unproven != nil {
		return
	}
	api := s.apis[rec.API]
	if api == nil {
		s.Log.Error("a subscription is not served, as it was made by a version of Jibe with another interface", "subscription", rec.ID, "api", rec.API)
		return
	}
	ctx, stop := context.WithCancel(s.run)
	w := newWorker(s, api, rec)
	if w.claim = under; under.shared() {
		ctx = store.Under(ctx, under.lease)
	}
	w.stop = stop
	s.workers[rec.ID] = w
	s.group.Go(func() {
		defer close(w.done)
		defer stop()
		w.work(ctx)
	})
}

// moved wakes the trimmer, as there may be something to drop.
func (s *Service) moved() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
