package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// The prefixes of keys in the store.
const (
	subscriptionPrefix = "subscription/"
	cursorPrefix       = "cursor/"
)

// Config holds what a Service works with.
type Config struct {
	Oplog *oplog.Log
	Store store.Store
	// Secrets encrypts the subscribers' passwords for the store.
	Secrets Secrets
	// Base is the root of the API's URIs: "https://vnfm.example:9890".
	Base string
	// Client calls subscribers; nil is one that refuses link-local addresses. The Service
	// sets its own timeout and follows no redirects.
	Client *http.Client
	Now    func() time.Time // nil is the machine's clock
	Log    *slog.Logger     // nil is silence
	// SkipTest accepts callback URIs without calling them.
	SkipTest bool
	// RetryMin and RetryMax bound the pause before a delivery is tried again, which
	// doubles each time: 1 s and 5 min by default.
	RetryMin, RetryMax time.Duration
	// Retention is how long an undelivered event is kept: 7 days by default.
	Retention time.Duration
}

// Service keeps subscriptions and delivers to them. It is safe for concurrent use.
type Service struct {
	Config
	client *http.Client
	wake   chan struct{} // wakes the trimmer when a cursor has moved

	// mu keeps subscriptions from being created and deleted while the outbox is trimmed: a
	// new cursor must not lose the events after it.
	mu      sync.Mutex
	run     context.Context // of Run, nil while it doesn't run
	workers map[string]*worker
	group   sync.WaitGroup
}

// New makes a Service. It delivers nothing until [Service.Run].
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Client == nil {
		c.Client = newClient()
	}
	c.Base = strings.TrimRight(c.Base, "/")
	c.RetryMin = cmp.Or(c.RetryMin, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, 5*time.Minute)
	c.Retention = cmp.Or(c.Retention, 7*24*time.Hour)
	return &Service{Config: c, client: guarded(c.Client), wake: make(chan struct{}, 1), workers: map[string]*worker{}}
}

// Create adds a subscription to everything that happens from now on (SOL003
// clause 5.4.18.3.1). It returns [ErrInvalid] for a request that isn't acceptable
// and [ErrCallback] where a GET of the callback URI, with the subscription's own
// authentication, isn't answered with 204. Nothing is stored then.
func (s *Service) Create(ctx context.Context, req Request) (*Subscription, error) {
	if err := req.validate(); err != nil {
		return nil, err
	}
	if !s.SkipTest {
		if err := s.test(ctx, req); err != nil {
			return nil, err
		}
	}
	auth, err := s.sealed(req.Authentication)
	if err != nil {
		return nil, err
	}
	rec := &record{ID: uuid.NewString(), Filter: req.Filter, CallbackURI: req.CallbackURI,
		Authentication: auth, Verbosity: cmp.Or(req.Verbosity, Full)}
	value, err := json.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("subscription %s: %w", rec.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Oplog.SetSubscribed(true)
	defer s.moved() // where this is in vain, nobody may be subscribed
	end, err := s.Oplog.End(ctx)
	if err != nil {
		return nil, fmt.Errorf("create subscription: %w", err)
	}
	if _, err := s.Store.Put(ctx,
		store.Record{Key: subscriptionPrefix + rec.ID, Value: value},
		store.Record{Key: cursorPrefix + rec.ID, Value: cursorValue(end)},
	); err != nil {
		return nil, fmt.Errorf("create subscription: %w", err)
	}
	s.start(rec)
	return rec.view(s.Base), nil
}

// test calls the callback once. Its errors don't quote the subscriber's answer: a caller must
// not read other services through Jibe.
func (s *Service) test(ctx context.Context, req Request) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := &caller{client: s.client, auth: req.Authentication}
	status, err := c.call(ctx, http.MethodGet, req.CallbackURI, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCallback, err)
	}
	if status != http.StatusNoContent {
		return fmt.Errorf("%w: GET %s was answered with %d, not 204", ErrCallback, place(req.CallbackURI), status)
	}
	return nil
}

// sealed returns a with its passwords encrypted.
func (s *Service) sealed(a *Authentication) (*Authentication, error) {
	if a == nil {
		return nil, nil
	}
	out := &Authentication{AuthType: a.AuthType}
	seal := func(clear string) (string, error) {
		if clear == "" {
			return "", nil
		}
		sealed, err := s.Secrets.Encrypt(clear)
		if err != nil {
			return "", fmt.Errorf("encrypt the subscriber's credentials: %w", err)
		}
		return sealed, nil
	}
	var err error
	if a.Basic != nil {
		p := *a.Basic
		if p.Password, err = seal(p.Password); err != nil {
			return nil, err
		}
		out.Basic = &p
	}
	if a.ClientCredentials != nil {
		p := *a.ClientCredentials
		if p.ClientPassword, err = seal(p.ClientPassword); err != nil {
			return nil, err
		}
		out.ClientCredentials = &p
	}
	return out, nil
}

// Get returns a subscription, or [store.ErrNotFound].
func (s *Service) Get(ctx context.Context, id string) (*Subscription, error) {
	if _, err := uuid.Parse(id); err != nil {
		return nil, fmt.Errorf("subscription %.64q: %w", id, store.ErrNotFound)
	}
	stored, err := s.Store.Get(ctx, subscriptionPrefix+id)
	if err != nil {
		return nil, fmt.Errorf("subscription %s: %w", id, err)
	}
	rec, err := readRecord(stored)
	if err != nil {
		return nil, err
	}
	return rec.view(s.Base), nil
}

// List returns all subscriptions, by id.
func (s *Service) List(ctx context.Context) ([]*Subscription, error) {
	recs, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*Subscription, 0, len(recs))
	for _, rec := range recs {
		out = append(out, rec.view(s.Base))
	}
	return out, nil
}

// Delete ends a subscription and a delivery under way. An unknown one is
// [store.ErrNotFound].
func (s *Service) Delete(ctx context.Context, id string) error {
	if _, err := s.Get(ctx, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[id]; w != nil {
		w.stop()
		<-w.done
		delete(s.workers, id)
	}
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

func (s *Service) records(ctx context.Context) ([]*record, error) {
	stored, err := s.Store.List(ctx, subscriptionPrefix, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	recs := make([]*record, 0, len(stored))
	for _, st := range stored {
		rec, err := readRecord(st)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

func readRecord(stored store.Record) (*record, error) {
	rec := new(record)
	if err := json.Unmarshal(stored.Value, rec); err != nil {
		return nil, fmt.Errorf("%s: the record in the store can't be read: %w", stored.Key, err)
	}
	return rec, nil
}
