package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/store"
)

// ErrLeasesLost is returned by Acquire and Attach after Redis has lost leases, for as long as the longest of them
// may have lasted. It wraps [store.ErrHeld].
var ErrLeasesLost = fmt.Errorf("the Redis has lost leases, whose holders may still be at work for as long as these lasted: %w", store.ErrHeld)

// Acquire implements [store.Store]. The lease ends by Redis's clock; Expires is counted from
// before Redis was asked, by this machine's, and is therefore earlier.
func (s *Store) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if !lasting(name) || holder == "" || ttl <= 0 {
		return store.Lease{}, fmt.Errorf("acquire lease %q for %q: a lease needs a name of one line, a holder and a time to live", name, holder)
	}
	// Noted first: Redis may give the lease, and its answer be lost.
	s.known.lasts(ttl)
	began := time.Now()
	answer, err := s.lease(ctx, s.scripts.acquire, func() []any {
		began = time.Now()
		return []any{name, holder, max(ttl.Microseconds(), 1)}
	})
	if err != nil {
		return store.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	return store.Lease{Name: name, Holder: holder, Token: number(answer[1]), Expires: began.Add(ttl)}, nil
}

// Attach implements [store.Store].
func (s *Store) Attach(ctx context.Context, name string, session store.Lease) (store.Lease, error) {
	if !lasting(name) || name == session.Name || session.Session != "" {
		return store.Lease{}, fmt.Errorf("attach lease %q to %q: a lease needs a name of one line and a session, which is a lease that was acquired", name, session.Name)
	}
	var began time.Time
	answer, err := s.lease(ctx, s.scripts.attach, func() []any {
		began = time.Now()
		return []any{name, session.Name, session.Holder, session.Token}
	})
	if err != nil {
		return store.Lease{}, fmt.Errorf("attach lease %q to %q: %w", name, session.Name, err)
	}
	return store.Lease{Name: name, Holder: session.Holder, Token: number(answer[1]), Session: session.Name, Expires: began.Add(micros(answer[2]))}, nil
}

func lasting(name string) bool { return name != "" && !strings.Contains(name, "\n") }

func micros(text string) time.Duration { return time.Duration(number(text)) * time.Microsecond }

// lease runs a script that gives leases. args are asked for before each try.
func (s *Store) lease(ctx context.Context, script *redis.Script, args func() []any) ([]string, error) {
	var answer []string
	err := s.repeat(ctx, func() (err error) {
		for range tries {
			epoch, _ := s.known.place()
			answer, err = script.Run(ctx, s.client, []string{s.keys.state, s.keys.leases, s.keys.attached}, append([]any{epoch}, args()...)...).StringSlice()
			if err != nil || len(answer) == 0 || answer[0] != "epoch" {
				return err
			}
			if _, err = s.meet(ctx); err != nil {
				return err
			}
		}
		return errors.New("its epoch changes all the time")
	})
	if err != nil {
		return nil, err
	}
	switch answer[0] {
	case "held":
		left := ""
		if len(answer) > 2 {
			left = ", for another " + micros(answer[2]).Round(time.Millisecond).String() + " unless it is renewed"
		}
		return nil, fmt.Errorf("by %s%s: %w", answer[1], left, store.ErrHeld)
	case "waits":
		return nil, ErrLeasesLost
	case "fenced":
		return nil, fmt.Errorf("the session has ended: %w", store.ErrFenced)
	}
	s.known.given(number(answer[1]))
	return answer, nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	err := s.repeat(ctx, func() error {
		return s.scripts.release.Run(ctx, s.client, []string{s.keys.state, s.keys.leases, s.keys.attached}, l.Name, l.Holder, l.Token).Err()
	})
	if err != nil {
		return fmt.Errorf("release lease %q: %w", l.Name, err)
	}
	return nil
}

// Leases implements [store.Store].
func (s *Store) Leases(ctx context.Context, prefix string) ([]store.Lease, error) {
	var found []string
	var began time.Time
	err := s.repeat(ctx, func() (err error) {
		began = time.Now()
		found, err = s.scripts.held.Run(ctx, s.client, []string{s.keys.state, s.keys.leases}, prefix).StringSlice()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("leases %q: %w", prefix, err)
	}
	var out []store.Lease
	for i := 0; i+3 < len(found); i += 4 {
		out = append(out, store.Lease{Name: found[i], Holder: found[i+1], Token: number(found[i+2]), Expires: began.Add(micros(found[i+3]))})
	}
	slices.SortFunc(out, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
