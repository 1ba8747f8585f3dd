package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// Delivery is how the delivery to one subscription goes.
type Delivery struct {
	// Waiting is how many notifications the subscriber is still to be sent.
	Waiting int `json:"waiting"`
	// Lag is the age in seconds of the oldest of them; 0 where there is none.
	Lag float64 `json:"lagSeconds"`
	// LastDelivery and LastFailure are also those of former processes.
	LastDelivery time.Time `json:"lastDelivery,omitzero"`
	LastFailure  time.Time `json:"lastFailure,omitzero"`
	// Reason is one word for the last failure, and Error says it in full.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// Delivered, Dropped (given up as too old) and Failures (tries, by reason) are counted
	// since the process began.
	Delivered uint64            `json:"delivered"`
	Dropped   uint64            `json:"dropped"`
	Failures  map[string]uint64 `json:"failures,omitempty"`
}

// State is a subscription with how its delivery goes.
type State struct {
	*Subscription
	// API is the root of the interface that it was made through.
	API      string   `json:"api"`
	Delivery Delivery `json:"delivery"`
	// Elsewhere says that another replica delivers, or is about to: of the delivery only what
	// is stored is known here.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// States returns those of all subscriptions that are served here, by id.
func (s *Service) States() []State {
	s.mu.Lock()
	workers := slices.Collect(maps.Values(s.workers))
	s.mu.Unlock()
	slices.SortFunc(workers, func(a, b *worker) int { return strings.Compare(a.rec.ID, b.rec.ID) })
	out := make([]State, 0, len(workers))
	for _, w := range workers {
		out = append(out, State{Subscription: w.shown, API: w.api.Root, Delivery: w.delivery()})
	}
	return out
}

// StatesOf returns how it goes with the subscriptions of the caller.
func (s *Service) StatesOf(who auth.Identity) []State {
	s.mu.Lock()
	workers := maps.Clone(s.workers)
	s.mu.Unlock()
	return slices.DeleteFunc(s.States(), func(state State) bool {
		w := workers[state.ID]
		return w == nil || !w.rec.of(who)
	})
}

// AllStatesOf is StatesOf with the caller's subscriptions that other replicas serve.
func (s *Service) AllStatesOf(ctx context.Context, who auth.Identity) ([]State, error) {
	out := s.StatesOf(who)
	recs, err := s.records(ctx)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		if rec.unproven != nil && rec.of(who) {
			// A worker that started before the record was changed is left out.
			out = append(slices.DeleteFunc(out, func(x State) bool { return x.ID == rec.ID }), s.refused(rec))
			continue
		}
		if s.claims == nil || s.apis[rec.API] == nil || !rec.of(who) || slices.ContainsFunc(out, func(x State) bool { return x.ID == rec.ID }) {
			continue
		}
		stored, err := s.Store.Get(ctx, cursorPrefix+rec.ID)
		if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cursor of subscription %s: %w", rec.ID, err)
		}
		c, err := readCursor(stored)
		if err != nil {
			return nil, err
		}
		out = append(out, State{Subscription: (&Subscriptions{s, s.apis[rec.API]}).view(rec), API: rec.API, Elsewhere: true,
			Delivery: Delivery{LastDelivery: c.Delivered, LastFailure: c.Failed, Reason: c.Reason, Error: c.Error}})
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// status is a worker's account of its delivery, under its mu.
type status struct {
	Delivery
	head time.Time // of the event that is being delivered
}

func (w *worker) delivery() Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.status.Delivery
	d.Failures = maps.Clone(d.Failures)
	if !w.status.head.IsZero() {
		d.Lag = max(0, w.Now().Sub(w.status.head).Seconds())
	}
	return d
}

// cursor is what the store is to have.
func (w *worker) cursor() cursor {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &w.status.Delivery
	return cursor{After: w.after, Delivered: d.LastDelivery, Failed: d.LastFailure, Reason: d.Reason, Error: d.Error}
}

// count adds the events that are wanted, and weren't counted or passed before, to what waits.
// The caller has the feed's mu.
func (w *worker) count(events []oplog.Event) {
	n := 0
	for _, e := range events {
		if e.Seq > w.counted && w.wants(e) {
			n++
		}
	}
	w.counted = max(w.counted, events[len(events)-1].Seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Waiting += n
}

// takeUp notes that the event is being delivered.
func (w *worker) takeUp(e oplog.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.head = e.Time
}

// took notes that the subscriber has taken the event.
func (w *worker) took() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Delivered++
	w.status.LastDelivery = w.Now().UTC()
	w.settled()
}

// gaveUp notes that the event won't be delivered.
func (w *worker) gaveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Dropped++
	w.settled()
}

// passedOver notes that the event isn't for the subscription's owner.
func (w *worker) passedOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled()
}

// settled ends takeUp. The caller has mu.
func (w *worker) settled() {
	w.status.Waiting--
	w.status.head = time.Time{}
}

// lost notes that what waited is in the outbox no more.
func (w *worker) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status.Waiting > 0 {
		w.log.Warn("notifications were given up: they are older than notifications are kept", "notifications", w.status.Waiting, "retention", w.Retention)
		w.status.Dropped += uint64(w.status.Waiting)
		w.status.Waiting = 0
	}
}

// failed notes a try that was in vain.
func (w *worker) failed(code int, err error) {
	reason, text := why(code, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.status
	s.LastFailure, s.Reason, s.Error = w.Now().UTC(), reason, text
	if s.Failures == nil {
		s.Failures = map[string]uint64{}
	}
	s.Failures[reason]++
}
