package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

const (
	// page is how many events are read at a time.
	page = 100
	// settle is how long after a delivery the outbox is trimmed, so that one Put drops the
	// events of many deliveries.
	settle = time.Second
)

// cursor says what was delivered to one subscription: all events up to After.
type cursor struct {
	After uint64 `json:"after"`
}

func cursorValue(after uint64) []byte { return fmt.Appendf(nil, `{"after":%d}`, after) }

// worker delivers to one subscription.
type worker struct {
	*Service
	rec     *record
	caller  *caller
	log     *slog.Logger
	after   uint64
	version uint64 // of the cursor's record
	stop    context.CancelFunc
	done    chan struct{}
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
	for _, rec := range recs {
		s.start(rec)
	}
	s.mu.Unlock()
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
			if err := s.trim(ctx); err != nil && ctx.Err() == nil {
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

// start begins delivery to a subscription, if the Service runs. The caller has mu.
func (s *Service) start(rec *record) {
	if s.run == nil || s.workers[rec.ID] != nil {
		return
	}
	ctx, stop := context.WithCancel(s.run)
	w := &worker{
		Service: s, rec: rec, stop: stop, done: make(chan struct{}),
		caller: &caller{client: s.client, auth: rec.Authentication, secrets: s.Secrets},
		log:    s.Log.With("subscription", rec.ID, "callback", place(rec.CallbackURI)),
	}
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

// work reads on from the cursor, delivers, and waits for more, until ctx ends or
// the subscription is gone.
func (w *worker) work(ctx context.Context) {
	wake, unsignal := w.Oplog.Signal()
	defer unsignal()
	backoff := w.backoff()
	for ctx.Err() == nil {
		err := w.drain(ctx)
		switch {
		case err == nil:
			backoff = w.backoff()
			select {
			case <-wake:
			case <-ctx.Done():
			}
		case errors.Is(err, store.ErrNotFound): // deleted, by whichever process
			return
		default:
			if ctx.Err() == nil {
				w.log.Error("notifications are held up by the store", "error", err)
			}
			pause(ctx, backoff.Step())
		}
	}
}

// drain delivers all events.
func (w *worker) drain(ctx context.Context) error {
	if err := w.load(ctx); err != nil {
		return err
	}
	for {
		events, err := w.Oplog.Events(ctx, w.after, page)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		passed := w.after
		for _, e := range events {
			if w.rec.Filter.Match(e) {
				if err := w.deliver(ctx, e); err != nil {
					return err
				}
				if err := w.move(ctx, e.Seq); err != nil {
					return err
				}
			}
			passed = e.Seq
		}
		if passed > w.after { // one Put a page for events that the filter leaves out
			if err := w.move(ctx, passed); err != nil {
				return err
			}
		}
	}
}

// load reads the cursor.
func (w *worker) load(ctx context.Context) error {
	rec, err := w.Store.Get(ctx, cursorPrefix+w.rec.ID)
	if err != nil {
		return fmt.Errorf("cursor of subscription %s: %w", w.rec.ID, err)
	}
	var c cursor
	if err := json.Unmarshal(rec.Value, &c); err != nil {
		return fmt.Errorf("cursor of subscription %s: the record in the store can't be read: %w", w.rec.ID, err)
	}
	w.after, w.version = c.After, rec.Version
	return nil
}

// move stores that everything up to seq was delivered, even if the Service is being
// stopped.
func (w *worker) move(ctx context.Context, seq uint64) error {
	out, err := w.Store.Put(context.WithoutCancel(ctx), store.Record{Key: cursorPrefix + w.rec.ID, Version: w.version, Value: cursorValue(seq)})
	if err != nil {
		return fmt.Errorf("move the cursor of subscription %s: %w", w.rec.ID, err)
	}
	w.after, w.version = seq, out[0].Version
	w.moved()
	return nil
}

// deliver tries until the subscriber has accepted the event, or the event is too old. Its
// only error is that of ctx.
func (w *worker) deliver(ctx context.Context, e oplog.Event) error {
	n := NewNotification(w.rec.ID, w.rec.Verbosity, w.Base, e)
	backoff := w.backoff()
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.Now().Sub(e.Time) > w.Retention {
			w.log.Warn("a notification was given up: it is older than notifications are kept",
				"notification", n.ID, "instance", e.Instance, "retention", w.Retention)
			return nil
		}
		status, err := w.caller.call(ctx, http.MethodPost, w.rec.CallbackURI, n)
		if err == nil && status >= 200 && status < 300 {
			if try > 1 {
				w.log.Info("the subscriber takes notifications again", "notification", n.ID, "instance", e.Instance, "tries", try)
			}
			return nil
		}
		if ctx.Err() == nil && try <= 10 { // the first ten say it all
			w.log.Warn("a notification was not taken; it will be sent again",
				"notification", n.ID, "instance", e.Instance, "status", status, "error", err, "try", try)
		}
		pause(ctx, backoff.Step())
	}
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

// trim drops events that every cursor has passed, and events older than Retention. Where
// there is no cursor, there are to be no more events.
func (s *Service) trim(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cursors, err := s.Store.List(ctx, cursorPrefix, "", 0)
	if err != nil {
		return fmt.Errorf("list cursors: %w", err)
	}
	if len(cursors) == 0 {
		s.Oplog.SetSubscribed(false)
	}
	// New subscriptions begin at the end.
	passed, err := s.Oplog.End(ctx)
	if err != nil {
		return err
	}
	for _, rec := range cursors {
		var c cursor
		if err := json.Unmarshal(rec.Value, &c); err != nil {
			return fmt.Errorf("%s: the record in the store can't be read: %w", rec.Key, err)
		}
		passed = min(passed, c.After)
	}
	if err := s.Oplog.DropThrough(ctx, passed); err != nil {
		return err
	}
	old := s.Now().Add(-s.Retention)
	undelivered := 0
	for after := uint64(0); ; {
		events, err := s.Oplog.Events(ctx, after, page)
		if err != nil {
			return err
		}
		var drop []uint64
		for _, e := range events {
			if e.Time.Before(old) {
				undelivered++
				drop = append(drop, e.Seq)
			}
		}
		if err := s.Oplog.Drop(ctx, drop...); err != nil {
			return err
		}
		if len(events) < page || len(drop) < len(events) {
			break // events are in order of time: the rest is newer
		}
		after = events[len(events)-1].Seq
	}
	if undelivered > 0 {
		s.Log.Warn("events were dropped before every subscriber had taken them: they are older than notifications are kept",
			"events", undelivered, "retention", s.Retention)
	}
	return nil
}
