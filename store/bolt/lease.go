package bolt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// leases are kept in memory. The file's lock keeps every other process out, so a lease
// need not outlive the process. When a process is killed, its instances are free at once.
type leases struct {
	mu   sync.Mutex
	held map[string]store.Lease
	// last is the last token given out. It begins at the machine's clock in
	// nanoseconds, so that tokens grow across restarts.
	last uint64
}

// Acquire implements [store.Store]. The token is new whenever the lease had
// expired, was given back or goes to another holder: only a renewal keeps it.
func (s *Store) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if name == "" || holder == "" || ttl <= 0 {
		return store.Lease{}, fmt.Errorf("acquire lease %q for %q: a lease needs a name, a holder and a time to live", name, holder)
	}
	if err := s.usable(ctx); err != nil {
		return store.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	l := &s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	now := s.now()
	old, taken := l.held[name]
	taken = taken && now.Before(old.Expires)
	if taken && old.Holder != holder {
		return store.Lease{}, fmt.Errorf("acquire lease %q: by %s until %s: %w", name, old.Holder, old.Expires.Format(time.RFC3339), store.ErrHeld)
	}
	lease := store.Lease{Name: name, Holder: holder, Token: old.Token, Expires: now.Add(ttl).UTC()}
	if !taken {
		l.last++
		lease.Token = l.last
	}
	l.held[name] = lease
	return lease, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, lease store.Lease) error {
	if err := s.usable(ctx); err != nil {
		return fmt.Errorf("release lease %q: %w", lease.Name, err)
	}
	l := &s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.held[lease.Name]; ok && old.Holder == lease.Holder && old.Token == lease.Token {
		delete(l.held, lease.Name)
	}
	return nil
}

func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return nil
}
