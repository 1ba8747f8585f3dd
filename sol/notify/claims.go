package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/store"
)

const (
	// claimPause is how long what may be served here waits until it is claimed.
	claimPause = 500 * time.Millisecond
	// leasePrefix begins the names of the leases of subscriptions, and trimLease is that of who
	// empties the outbox.
	leasePrefix = "subscription/"
	trimLease   = "outbox"
)

// claim is why this process serves a subscription: the zero value where it is the only one, else
// a lease and the session that it was attached to.
type claim struct{ lease, session store.Lease }

func (c claim) shared() bool { return c.lease.Name != "" }

// claims say which subscriptions this process serves, of several over one store. Nothing is
// asked of the store while there is nothing to claim. A nil one serves all.
type claims struct {
	*Service
	news  changed.Feed
	take  changed.Take
	wake  chan struct{}
	known map[string]*record // all that there are; used by run alone
}

func newClaims(s *Service) *claims {
	c := &claims{Service: s, wake: make(chan struct{}, 1), known: map[string]*record{}}
	c.take = c.news.Watch()
	s.Oplog.OnStored(subscriptionPrefix, func(change store.Change) { c.note(change.Key[len(subscriptionPrefix):]) })
	s.Oplog.OnStored(cursorPrefix, func(store.Change) { s.moved() })
	s.Oplog.OnLost(func() {
		c.news.NoteAll()
		c.stir()
	})
	return c
}

// note has run look at a subscription that was made, changed or deleted.
func (c *claims) note(id string) {
	c.news.Note(id)
	c.stir()
}

func (c *claims) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run claims what is to be served here, and gives up what isn't, until ctx ends.
func (c *claims) run(ctx context.Context) {
	tick := time.NewTicker(claimPause)
	defer tick.Stop()
	c.news.NoteAll()
	for ctx.Err() == nil {
		if err := c.round(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error("which subscriptions are served here can't be settled; it is tried again", "error", err)
			pause(ctx, storeRetry)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-c.wake:
		}
	}
}

// round learns of what has changed, and then claims.
func (c *claims) round(ctx context.Context) error {
	ids, all := c.take()
	if err := c.learn(ctx, ids, all); err != nil {
		if c.news.Note(ids...); all {
			c.news.NoteAll()
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	session, alive := c.Session()
	for id, w := range c.workers {
		if c.known[id] == nil || c.known[id].unproven != nil || !alive || w.claim.session.Token != session.Token || !c.mine(id) || w.ended() {
			c.end(ctx, id)
		}
	}
	if !alive {
		return nil
	}
	for id, rec := range c.known {
		if c.workers[id] != nil || !c.mine(id) || c.apis[rec.API] == nil || rec.unproven != nil {
			continue
		}
		lease, err := c.Store.Attach(ctx, leasePrefix+id, session)
		switch {
		case errors.Is(err, store.ErrHeld):
		case errors.Is(err, store.ErrFenced): // the session has ended
			return nil
		case err != nil:
			return fmt.Errorf("subscription %s: %w", id, err)
		default:
			c.start(rec, claim{lease, session})
		}
	}
	return nil
}

// learn reads subscriptions again: those with ids, or all, which ends every delivery here.
func (c *claims) learn(ctx context.Context, ids []string, all bool) error {
	if all {
		c.mu.Lock()
		defer c.mu.Unlock()
		for id := range c.workers {
			c.end(ctx, id)
		}
		c.feed.forget()
		recs, err := c.records(ctx)
		if err != nil {
			return err
		}
		clear(c.known)
		for _, rec := range recs {
			c.known[rec.ID] = rec
		}
		c.moved()
		return nil
	}
	for _, id := range ids {
		stored, err := c.Store.Get(ctx, subscriptionPrefix+id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			delete(c.known, id)
		case err != nil:
			return err
		default:
			rec, err := c.read(stored)
			if err != nil {
				return err
			}
			c.known[id] = rec
		}
	}
	return nil
}

func (c *claims) mine(id string) bool { return c.Mine == nil || c.Mine(id) }

// holds says whether, as far as this process knows, a subscription is still its own.
func (c *claims) holds(of claim) bool {
	if c == nil {
		return true
	}
	session, alive := c.Session()
	return alive && of.session.Token == session.Token
}

// trimmer says whether this process is to empty the outbox, and returns the context to do it
// with.
func (c *claims) trimmer(ctx context.Context) (context.Context, bool, error) {
	if c == nil {
		return ctx, true, nil
	}
	session, alive := c.Session()
	if !alive {
		return ctx, false, nil
	}
	lease, err := c.Store.Attach(ctx, trimLease, session)
	switch {
	case errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrFenced):
		return ctx, false, nil
	case err != nil:
		return ctx, false, fmt.Errorf("empty the outbox: %w", err)
	}
	return store.Under(ctx, lease), true, nil
}

// ended says whether the worker has ended by itself.
func (w *worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
