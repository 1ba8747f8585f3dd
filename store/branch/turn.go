// Package branch keeps what several replicas that write to one branch of a remote have in
// common, in their store: whose turn it is to push, and which commit is accepted as the
// branch's. It knows neither git nor what the commits are about.
package branch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// turnTTL is how long a turn, and a place in the queue, outlasts the process that had it.
const turnTTL = 4 * time.Second

// Turns lets one replica at a time push, first come first served. Each that waits has a ticket:
// a record whose number the store gives. A ticket counts only while its replica holds a lease,
// so that one that died delays nobody for longer than that. It is for order alone: what must
// hold in spite of everything, the compare-and-swap of a push makes sure of.
type Turns struct {
	store  store.Store
	queue  string // prefix of the tickets
	waits  string // prefix of the leases, by holder
	pushed string // lease that lasts until the next push may begin
	holder string
	ttl    time.Duration

	mu   sync.Mutex // one of this process at a time has a ticket
	last uint64     // the number of its last ticket, under mu

	paced atomic.Uint64 // how often Pace was called
}

// NewTurns are the turns at the branch with a name. holder is unique to the process.
func NewTurns(s store.Store, branch, holder string) *Turns {
	return &Turns{store: s, queue: "turn/" + branch + "/", waits: "turn-of/" + branch + "/", pushed: "pushed/" + branch, holder: holder, ttl: turnTTL}
}

// Take waits for the turn until ctx ends. others says that somebody else may have had it since
// this process had it last. give ends the turn and must be called. An error says that there
// are no turns now, as the store is away: the caller goes on without.
func (t *Turns) Take(ctx context.Context) (others bool, give func(), err error) {
	t.mu.Lock()
	done := false
	defer func() {
		if !done {
			t.mu.Unlock()
		}
	}()
	lease, err := t.store.Acquire(ctx, t.waits+t.holder, t.holder, t.ttl)
	if err != nil {
		return false, nil, fmt.Errorf("wait for the turn at %s: %w", t.queue, err)
	}
	mine, err := t.ticket(ctx, lease)
	if err != nil {
		return false, nil, fmt.Errorf("wait for the turn at %s: %w", t.queue, err)
	}
	back := func() {
		// The turn is given back also by one whose context has ended; what can't be given back
		// ends with its lease.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.ttl)
		defer cancel()
		_ = t.drop(ctx, mine)
		_ = t.store.Release(ctx, lease)
	}
	if err := t.wait(ctx, mine, lease); err != nil {
		back()
		return false, nil, fmt.Errorf("wait for the turn at %s: %w", t.queue, err)
	}
	n := number(mine.Key)
	others, t.last = n != t.last+1, n
	stop := t.renew(context.WithoutCancel(ctx), lease.Name, t.holder, t.ttl)
	done = true
	var once sync.Once
	return others, func() {
		once.Do(func() {
			stop()
			back()
			t.mu.Unlock()
		})
	}, nil
}

// ticket is taken under the lease: one who slept past it leaves none behind.
func (t *Turns) ticket(ctx context.Context, lease store.Lease) (store.Record, error) {
	recs, err := t.store.Put(store.Under(ctx, lease), store.Record{Key: t.queue, Value: []byte(t.holder)})
	if err != nil {
		return store.Record{}, err
	}
	return recs[0], nil
}

// wait returns when no ticket before mine counts any more.
func (t *Turns) wait(ctx context.Context, mine store.Record, lease store.Lease) error {
	for {
		mark, err := t.store.Mark(ctx)
		if err != nil {
			return err
		}
		first, err := t.first(ctx, mine)
		if err != nil || first {
			return err
		}
		if err := t.until(ctx, mark); err != nil {
			return err
		}
		again, err := t.store.Acquire(ctx, lease.Name, t.holder, t.ttl)
		if err != nil {
			return err
		}
		if again.Token != lease.Token {
			// It slept, and others have taken it for dead: its ticket may be gone.
			return fmt.Errorf("%s: %w", lease.Name, store.ErrFenced)
		}
	}
}

// first says whether mine is the first ticket that counts, and removes those before it that
// don't.
func (t *Turns) first(ctx context.Context, mine store.Record) (bool, error) {
	tickets, err := t.store.List(ctx, t.queue, "", 0)
	if err != nil {
		return false, err
	}
	leases, err := t.store.Leases(ctx, t.waits)
	if err != nil {
		return false, err
	}
	alive := map[string]bool{}
	for _, l := range leases {
		alive[l.Holder] = true
	}
	for _, ticket := range tickets {
		if ticket.Key == mine.Key {
			return true, nil
		}
		// One of this process is what a turn that couldn't be given back has left.
		if holder := string(ticket.Value); alive[holder] && holder != t.holder {
			return false, nil
		}
		if err := t.drop(ctx, ticket); err != nil && !errors.Is(err, store.ErrConflict) {
			return false, err
		}
	}
	return false, fmt.Errorf("ticket %s: %w", mine.Key, store.ErrFenced) // somebody took this process for dead
}

// until returns when a ticket was put or removed behind the mark, or when it is time to renew
// and to look whether somebody has died, of which no record tells.
func (t *Turns) until(ctx context.Context, mark store.Mark) error {
	some, cancel := context.WithTimeout(ctx, t.ttl/4)
	defer cancel()
	for {
		changes, next, err := t.store.Changes(some, mark)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case some.Err() != nil, errors.Is(err, store.ErrLost):
			return nil
		case err != nil:
			return err
		}
		for _, c := range changes {
			if strings.HasPrefix(c.Key, t.queue) {
				return nil
			}
		}
		mark = next
	}
}

func (t *Turns) drop(ctx context.Context, ticket store.Record) error {
	_, err := t.store.Put(ctx, store.Record{Key: ticket.Key, Version: ticket.Version, Delete: true})
	return err
}

// renew keeps a lease as long as what it is for goes on. Where that fails, others go on when it
// ends.
func (t *Turns) renew(ctx context.Context, name, holder string, ttl time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(ttl / 4)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, _ = t.store.Acquire(ctx, name, holder, ttl)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// number is that of a ticket.
func number(key string) (n uint64) {
	for _, c := range key[strings.LastIndexByte(key, '/')+1:] {
		n = n*10 + uint64(c-'0')
	}
	return n
}
