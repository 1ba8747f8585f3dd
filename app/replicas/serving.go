package replicas

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
)

const (
	// serveLease is the lease of the one process that works with a store.
	serveLease = "serve"
	// serveTTL is how long a process that died keeps the next one waiting. The lease is renewed
	// serveBeats times meanwhile.
	serveTTL   = 6 * time.Second
	serveBeats = 6
)

// serving is a store in Redis of which this process is the only user, by a lease. What the process
// has in memory is what only it writes. While it doesn't have the lease, nothing is begun and
// nothing is written; what was put under it is fenced by Redis itself.
type serving struct {
	*redis.Store
	ctx    context.Context // of the process, without its end
	holder string
	ttl    time.Duration // of the lease
	log    *slog.Logger

	mu    sync.Mutex
	lease store.Lease
	mark  store.Mark // of the moment when the lease was taken

	lost error // why the lease is kept no longer, once that is so before Close

	// Of keep: what ends it, and that it has ended.
	stop context.CancelFunc
	kept chan struct{}
}

var _ Records = (*serving)(nil)

// newServing is a store in Redis that is still to be taken.
func newServing(ctx context.Context, r *redis.Store, log *slog.Logger) (*serving, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return &serving{Store: r, ctx: context.WithoutCancel(ctx), ttl: serveTTL, holder: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString()), log: log}, nil
}

// take gets the lease. A process that was killed has it for a moment, which is waited for.
func (s *serving) take(ctx context.Context) error {
	told := false
	if err := s.alone(ctx); err != nil {
		return err
	}
	for until := time.Now().Add(s.ttl + s.ttl/serveBeats); ; {
		lease, err := s.Store.Acquire(ctx, serveLease, s.holder, s.ttl)
		switch {
		case err == nil:
			s.set(lease)
			return s.begin(ctx)
		case !errors.Is(err, store.ErrHeld):
			return err
		case errors.Is(err, redis.ErrLeasesLost):
			// That ends by itself, and a start anew would meet it again.
			until = time.Now().Add(s.ttl)
			if !told {
				s.log.InfoContext(ctx, "the store has lost leases, waiting until all of them must have ended")
				told = true
			}
		case time.Now().After(until):
			return fmt.Errorf("another process serves from this store already (%w): end it, or name another database or prefix of Redis", err)
		case !told:
			s.log.InfoContext(ctx, "the store is another process's still, waiting for its end", "error", err)
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.ttl / serveBeats / 4):
		}
	}
}

// alone refuses a store that replicas serve, which other processes may join at any moment.
func (s *serving) alone(ctx context.Context) error {
	list, err := members.List(ctx, s.Store)
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.Shared {
			return fmt.Errorf("replicas with --remote serve from this store (%d, one on %s), and a process without shares it with nobody: give it --remote, or name another database or prefix of Redis", len(list), m.Host)
		}
	}
	return nil
}

// begin frees what a former process held, and notes where the store stands.
func (s *serving) begin(ctx context.Context) error {
	// One that came before the lease was taken has seen none.
	if err := s.alone(ctx); err != nil {
		return err
	}
	left, err := s.Store.Leases(ctx, "")
	if err != nil {
		return err
	}
	for _, l := range left {
		if l.Name != serveLease {
			if err := s.Store.Release(ctx, l); err != nil {
				return err
			}
		}
	}
	s.mark, err = s.Store.Mark(ctx)
	return err
}

// Renew begins an epoch of Redis. It isn't called while run does its work.
func (s *serving) Renew(ctx context.Context) error {
	err := s.Store.Renew(ctx)
	if err == nil {
		s.mark, err = s.Mark(ctx)
	}
	return err
}

// during keeps the lease while f does its work.
func (s *serving) during(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var g sync.WaitGroup
	defer g.Wait()
	defer stop(nil)
	g.Go(func() {
		if err := s.run(ctx); err != nil {
			stop(err)
		}
	})
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// keep renews the lease from now on, until [serving.Close]: a start may take longer than the lease lasts, as one does
// that opens a large repository, or fetches packages from far away.
func (s *serving) keep() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(s.ctx)
	s.kept = make(chan struct{})
	go func() {
		defer close(s.kept)
		err := s.run(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost = err
	}()
}

// ended waits for the end of ctx, or until the lease can't be kept. Its error ends the process.
func (s *serving) ended(ctx context.Context) error {
	select {
	case <-s.kept:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lost
	case <-ctx.Done():
		return nil
	}
}

func (s *serving) set(l store.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = l
}

// mine returns the lease, or [store.ErrUnavailable] where it has ended: a start that fails by that says why.
func (s *serving) mine() (store.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		// In words alone: that another process has this lease doesn't say so of what is asked for under it.
		return s.lease, fmt.Errorf("%w: %s", store.ErrUnavailable, s.lost.Error())
	}
	if !time.Now().Before(s.lease.Expires) {
		return s.lease, fmt.Errorf("%w: the lease by which this process alone writes to it has ended, and Redis hasn't given it again", store.ErrUnavailable)
	}
	return s.lease, nil
}

// health returns why nothing may be begun.
func (s *serving) health() error {
	if s == nil {
		return nil
	}
	_, err := s.mine()
	return err
}

// run renews the lease until ctx ends. Its error ends the process: what it has in memory may no
// longer be what is stored.
func (s *serving) run(ctx context.Context) error {
	tick := time.NewTicker(s.ttl / serveBeats)
	defer tick.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := s.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded):
			if !away {
				s.log.ErrorContext(ctx, "the store can't be reached: nothing is begun until it can", "error", err)
			}
			away = true
		case err != nil:
			return err
		case away:
			s.log.InfoContext(ctx, "the store can be reached again")
			away = false
		}
	}
}

func (s *serving) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.ttl/2)
	defer cancel()
	known := s.Store.Known()
	mark, err := s.Store.Mark(ctx)
	if err != nil {
		return err
	}
	if mark.Epoch != s.mark.Epoch {
		return errors.New("the Redis has lost records that it had said were written: this process ends, as what it has in memory is no longer what is stored; start it again")
	}
	old, ended := s.mine()
	lease, err := s.Store.Acquire(ctx, serveLease, s.holder, s.ttl)
	switch {
	case errors.Is(err, store.ErrHeld) && ended == nil:
		return nil // it can't be so yet: Redis's clock runs ahead of this one
	case errors.Is(err, store.ErrHeld):
		return fmt.Errorf("another process serves from this store now, and this one ends: %w", err)
	case err != nil:
		return err
	case lease.Token != old.Token && mark.Put > known.Put:
		return errors.New("another process has written to the store while this one couldn't reach it: this one ends, as what it has in memory is no longer what is stored; start it again")
	}
	s.set(lease)
	return nil
}

// Put implements [store.Store]. It is made under the lease, unless it is made under another.
func (s *serving) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	lease, err := s.mine()
	if err != nil {
		return nil, err
	}
	if _, under := store.LeaseOf(ctx); !under {
		ctx = store.Under(ctx, lease)
	}
	return s.Store.Put(ctx, recs...)
}

// Acquire implements [store.Store].
func (s *serving) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if _, err := s.mine(); err != nil {
		return store.Lease{}, fmt.Errorf("acquire lease %q: %w", name, err)
	}
	return s.Store.Acquire(ctx, name, holder, ttl)
}

// Attach implements [store.Store].
func (s *serving) Attach(ctx context.Context, name string, session store.Lease) (store.Lease, error) {
	if _, err := s.mine(); err != nil {
		return store.Lease{}, fmt.Errorf("attach lease %q: %w", name, err)
	}
	return s.Store.Attach(ctx, name, session)
}

// Close implements [store.Store]. The next process need not wait.
func (s *serving) Close() error {
	if s.stop != nil {
		s.stop()
		<-s.kept
	}
	s.mu.Lock()
	lease := s.lease
	s.mu.Unlock()
	if lease.Token != 0 {
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl/serveBeats)
		defer cancel()
		if err := s.Store.Release(ctx, lease); err != nil {
			s.log.Warn("the store's lease is not given back, the next process waits for its end", "error", err)
		}
	}
	return s.Store.Close()
}
