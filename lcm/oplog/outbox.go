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
	Seq      uint64    `json:"-"`
	Type     EventType `json:"type"`
	Time     time.Time `json:"time"`
	Instance string    `json:"instance"`
	VNF      lcm.VNF   `json:"vnf"`
	// Operation is the record as it was in the state that it entered, without the
	// steps of its journal.
	Operation *lcm.Operation `json:"operation,omitempty"`
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
			var b batch
			recs, err := l.store.List(ctx, outboxPrefix, "", dropPage)
			if err != nil {
				return err
			}
			for _, rec := range recs {
				if rec.Key <= last {
					b.delete(rec.Key, rec.Version)
				}
			}
			more = len(b.recs) == dropPage
			return l.commit(ctx, &b)
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
		var b batch
		for _, n := range seqs {
			rec, err := l.store.Get(ctx, outboxKey(n))
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("drop event %d: %w", n, err)
			}
			b.delete(rec.Key, rec.Version)
		}
		if err := l.commit(ctx, &b); err != nil {
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
