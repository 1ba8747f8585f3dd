package oplog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// EventType says what happened.
type EventType string

// The event types.
const (
	OperationEvent EventType = "operation" // an operation entered a state
	CreatedEvent   EventType = "created"   // a VNF instance identifier was created
	DeletedEvent   EventType = "deleted"   // a VNF instance identifier was deleted
)

// Event is one entry of the outbox, of which subscribers may want to be notified.
type Event struct {
	// Seq orders events; it grows, with gaps. The store gives it.
	Seq uint64 `json:"-"`
	// Replicated says that one of several processes put it ([Shared]), into a store that may go
	// back to what it was, and then gives the same Seq to another event.
	Replicated bool `json:"replicated,omitempty"`
	// API is the interface whose subscribers are told: "" for the life cycle of VNFs, else what
	// was given to [Log.Tell]. An event of another interface has Type, Time and Content alone.
	API      string    `json:"api,omitempty"`
	Type     EventType `json:"type"`
	Time     time.Time `json:"time"`
	Instance string    `json:"instance,omitempty"`
	// Dir is the directory of the instance: who may see what is in it is told.
	Dir string  `json:"dir,omitempty"`
	VNF lcm.VNF `json:"vnf,omitzero"`
	// Operation is what a notification says of the operation in the state that it entered
	// ([lcm.Operation.Notified]).
	Operation *lcm.Operation `json:"operation,omitempty"`
	// Content is what another interface makes its notifications of, as JSON.
	Content json.RawMessage `json:"content,omitempty"`
}

// Tell puts events of an interface other than the life cycle's into the outbox, in one
// transaction with the records that they tell of, so that neither is there without the other.
// An event without a Time gets the Log's. While nobody is subscribed, the records alone are put.
// It returns [store.ErrConflict] where a record was changed meanwhile: read it again, and
// decide anew. The records must not be the Log's own.
func (l *Log) Tell(ctx context.Context, events []Event, recs ...store.Record) error {
	b := batch{recs: recs}
	for _, e := range events {
		if e.API == "" {
			return fmt.Errorf("tell of %s: the event names no API", e.Type)
		}
		if e.Time.IsZero() {
			e.Time = l.now().UTC()
		}
		b.events = append(b.events, e)
	}
	for _, r := range recs {
		for _, own := range []string{instancePrefix, operationPrefix, preparedPrefix, historyPrefix, outboxPrefix} {
			if strings.HasPrefix(r.Key, own) {
				return fmt.Errorf("tell: the record %s is the operation log's own", r.Key)
			}
		}
	}
	return l.commit(ctx, &b)
}

// record encodes an event for the outbox.
func (e Event) record() (store.Record, error) {
	if e.Operation != nil {
		e.Operation = e.Operation.Notified()
	}
	value, err := json.Marshal(e)
	if err != nil {
		return store.Record{}, fmt.Errorf("event of instance %s: %w", e.Instance, err)
	}
	return store.Record{Key: outboxPrefix, Value: value}, nil
}

// SetSubscribed says whether anybody is notified of anything. While nobody is, nothing is
// added to the outbox. Once SetSubscribed(true) has returned, everything that becomes durable
// has its event. It is so from the beginning, too, as a start doesn't know who was notified
// by the process before. A [Shared] store always gets its events.
func (l *Log) SetSubscribed(subscribed bool) {
	l.recording.Lock()
	defer l.recording.Unlock()
	l.unsubscribed = !subscribed
}

// Events returns at most limit events whose Seq is greater than after, in order.
// limit <= 0 means all.
func (l *Log) Events(ctx context.Context, after uint64, limit int) ([]Event, error) {
	from := ""
	if after > 0 {
		from = outboxKey(after)
	}
	recs, err := l.store.List(ctx, outboxPrefix, from, limit)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	out := make([]Event, 0, len(recs))
	for _, rec := range recs {
		var e Event
		if err := json.Unmarshal(rec.Value, &e); err != nil {
			return nil, fmt.Errorf("event %s: the record in the store can't be read: %w", rec.Key, err)
		}
		if e.Seq, err = strconv.ParseUint(strings.TrimPrefix(rec.Key, outboxPrefix), 10, 64); err != nil {
			return nil, fmt.Errorf("event %s: %w", rec.Key, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// End returns the Seq of the newest event, or 0 where there is none. A subscriber that
// begins there is notified of everything that happens from now on.
func (l *Log) End(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	from := ""
	if end > 0 {
		from = outboxKey(end)
	}
	recs, err := l.store.List(ctx, outboxPrefix, from, 0)
	if err != nil {
		return 0, fmt.Errorf("find the newest event: %w", err)
	}
	l.seen(recs)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end, nil
}

// seen remembers the Seq of the newest event among recs.
func (l *Log) seen(recs []store.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range recs {
		if n, ok := strings.CutPrefix(r.Key, outboxPrefix); ok {
			if seq, err := strconv.ParseUint(n, 10, 64); err == nil {
				l.end = max(l.end, seq)
			}
		}
	}
}

// dropPage is how many events one Put removes at most.
const dropPage = 500

// DropThrough removes all events up to and including seq. It doesn't decode them, so that
// an outbox without subscribers costs little.
func (l *Log) DropThrough(ctx context.Context, seq uint64) error {
	last := outboxKey(seq)
	for more := true; more; {
		err := retry(ctx, func() error {
			var gone []store.Record
			recs, err := l.store.List(ctx, outboxPrefix, "", dropPage)
			if err != nil {
				return err
			}
			for _, rec := range recs {
				if rec.Key <= last {
					gone = append(gone, store.Record{Key: rec.Key, Version: rec.Version, Delete: true})
				}
			}
			more = len(gone) == dropPage
			return l.put(ctx, gone)
		})
		if err != nil {
			return fmt.Errorf("drop events through %d: %w", seq, err)
		}
	}
	return nil
}

// Drop removes events that nobody needs any more. It passes over those already gone.
func (l *Log) Drop(ctx context.Context, seqs ...uint64) error {
	return retry(ctx, func() error {
		var gone []store.Record
		for _, n := range seqs {
			rec, err := l.store.Get(ctx, outboxKey(n))
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("drop event %d: %w", n, err)
			}
			gone = append(gone, store.Record{Key: rec.Key, Version: rec.Version, Delete: true})
		}
		if err := l.put(ctx, gone); err != nil {
			return fmt.Errorf("drop %d events: %w", len(seqs), err)
		}
		return nil
	})
}

// Signal returns a channel that receives after new events, and stop, which ends that. One
// signal may stand for many events: after it, read until no event is left.
func (l *Log) Signal() (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signals[c] = true
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.signals, c)
	}
}

func outboxKey(n uint64) string { return fmt.Sprintf("%s%020d", outboxPrefix, n) }
