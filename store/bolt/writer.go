package bolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
)

// submit hands a write to the writer goroutine and waits until it is durable. Once the write
// is queued, submit waits for it even if ctx ends, so that the caller always gets its
// outcome.
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

// write is the writer goroutine: it takes all queued writes, commits them with one fsync,
// answers all of them, and begins again.
func (s *Store) write() {
	defer close(s.done)
	last := 0 // how many writes the transaction before took
	for {
		first, ok := <-s.queue
		if !ok {
			return
		}
		batch := s.gather([]*call{first})
		if last >= crowd && len(batch) <= last/2 {
			// Those that the last transaction answered are about to write again: to begin at
			// once would leave them to a transaction of their own, which costs as much.
			time.Sleep(crowdPause)
			batch = s.gather(batch)
		}
		last = len(batch)
		s.commit(batch)
		for _, c := range batch {
			close(c.done)
		}
	}
}

// A transaction that comes right after a large one waits a moment for company.
const (
	crowd      = 8
	crowdPause = 500 * time.Microsecond
)

// gather adds the writes that wait.
func (s *Store) gather(batch []*call) []*call {
	for len(batch) < maxBatch {
		select {
		case c, ok := <-s.queue:
			if !ok {
				return batch
			}
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// errHalfway marks a failure in the middle of a call's writes, after which the
// transaction can't be used. Every other failure came before the call wrote.
var errHalfway = errors.New("write failed half-way")

// commit puts the batch into one transaction. A call that refuses (a conflict)
// fails alone. If the disk fails, all others fail and nothing was written.
func (s *Store) commit(batch []*call) {
	err := s.show(batch)
	if err == nil {
		s.last.Store(&outcome{at: time.Now()})
		return
	}
	if noRoom(err) {
		err = fmt.Errorf("the disk is full, nothing was written: make room in %s: %w", filepath.Dir(s.path), err)
	} else {
		err = fmt.Errorf("nothing was written to %s: %w", s.path, err)
	}
	s.last.Store(&outcome{at: time.Now(), err: err})
	for _, c := range batch {
		if c.err == nil || errors.Is(c.err, errHalfway) {
			c.err = err
		}
	}
}

// show makes the transaction, and tells of it before anybody gets a Mark again.
func (s *Store) show(batch []*call) error {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	err := s.update(func(tx *bolt.Tx) error {
		for _, c := range batch {
			if c.err = c.apply(tx); errors.Is(c.err, errHalfway) {
				return c.err
			}
		}
		return nil
	})
	if err == nil {
		s.feed.add(batch)
	}
	return err
}

// noRoom says whether the disk is full. It also looks at the text, as bbolt doesn't wrap the
// system's error when the file can't grow.
func noRoom(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

func (s *Store) update(f func(tx *bolt.Tx) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(s.path, fmt.Errorf("%v", r))
		}
	}()
	return s.db.Update(func(tx *bolt.Tx) error {
		defer s.trim(tx)
		return f(tx)
	})
}
