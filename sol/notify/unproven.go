package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/store"
)

// ReasonUnproven is [Delivery.Reason] of a subscription whose record isn't proven.
const ReasonUnproven = "record"

// UnprovenError says that a subscription's record isn't as this installation wrote it. Nothing of
// it is acted on: neither a callback, a password or a token endpoint, nor an owner or a filter.
type UnprovenError struct {
	Subscription string
	// Unsealed says that it has no seal at all, as the records of earlier versions have none.
	Unsealed bool
}

func (e *UnprovenError) Error() string {
	what := "its record was changed in the store"
	if e.Unsealed {
		what = "its record has no seal: it was put into the store by another program, or by an earlier version of Jibe"
	}
	return what + ". Nothing is sent there: delete the subscription and subscribe again"
}

// unprovenRecord is what is known of a subscription whose record isn't proven. It has no owner, so
// that only administrators see it; its callback is shown, and never called.
func unprovenRecord(stored store.Record) *record {
	id := strings.TrimPrefix(stored.Key, subscriptionPrefix)
	_, seal := sealed.Split(stored.Value)
	rec := &record{ID: id, API: lifecycleRoot, unproven: &UnprovenError{Subscription: id, Unsealed: seal == ""}}

	var shown struct {
		CallbackURI string `json:"callbackUri"`
	}
	if json.Unmarshal(stored.Value, &shown) == nil && checkURI("callbackUri", shown.CallbackURI) == nil {
		rec.CallbackURI = shown.CallbackURI
	}
	return rec
}

// refused is the state of a subscription whose record isn't proven.
func (s *Service) refused(rec *record) State {
	return State{
		Subscription: (&Subscriptions{s, s.apis[lifecycleRoot]}).view(rec), API: rec.API,
		Delivery: Delivery{LastFailure: s.unproven.since(rec.ID), Reason: ReasonUnproven, Error: rec.unproven.Error()},
	}
}

// unproven are the subscriptions whose records weren't proven when they were last read, since when.
type unproven struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (u *unproven) since(id string) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[id]
}

// note learns of all records, and logs those that are new among the unproven ones.
func (u *unproven) note(log *slog.Logger, recs []*record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := make(map[string]time.Time)
	for _, rec := range recs {
		if rec.unproven == nil {
			continue
		}
		if now[rec.ID] = u.seen[rec.ID]; now[rec.ID].IsZero() {
			now[rec.ID] = time.Now().UTC()
			log.Error("a subscription is not served", "subscription", rec.ID, "error", rec.unproven)
		}
	}
	u.seen = now
}

// Unproven returns how many subscriptions aren't served because their records aren't proven, as of
// the last look at them.
func (s *Service) Unproven() int {
	s.unproven.mu.Lock()
	defer s.unproven.mu.Unlock()
	return len(s.unproven.seen)
}

// unprovenPause is how often all records are looked at.
const unprovenPause = time.Minute

// watchUnproven looks at all records again and again, until ctx ends: one that another program has
// changed is known before a process starts on it.
func (s *Service) watchUnproven(ctx context.Context) {
	tick := time.NewTicker(unprovenPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// Where the store doesn't answer, deliveries say so.
		_, _ = s.records(ctx)
	}
}

// lister is what is needed of a store to look at subscriptions.
type lister interface {
	List(ctx context.Context, prefix, after string, limit int) ([]store.Record, error)
}

// FindUnproven returns why subscriptions in a store aren't served, for each whose record isn't proven.
func FindUnproven(ctx context.Context, from lister, sealer sealed.Sealer) ([]*UnprovenError, error) {
	stored, err := from.List(ctx, subscriptionPrefix, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	var found []*UnprovenError
	for _, r := range stored {
		if _, proven := sealer.Open(r.Key, r.Value); !proven {
			_, seal := sealed.Split(r.Value)
			found = append(found, &UnprovenError{Subscription: strings.TrimPrefix(r.Key, subscriptionPrefix), Unsealed: seal == ""})
		}
	}
	return found, nil
}

// SealAll seals the records that an earlier version of Jibe has left without a seal, and returns
// their number. It MUST be called only where that version has served from this store and no later
// one has: any record without a seal is believed. One whose password isn't encrypted is left
// alone, as no version has written it.
func SealAll(ctx context.Context, s store.Store, sealer sealed.Sealer) (n int, err error) {
	for {
		more, conflict, err := sealThose(ctx, s, sealer)
		n += more
		if err != nil || !conflict {
			return n, err
		}
	}
}

// sealThose seals the records that are there. A conflict means that another replica has changed one of them meanwhile.
func sealThose(ctx context.Context, s store.Store, sealer sealed.Sealer) (n int, conflict bool, err error) {
	stored, err := s.List(ctx, subscriptionPrefix, "", 0)
	if err != nil {
		return 0, false, fmt.Errorf("list subscriptions: %w", err)
	}

	for _, r := range stored {
		value := bytes.TrimSpace(r.Value)
		if _, seal := sealed.Split(value); seal != "" || !encrypted(value) {
			continue
		}
		_, err := s.Put(ctx, store.Record{Key: r.Key, Version: r.Version, Value: sealer.Seal(r.Key, value)})
		switch {
		case errors.Is(err, store.ErrConflict):
			conflict = true
		case err != nil:
			return n, false, fmt.Errorf("seal %s: %w", r.Key, err)
		default:
			n++
		}
	}

	return n, conflict, nil
}

// encrypted reports whether a record can be read and all passwords in it are encrypted.
func encrypted(value []byte) bool {
	rec := &record{}
	if json.Unmarshal(value, rec) != nil {
		return false
	}
	a := rec.Authentication
	good := func(password string) bool { return password == "" || strings.HasPrefix(password, desired.RefAge) }

	return a == nil || (a.Basic == nil || good(a.Basic.Password)) && (a.ClientCredentials == nil || good(a.ClientCredentials.ClientPassword))
}
