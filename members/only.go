package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// jobAgain is how often it is looked whether a job is free although no member has gone.
const jobAgain = time.Minute

// Only runs f, a job of which there must be one among all members, while this one has the lease
// of that name. The context of f is [store.Under] the lease and ends with the session; when the
// session has ended, the lease is sought again. Only returns what f returns by itself, and nil
// when ctx ends.
func (m *Member) Only(ctx context.Context, name string, f func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		ran, err := m.once(ctx, "job/"+name, f)
		if ran {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		again := jobAgain
		if err != nil && !errors.Is(err, store.ErrHeld) && !errors.Is(err, store.ErrFenced) {
			m.config.Log.WarnContext(ctx, "the lease of a job could not be had, will be tried again", "job", name, "error", err)
			again = m.config.Heartbeat
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(again):
		}
	}
	return nil
}

// once runs f if the lease is free. ran says that it came to its end while that was held.
func (m *Member) once(ctx context.Context, name string, f func(ctx context.Context) error) (ran bool, err error) {
	s := m.Session()
	if s == nil {
		return false, nil // its return is a change
	}
	lease, err := m.config.Store.Attach(ctx, name, s.Lease())
	if err != nil {
		return false, err
	}
	within, cancel := s.Within(store.Under(ctx, lease))
	defer cancel()
	err = f(within)
	if !s.Held() {
		return false, nil
	}
	// It is given back even while the process is stopping.
	if released := m.config.Store.Release(context.WithoutCancel(ctx), lease); released != nil {
		err = errors.Join(err, fmt.Errorf("give the lease of job %s back: %w", name, released))
	}
	return true, err
}
