package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jibe-vnfm/jibe/internal/peer"
	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// settle is how long after a delivery the outbox is trimmed, so that one Put drops the
// events of many deliveries; and how long a cursor that only passed events over isn't stored.
const settle = time.Second

// cursor says what was delivered to one subscription: all events up to After. Beside it stands
// how that went, which is shown after a restart too.
type cursor struct {
	After     uint64    `json:"after"`
	Delivered time.Time `json:"delivered,omitzero"`
	Failed    time.Time `json:"failed,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Error     string    `json:"error,omitempty"`
}

func (c cursor) value() ([]byte, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode cursor: %w", err)
	}
	return b, nil
}

func readCursor(rec store.Record) (cursor, error) {
	var c cursor
	if err := json.Unmarshal(rec.Value, &c); err != nil {
		return c, fmt.Errorf("%s: the record in the store can't be read: %w", rec.Key, err)
	}
	return c, nil
}

// worker delivers to one subscription.
type worker struct {
	*Service
	api    *API
	rec    *record
	shown  *Subscription // what API.Notification is given
	caller *caller
	claim  claim
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}

	// What only its own goroutine uses.
	after   uint64    // everything up to it was delivered or passed over
	stored  cursor    // what the store has
	version uint64    // of that record
	moving  time.Time // since when after is ahead of stored
	pauses  wait.Backoff
	failing int // tries in a row that failed

	counted uint64 // everything up to it is in status.Waiting; under the feed's mu

	mu     sync.Mutex
	status status
}

func newWorker(s *Service, api *API, rec *record) *worker {
	w := &worker{
		Service: s, api: api, rec: rec, shown: (&Subscriptions{s, api}).view(rec), done: make(chan struct{}),
		caller: s.newCaller(api, rec.Authentication, s.Secrets),
		log:    s.Log.With("subscription", rec.ID, "callback", peer.Place(rec.CallbackURI)),
	}
	w.pauses = w.backoff()
	return w
}

// wants says whether the subscriber is to be notified of the event.
func (w *worker) wants(e oplog.Event) bool {
	return e.API == w.api.Events && (w.rec.matcher == nil || w.rec.matcher.Match(e))
}

// work delivers what comes after the cursor, until ctx ends or the subscription is gone.
func (w *worker) work(ctx context.Context) {
	defer w.feed.leave(w)
	for ctx.Err() == nil {
		err := w.begin(ctx)
		if err == nil {
			err = w.drain(ctx)
		}
		w.feed.leave(w)
		switch {
		case errors.Is(err, store.ErrNotFound): // deleted, by whichever process
			return
		case errors.Is(err, store.ErrFenced):
			w.log.Info("another replica delivers to this subscription from now on")
			return
		case errors.Is(err, store.ErrConflict) && w.claim.shared(): // most likely deleted
		case err != nil && ctx.Err() == nil:
			w.log.Error("notifications are held up by the store", "error", err)
			pause(ctx, storeRetry)
		}
	}
	switch err := w.keep(context.WithoutCancel(ctx)); {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrFenced):
	case errors.Is(err, store.ErrConflict) && w.claim.shared(): // deleted by another process
	default:
		w.log.Error("what was delivered last will be sent again, as it couldn't be stored", "error", err)
	}
}

// begin reads the cursor and has counted what comes after it.
func (w *worker) begin(ctx context.Context) error {
	rec, err := w.Store.Get(ctx, cursorPrefix+w.rec.ID)
	if err != nil {
		return fmt.Errorf("cursor of subscription %s: %w", w.rec.ID, err)
	}
	c, err := readCursor(rec)
	if err != nil {
		return err
	}
	w.after, w.stored, w.version = c.After, c, rec.Version
	w.mu.Lock()
	w.status.Delivery = Delivery{LastDelivery: c.Delivered, LastFailure: c.Failed, Reason: c.Reason, Error: c.Error,
		Delivered: w.status.Delivered, Dropped: w.status.Dropped, Failures: w.status.Failures}
	w.mu.Unlock()
	return w.feed.join(ctx, w)
}

// drain delivers all events, and those that follow, until ctx ends or the store fails.
func (w *worker) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		events, end, news, err := w.feed.next(ctx, w.after)
		switch {
		case err != nil:
			return err
		case len(events) > 0:
			err = w.pass(ctx, events)
		case w.after < end: // those in between are older than events are kept
			w.after = end
			w.lost()
		default:
			err = w.wait(ctx, news)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass delivers those of the events that are wanted, and stores each delivery, so that no more
// than one is repeated after a crash.
func (w *worker) pass(ctx context.Context, events []oplog.Event) error {
	for _, e := range events {
		wanted := w.wants(e)
		if wanted {
			if err := w.deliver(ctx, e); err != nil {
				return err
			}
		}
		w.after = e.Seq
		if w.moving.IsZero() {
			w.moving = time.Now()
		}
		if wanted || w.due() <= 0 {
			if err := w.keep(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait waits for news. Where events were only passed over, how far is stored before long,
// together with more.
func (w *worker) wait(ctx context.Context, news <-chan struct{}) error {
	var later <-chan time.Time
	if w.after != w.stored.After {
		t := time.NewTimer(w.due())
		defer t.Stop()
		later = t.C
	}
	select {
	case <-news:
	case <-ctx.Done():
	case <-later:
		return w.keep(ctx)
	}
	return nil
}

// due is how long the cursor may still wait to be stored.
func (w *worker) due() time.Duration { return settle - time.Since(w.moving) }

// keep stores how far delivery has come, if the store doesn't say so already.
func (w *worker) keep(ctx context.Context) error {
	c := w.cursor()
	if c == w.stored {
		return nil
	}
	value, err := c.value()
	if err != nil {
		return err
	}
	// A stop must not leave it open whether the record has changed.
	out, err := w.Store.Put(context.WithoutCancel(ctx), store.Record{Key: cursorPrefix + w.rec.ID, Version: w.version, Value: value})
	if err != nil {
		return fmt.Errorf("move the cursor of subscription %s: %w", w.rec.ID, err)
	}
	w.stored, w.version, w.moving = c, out[0].Version, time.Time{}
	w.moved()
	return nil
}

// deliver tries until the subscriber has accepted the event, or the event is too old. Its
// errors are those of ctx and of the store.
func (w *worker) deliver(ctx context.Context, e oplog.Event) error {
	w.takeUp(e)
	if !w.seen(e) {
		w.passedOver()
		return nil
	}
	body, err := w.api.Notification(w.shown, w.Base, e)
	if err != nil {
		return fmt.Errorf("notification of event %d: %w", e.Seq, err)
	}
	text, err := json.Marshal(w.trimmed(body))
	if err != nil {
		return fmt.Errorf("notification of event %d: %w", e.Seq, err)
	}
	log := w.log.With("notification", NotificationID(w.rec.ID, e), "instance", e.Instance)
	expires := e.Time.Add(w.Retention)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := expires.Sub(w.Now())
		if left < 0 {
			log.Warn("a notification was given up: it is older than notifications are kept", "retention", w.Retention)
			w.gaveUp()
			return nil
		}
		if !w.claims.holds(w.claim) {
			return fmt.Errorf("subscription %s: %w", w.rec.ID, store.ErrFenced)
		}
		began := time.Now()
		called, span := w.traced(ctx, e)
		status, err := w.caller.call(called, http.MethodPost, w.rec.CallbackURI, text)
		taken := err == nil && status >= 200 && status < 300
		span.End(!taken)
		if w.Observe != nil && ctx.Err() == nil {
			w.Observe(e, began, taken)
		}
		if taken {
			if w.failing > 0 {
				log.Info("the subscriber takes notifications again", "tries", w.failing+1)
			}
			w.failing, w.pauses = 0, w.backoff()
			w.took()
			return nil
		}
		if ctx.Err() != nil {
			continue
		}
		w.failing++
		w.failed(status, err)
		if w.failing <= 10 { // the first ten say it all
			log.Warn("a notification was not taken; it will be sent again", "status", status, "error", err, "try", w.failing)
		}
		if w.failing == 1 { // shown after a restart, too
			if err := w.keep(ctx); err != nil {
				return err
			}
		}
		pause(ctx, min(w.pauses.Step(), left))
	}
}

// traced begins the span of a delivery, where the event is one of an operation that is traced.
func (w *worker) traced(ctx context.Context, e oplog.Event) (context.Context, *trace.Active) {
	if !w.Trace.On() || e.Operation == nil {
		return ctx, nil
	}
	return w.Trace.Start(trace.With(ctx, w.Trace.Operation(e.Operation.ID)), "notification", trace.Client,
		trace.Attribute{Key: "jibe.subscription", Value: w.rec.ID}, trace.Attribute{Key: "jibe.operation.state", Value: string(e.Operation.State)})
}

// backoff returns the pauses between tries: from RetryMin, doubled with each up to
// RetryMax. Half of a pause is random, so that subscribers that failed together don't get
// everything at once when they are back.
func (w *worker) backoff() wait.Backoff {
	return wait.Backoff{Duration: min(w.RetryMin, w.RetryMax) / 2, Factor: 2, Jitter: 1, Steps: math.MaxInt, Cap: w.RetryMax / 2}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
