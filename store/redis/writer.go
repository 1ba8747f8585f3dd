package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/store"
)

const (
	// maxBatch is how many Puts go out together at most, and maxBytes about how large they are.
	maxBatch = 256
	maxBytes = 4 << 20
	// kept is about how many changes Redis keeps for those who follow.
	kept = 100_000
	// patience is how long a Put is tried again whose answer was lost, or that came while
	// Redis was starting. While Redis is known to be away, each is tried once.
	patience = 2 * time.Second
	// replicaTime is how long replicas may take to have a Put.
	replicaTime = 2 * time.Second
)

// call is one Put waiting for the writer goroutine.
type call struct {
	recs  []store.Record
	lease store.Lease // that it is under; its zero value is none
	size  int
	// by tells the Put from all others. since is where in the changes a former try of it would
	// be, "" where there was none.
	by, since string

	reply  *redis.Cmd
	stored []store.Record
	err    error
	done   chan struct{}
}

// Put implements [store.Store]. Once the Put is queued it waits for its outcome even if ctx ends.
func (s *Store) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if len(recs) == 0 {
		return nil, nil
	}
	if err := store.Check(recs); err != nil {
		return nil, fmt.Errorf("put: %w", err)
	}
	if s.Observe != nil {
		defer func(began time.Time) { s.Observe(Update, time.Since(began)) }(time.Now())
	}
	c := &call{recs: recs, done: make(chan struct{})}
	c.lease, _ = store.LeaseOf(ctx)
	for _, r := range recs {
		c.size += len(r.Key) + len(r.Value)
	}
	if err := s.submit(ctx, c); err != nil {
		return nil, fmt.Errorf("put %q: %w", recs[0].Key, err)
	}
	return c.stored, nil
}

func (s *Store) submit(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return store.ErrClosed
	}
	select {
	case s.queue <- c:
		s.mu.RUnlock()
	case <-ctx.Done():
		s.mu.RUnlock()
		return ctx.Err()
	}
	<-c.done
	return c.err
}

// write is the writer goroutine: it sends all Puts that wait in one go, answers them, and begins
// again. Redis writes its file once for all that came together.
func (s *Store) write() {
	defer close(s.done)
	for first := range s.queue {
		batch, size := []*call{first}, first.size
	gather:
		for len(batch) < maxBatch && size < maxBytes {
			select {
			case c, ok := <-s.queue:
				if !ok {
					break gather
				}
				batch, size = append(batch, c), size+c.size
			default:
				break gather
			}
		}
		s.commit(batch)
		for _, c := range batch {
			close(c.done)
		}
	}
}

// commit sends the batch until each Put has an outcome, or patience ends.
func (s *Store) commit(batch []*call) {
	for _, c := range batch {
		s.puts++
		c.by = fmt.Sprintf("%s/%d", s.self, s.puts)
	}
	until := time.Now().Add(patience)
	if _, err := s.LastWrite(); err != nil {
		until = time.Now()
	}
	pending := batch
	for {
		again, err := s.send(pending)
		if err == nil {
			s.last.Store(&outcome{at: time.Now()})
			return
		}
		if len(again) == 0 || time.Now().After(until) {
			s.last.Store(&outcome{at: time.Now(), err: s.failure(s.work, err)})
			for _, c := range again {
				c.err = s.lost(c, c.err)
			}
			return
		}
		pending = again
		s.round++ // what a lost connection may still bring is refused
		time.Sleep(pause)
	}
}

// lost is the error of a Put that wasn't answered.
func (s *Store) lost(c *call, err error) error {
	state := "nothing was written"
	if c.since != "" {
		state = "it isn't known whether it was written"
	}
	return fmt.Errorf("%s: %w", state, s.failure(s.work, err))
}

// send sends Puts and reads the answers. It returns those that have no outcome yet, with their
// errors, and the last error that wasn't a Put's own.
func (s *Store) send(batch []*call) (again []*call, last error) {
	epoch, put := s.known.place()
	pipe := s.client.Pipeline()
	for _, c := range batch {
		if s.cluster && c.since == "" {
			// The library sends it again itself where a node is away.
			c.since = entryID(epoch, put+1)
		}
		c.reply = s.scripts.put.EvalSha(s.work, pipe, s.putKeys(c), s.putArgs(c, epoch, put)...)
	}
	var replicas *redis.Cmd
	if s.Replicas > 0 {
		replicas = pipe.Do(s.work, "WAIT", s.Replicas, replicaTime.Milliseconds())
	}
	_, _ = pipe.Exec(s.work) // each command has its own error
	var short error
	if replicas != nil {
		if n, err := replicas.Int64(); err != nil || n < int64(s.Replicas) {
			short = fmt.Errorf("%w: it isn't known whether replicas of Redis have it: %d of %d said so within %s", store.ErrUnavailable, n, s.Replicas, replicaTime)
		}
	}
	for _, c := range batch {
		answer, err := c.reply.StringSlice()
		c.err = err
		switch {
		case err == nil:
			if c.err = s.answered(c, answer); c.err == nil && short != nil {
				c.err, last = short, short
			}
		case strings.HasPrefix(err.Error(), "NOSCRIPT"):
			if _, lerr := s.scripts.put.Load(s.work, s.client).Result(); lerr != nil {
				c.err = lerr
			}
			again, last = append(again, c), c.err
		case refused(err) && !passing(err):
			c.err = s.lost(c, err)
			last = err
		default:
			if !refused(err) && !undialed(err) && c.since == "" {
				c.since = entryID(epoch, put+1)
			}
			again, last = append(again, c), err
		}
	}
	return again, last
}

// undialed says whether an error came before anything was sent.
func undialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func (s *Store) putKeys(c *call) []string {
	k := []string{s.keys.state, s.keys.index, s.keys.counters, s.keys.changes, s.keys.leases, s.keys.attached, s.keys.senders}
	for _, r := range c.recs {
		if !r.Completed() {
			k = append(k, s.keys.records+r.Key)
		}
	}
	return k
}

func (s *Store) putArgs(c *call, epoch, put uint64) []any {
	args := []any{epoch, put, c.by, c.since, kept, s.keys.records, c.lease.Name, c.lease.Holder, c.lease.Token, s.self, s.round}
	for _, r := range c.recs {
		have, content := "", ""
		if r.Version > 0 {
			have = encode(r.Version, nil)
		}
		if !r.Delete {
			content = encode(r.Version+1, r.Value)
		}
		args = append(args, r.Key, have, content)
	}
	return args
}

// answered takes note of what the script said of a Put.
func (s *Store) answered(c *call, answer []string) error {
	if len(answer) == 0 {
		return errors.New("the Redis gave no answer that is known")
	}
	switch answer[0] {
	case "put":
		s.known.put(number(answer[1]))
		told := parseChanges(answer[2])
		c.stored = make([]store.Record, len(c.recs))
		for i, r := range c.recs {
			r.Key = told[i].Key
			if r.Version++; !r.Delete {
				r.Version = told[i].Version
			}
			c.stored[i] = r
		}
		return nil
	case "conflict":
		var have uint64
		if r, err := decode(answer[1], []byte(answer[2])); err == nil {
			have = r.Version
		}
		return fmt.Errorf("%q has version %d: %w", answer[1], have, store.ErrConflict)
	case "fenced":
		if s.Fenced != nil {
			s.Fenced()
		}
		return fmt.Errorf("lease %q of %s: %w", c.lease.Name, c.lease.Holder, store.ErrFenced)
	case "epoch":
		if _, err := s.meet(s.work); err != nil {
			return s.lost(c, err)
		}
		if c.since != "" && !s.cluster {
			return s.lost(c, errors.New("it has lost the newest Puts"))
		}
		return fmt.Errorf("the Redis has lost Puts, what was read before must be read again: %w", store.ErrConflict)
	}
	return s.lost(c, errors.New("too much was put since"))
}
