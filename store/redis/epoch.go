package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/store"
)

// known is what this process knows of Redis: what it was told, and can therefore miss.
type known struct {
	mu    sync.Mutex
	mark  store.Mark
	token uint64
	run   string        // of Redis, as it was met last
	ttl   time.Duration // of the longest lease that was asked for
}

// place returns the newest Mark that is known.
func (k *known) place() (epoch, put uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mark.Epoch, k.mark.Put
}

// put notes the number of a Put of the present epoch.
func (k *known) put(n uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mark.Put = max(k.mark.Put, n)
}

// given notes the token of a lease.
func (k *known) given(token uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token = max(k.token, token)
}

// lasts notes for how long a lease may last.
func (k *known) lasts(ttl time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ttl = max(k.ttl, ttl)
}

// Known returns the place of the newest Put that this process knows of, without asking Redis.
func (s *Store) Known() store.Mark {
	epoch, put := s.known.place()
	return store.Mark{Epoch: epoch, Put: put}
}

// epochs begin with the seconds since then: meet.lua.
const epochs = 1577836800

// Began is when the present epoch began, as far as this process knows: when the store was used first, or
// last found not to have all that it had answered. It doesn't ask Redis.
func (s *Store) Began() time.Time {
	epoch, _ := s.known.place()
	return time.Unix(epochs+int64(epoch), 0)
}

// node is what [Store.meet] needs of a connection.
type node interface {
	redis.Scripter
	Info(ctx context.Context, sections ...string) *redis.StringCmd
}

// connected compares a new connection's Redis with what is known, before it is used. It may be
// another Redis than before, or the same that was started from an older file.
func (s *Store) connected(ctx context.Context, cn *redis.Conn) error {
	m, err := s.meetOn(ctx, cn)
	switch {
	case err != nil && !strings.HasPrefix(err.Error(), "MOVED "):
		return err
	case err != nil || m == store.Mark{}: // another node of the cluster, a sentinel
		return nil
	}
	// A Redis that was started again has forgotten the scripts.
	return s.scripts.put.Load(ctx, cn).Err()
}

// meet does so again, where Redis doesn't have what is known.
func (s *Store) meet(ctx context.Context) (store.Mark, error) {
	n, err := s.master(ctx)
	if err != nil {
		return store.Mark{}, err
	}
	return s.meetOn(ctx, n)
}

// master is the Redis that has the records.
func (s *Store) master(ctx context.Context) (node, error) {
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, s.keys.state)
	case node:
		return c, nil
	}
	return nil, errors.ErrUnsupported
}

// Renew begins an epoch: whatever was read before says nothing about what is stored from now on, and
// no number that was given comes again, here or in a store whose records are put here. It is for who
// puts the records of another time into Redis, while nobody else works with them.
func (s *Store) Renew(ctx context.Context) error {
	err := s.repeat(ctx, func() error {
		n, err := s.master(ctx)
		if err != nil {
			return err
		}
		_, err = s.meetKnowing(ctx, n, 1)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin an epoch: %w", err)
	}
	return nil
}

// LastNumber is one that no number is greater than which completes a key in the present epoch.
func (s *Store) LastNumber() uint64 {
	epoch, _ := s.known.place()
	return epoch*numbers + numbers - 1
}

// numbers is how many numbers complete keys in an epoch: put.lua has ten digits for them.
const numbers = 10_000_000_000

func (s *Store) meetOn(ctx context.Context, n node) (store.Mark, error) {
	return s.meetKnowing(ctx, n, 0)
}

// meetKnowing is meetOn for who claims to know of a number of epochs more than it does.
func (s *Store) meetKnowing(ctx context.Context, n node, more uint64) (store.Mark, error) {
	text, err := n.Info(ctx, "server").Result()
	if err != nil {
		return store.Mark{}, err
	}
	info := parseInfo(text)
	if info["redis_mode"] == "sentinel" { // the library asks it where the master is
		return store.Mark{}, nil
	}
	run := info["run_id"]
	if run == "" {
		return store.Mark{}, errors.New("it doesn't tell its run_id (INFO server)")
	}
	k := &s.known
	k.mu.Lock()
	args := []any{k.mark.Epoch + more, k.mark.Put, k.token, k.run, run, k.ttl.Microseconds(), kept}
	if more > 0 {
		args[5] = 0 // nobody's lease was lost
	}
	k.mu.Unlock()
	answer, err := s.scripts.meet.Run(ctx, n, []string{s.keys.state, s.keys.runs, s.keys.changes}, args...).StringSlice()
	if err != nil {
		return store.Mark{}, err
	}
	if len(answer) != 2 {
		return store.Mark{}, fmt.Errorf("answer %q to what is known", answer)
	}
	m := store.Mark{Epoch: number(answer[0]), Put: number(answer[1])}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run = run
	if k.mark.Before(m) {
		k.mark = m
	}
	return m, nil
}

// parseInfo reads the answer to INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}
