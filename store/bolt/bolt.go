// Package bolt keeps the store in one bbolt file. It is the store of a single
// process: bbolt locks the file, and a second process is refused.
//
// One goroutine writes. While it waits for the disk, the Puts of all others
// queue; then it takes all of them into the next transaction, each still all or
// none. Nothing waits for a timer: an idle store answers a Put after one fsync,
// a busy one shares each fsync among all Puts that queued for it.
//
// It doesn't know what the values mean.
package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
)

// buckets names the two bbolt buckets. records are by key; counters hold the last
// number given under a prefix.
type buckets struct{ records, counters []byte }

var _ store.Store = (*Store)(nil)

// errAbsent is the error of an existing file without one of the buckets.
var errAbsent = errors.New("a part of the file is missing")

const (
	// lockTimeout is how long Open waits by default while another process has the file.
	lockTimeout = time.Second
	// maxBatch is how many writes one transaction takes at most, so that no caller waits
	// long for the others' data.
	maxBatch = 1024
)

// Store is a [store.Store] in a file.
type Store struct {
	path  string
	db    *bolt.DB
	names buckets
	now   func() time.Time
	queue chan *call
	done  chan struct{} // closed when the writer goroutine has ended
	last  atomic.Pointer[outcome]
	// observe is told how long each read and write took; nil where nobody listens.
	observe func(operation string, took time.Duration)
	// locked is how long to wait while another process has the file.
	locked time.Duration

	touched atomic.Int64 // see trim

	leases leases
	feed   feed

	mu     sync.RWMutex // held for reading by each call, for writing by Close
	closed bool
}

// call is one write waiting for the writer goroutine.
type call struct {
	// apply does the write in tx. It must check everything before it writes, so that tx is
	// unchanged when it returns an error.
	apply  func(tx *bolt.Tx) error
	stored []store.Record // what apply wrote
	err    error
	done   chan struct{}
}

// Option changes how a Store works.
type Option func(*Store)

// WithClock makes leases expire by now instead of the machine's clock.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// WithLockTimeout makes Open wait up to d, instead of a second, for another process that
// has the file.
func WithLockTimeout(d time.Duration) Option { return func(s *Store) { s.locked = d } }

// The operations that an observer is told of.
const (
	View   = "view"   // a read transaction
	Update = "update" // a write, from the call until it is durable
)

// WithObserver has f called after each [View] and [Update], whether or not it succeeded. f must
// not block.
func WithObserver(f func(operation string, took time.Duration)) Option {
	return func(s *Store) { s.observe = f }
}

// observed tells the observer of what began at a time.
func (s *Store) observed(operation string, began time.Time) {
	if s.observe != nil {
		s.observe(operation, time.Since(began))
	}
}

// Open opens the file at path, or creates it (mode 0600). It fails after a second
// if another process has the file, and at once if the file is damaged.
func Open(path string, options ...Option) (*Store, error) {
	s := &Store{
		path:  path,
		names: buckets{[]byte("records"), []byte("counters")},
		now:   time.Now, locked: lockTimeout,
		queue: make(chan *call, maxBatch),
		done:  make(chan struct{}),
	}
	for _, o := range options {
		o(s)
	}
	var err error
	if s.db, err = openFile(path, s.locked); err != nil {
		return nil, err
	}
	if err := guard(path, s.prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: %w", path, err), s.db.Close())
	}
	s.leases = leases{held: make(map[string]held), last: uint64(s.now().UnixNano())}
	s.feed = newFeed(s.leases.last)
	go s.write()
	return s, nil
}

// prepare creates the buckets of a new file, and reads enough of an existing one to know
// that it isn't damaged.
func (s *Store) prepare() error {
	sound := false
	if err := s.db.View(func(tx *bolt.Tx) error {
		found := 0
		for _, name := range [][]byte{s.names.records, s.names.counters} {
			if tx.Bucket(name) != nil {
				found++
			}
		}
		sound = found == 2
		if found == 1 {
			return corrupt(s.path, errAbsent)
		}
		return nil
	}); err != nil || sound {
		return err
	}
	return s.db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{s.names.records, s.names.counters} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close waits for calls under way and closes the file. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.done
		return nil
	}
	s.closed = true
	close(s.queue)
	s.mu.Unlock()
	<-s.done
	if err := guard(s.path, func() error { return closeFile(s.db) }); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) (store.Record, error) {
	var rec store.Record
	err := s.view(ctx, func(tx *bolt.Tx) error {
		v := tx.Bucket(s.names.records).Get([]byte(key))
		if v == nil {
			return store.ErrNotFound
		}
		var err error
		rec, err = decode(key, v)
		return err
	})
	if err != nil {
		return store.Record{}, fmt.Errorf("get %q: %w", key, err)
	}
	return rec, nil
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Record, error) {
	var recs []store.Record
	err := s.view(ctx, func(tx *bolt.Tx) error {
		defer func() {
			if len(recs) >= longList {
				advise(tx, readAlone)
			}
		}()
		c := tx.Bucket(s.names.records).Cursor()
		k, v := c.Seek([]byte(max(prefix, after)))
		if k != nil && string(k) == after {
			k, v = c.Next()
		}
		for ; k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
			if limit > 0 && len(recs) == limit {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			rec, err := decode(string(k), v)
			if err != nil {
				return err
			}
			recs = append(recs, rec)
			s.touched.Add(1)
			if len(recs) == longList {
				advise(tx, readAhead)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	return recs, nil
}

// view runs f in a read transaction, which never waits for the writer.
func (s *Store) view(ctx context.Context, f func(tx *bolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.observe != nil {
		defer s.observed(View, time.Now())
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(s.path, fmt.Errorf("%v", r))
		}
	}()
	return s.db.View(func(tx *bolt.Tx) error {
		defer s.trim(tx)
		return f(tx)
	})
}

// Put implements [store.Store].
func (s *Store) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	if len(recs) == 0 {
		return nil, nil
	}
	if err := store.Check(recs); err != nil {
		return nil, fmt.Errorf("put: %w", err)
	}
	if s.observe != nil {
		defer s.observed(Update, time.Now())
	}
	var stored []store.Record
	c := &call{done: make(chan struct{})}
	c.apply = func(tx *bolt.Tx) error {
		if err := s.fence(ctx); err != nil {
			return err
		}
		var err error
		stored, err = s.put(tx, recs)
		c.stored = stored
		return err
	}
	if err := s.submit(ctx, c); err != nil {
		return nil, fmt.Errorf("put %q: %w", recs[0].Key, err)
	}
	return stored, nil
}

// put compares all records before it writes any, so that a conflict doesn't change the
// transaction, which it shares with other writes.
func (s *Store) put(tx *bolt.Tx, recs []store.Record) ([]store.Record, error) {
	b := tx.Bucket(s.names.records)
	for _, r := range recs {
		if r.Completed() {
			continue
		}
		var have uint64
		if v := b.Get([]byte(r.Key)); v != nil {
			old, err := decode(r.Key, v)
			if err != nil {
				return nil, err
			}
			have = old.Version
		}
		if have != r.Version {
			return nil, fmt.Errorf("%q has version %d, not %d: %w", r.Key, have, r.Version, store.ErrConflict)
		}
	}
	out := make([]store.Record, len(recs))
	counters := tx.Bucket(s.names.counters)
	removed := counter(counters, []byte(removedVersion))
	highest := removed
	for i, r := range recs {
		switch {
		case r.Delete && r.Version > 0:
			highest = max(highest, r.Version+1)
		case r.Version == 0 && !r.Completed() && !r.Delete:
			r.Version = removed
		}
		if r.Completed() {
			n, err := s.count(tx, []byte(r.Key))
			if err != nil {
				return nil, err
			}
			r.Key = fmt.Sprintf("%s%0*d", r.Key, store.Digits, n)
		}
		r.Version++
		out[i] = r
		s.touched.Add(1)
		var err error
		if r.Delete {
			err = b.Delete([]byte(r.Key))
		} else {
			err = b.Put([]byte(r.Key), encode(r))
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w: %w", r.Key, errHalfway, err)
		}
	}
	if highest > removed {
		if err := counters.Put([]byte(removedVersion), binary.BigEndian.AppendUint64(nil, highest)); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", removedVersion, errHalfway, err)
		}
	}
	return out, nil
}

// removedVersion names the counter that holds the greatest version which a record had when it was
// removed: what is made later begins above it. One number for all keys, so that nothing is kept
// of each that is gone. The names of the others end in "/", but for least.
const removedVersion = "removed"

// count returns the next number under prefix. The counter outlives the records, so that no
// number is used twice.
func (s *Store) count(tx *bolt.Tx, prefix []byte) (uint64, error) {
	b := tx.Bucket(s.names.counters)
	n := max(counter(b, prefix), counter(b, []byte(least))) + 1
	if err := b.Put(prefix, binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return 0, fmt.Errorf("count %q: %w: %w", prefix, errHalfway, err)
	}
	return n, nil
}

// least is the name of a counter that all others begin behind. It is no prefix, as those end in "/".
const least = "least"

func counter(b *bolt.Bucket, name []byte) (n uint64) {
	if v := b.Get(name); len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	return n
}

// CountFrom has the numbers that complete keys be greater than n from now on, as those are that
// another store gave whose records were copied into this one.
func (s *Store) CountFrom(ctx context.Context, n uint64) error {
	c := &call{done: make(chan struct{})}
	c.apply = func(tx *bolt.Tx) error {
		b := tx.Bucket(s.names.counters)
		if counter(b, []byte(least)) >= n {
			return nil
		}
		if err := b.Put([]byte(least), binary.BigEndian.AppendUint64(nil, n)); err != nil {
			return fmt.Errorf("count from %d: %w: %w", n, errHalfway, err)
		}
		return nil
	}
	return s.submit(ctx, c)
}

// encode puts the version, 8 bytes, before the value.
func encode(r store.Record) []byte {
	b := make([]byte, 8, 8+len(r.Value))
	binary.BigEndian.PutUint64(b, r.Version)
	return append(b, r.Value...)
}

// decode copies: bbolt's memory is valid only within the transaction.
func decode(key string, b []byte) (store.Record, error) {
	if len(b) < 8 {
		return store.Record{}, fmt.Errorf("record %q is damaged: %d bytes", key, len(b))
	}
	return store.Record{Key: key, Version: binary.BigEndian.Uint64(b), Value: bytes.Clone(b[8:])}, nil
}
