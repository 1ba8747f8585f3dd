package notify

import (
	"context"
	"fmt"
	"time"
)

// overdue is how much longer than Retention the outbox keeps an event whose cursor doesn't
// move: that of a subscription which isn't served.
const overdue = time.Minute

// trim drops events that every cursor has passed. Where there is no cursor, there are to be no
// more events.
func (s *Service) trim(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, ours, err := s.claims.trimmer(ctx)
	if err != nil || !ours {
		return err
	}
	// Before the cursors are listed: what comes after it belongs to a subscription that is being
	// made by another process. New subscriptions begin at the end.
	passed, err := s.Oplog.End(ctx)
	if err != nil {
		return err
	}
	cursors, err := s.Store.List(ctx, cursorPrefix, "", 0)
	if err != nil {
		return fmt.Errorf("list cursors: %w", err)
	}
	if len(cursors) == 0 {
		s.Oplog.SetSubscribed(false)
	}
	for _, rec := range cursors {
		c, err := readCursor(rec)
		if err != nil {
			return err
		}
		passed = min(passed, c.After)
	}
	if err := s.Oplog.DropThrough(ctx, passed); err != nil {
		return err
	}
	return s.dropOverdue(ctx)
}

// dropOverdue drops what the workers would have given up by now.
func (s *Service) dropOverdue(ctx context.Context) error {
	old := s.Now().Add(-s.Retention - overdue)
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
		s.Log.Warn("events were dropped that a subscription which isn't served has not taken: they are older than notifications are kept",
			"events", undelivered, "retention", s.Retention)
	}
	return nil
}
