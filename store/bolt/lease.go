package bolt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// leases are kept in memory. The file's lock keeps every other process out, so a lease
// need not outlive the process. When a process is killed, its instances are free at once.
type leases struct {
	mu   sync.Mutex
	held map[string]held
	// last is the last token given out. It begins at the machine's clock in
	// nanoseconds, so that tokens grow across restarts.
	last uint64
}

// held is a lease as it was given out. One that is attached lasts while its session is held
// with the token session.
type held struct {
	store.Lease
	session uint64
}

// current returns the lease under name, if it hasn't ended. The caller has mu.
func (l *leases) current(name string, now time.Time) (held, bool) {
	h, ok := l.held[name]
	if !ok {
		return held{}, false
	}
	if h.Session != "" {
		session, ok := l.held[h.Session]
		return h, ok && session.Token == h.session && now.Before(session.Expires)
	}
	return h, now.Before(h.Expires)
}

// give makes the lease that follows old, which is the current one if that is true. The
// caller has mu.
func (l *leases) give(next, old held, current bool) store.Lease {
	next.Token = old.Token
	if !current {
		l.last++
		next.Token = l.last
	}
	l.held[next.Name] = next
	return next.Lease
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
	old, current := l.current(name, now)
	if current && (old.Holder != holder || old.Session != "") {
		return store.Lease{}, fmt.Errorf("acquire lease %q: by %s until %s: %w", name, old.Holder, old.Expires.Format(time.RFC3339), store.ErrHeld)
	}
	return l.give(held{Lease: store.Lease{Name: name, Holder: holder, Expires: now.Add(ttl).UTC()}}, old, current), nil
}

// Attach implements [store.Store].
func (s *Store) Attach(ctx context.Context, name string, session store.Lease) (store.Lease, error) {
	if name == "" || name == session.Name || session.Session != "" {
		return store.Lease{}, fmt.Errorf("attach lease %q to %q: a lease needs a name and a session, which is a lease that was acquired", name, session.Name)
	}
	if err := s.usable(ctx); err != nil {
		return store.Lease{}, fmt.Errorf("attach lease %q: %w", name, err)
	}
	l := &s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	now := s.now()
	with, ok := l.current(session.Name, now)
	if !ok || with.Token != session.Token || with.Holder != session.Holder {
		return store.Lease{}, fmt.Errorf("attach lease %q: session %q of %s has ended: %w", name, session.Name, session.Holder, store.ErrFenced)
	}
	old, current := l.current(name, now)
	if current && (old.Session != session.Name || old.session != session.Token) {
		return store.Lease{}, fmt.Errorf("attach lease %q: by %s: %w", name, old.Holder, store.ErrHeld)
	}
	next := store.Lease{Name: name, Holder: session.Holder, Session: session.Name, Expires: with.Expires}
	return l.give(held{Lease: next, session: session.Token}, old, current), nil
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

// Leases implements [store.Store].
func (s *Store) Leases(ctx context.Context, prefix string) ([]store.Lease, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("leases %q: %w", prefix, err)
	}
	l := &s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []store.Lease
	for name, h := range l.held {
		if _, current := l.current(name, s.now()); current && h.Session == "" && strings.HasPrefix(name, prefix) {
			out = append(out, h.Lease)
		}
	}
	slices.SortFunc(out, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// fence returns [store.ErrFenced] where ctx is under a lease that is no longer held.
func (s *Store) fence(ctx context.Context) error {
	lease, ok := store.LeaseOf(ctx)
	if !ok {
		return nil
	}
	l := &s.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if is, current := l.current(lease.Name, s.now()); !current || is.Token != lease.Token || is.Holder != lease.Holder {
		return fmt.Errorf("lease %q of %s: %w", lease.Name, lease.Holder, store.ErrFenced)
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
