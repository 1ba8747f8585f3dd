// Package redis keeps the store in Redis (7 or newer) or Valkey, so that several processes can
// share it.
//
// What must be true at one moment is one Lua script: the versions of all records of a Put, the
// lease that it is made under, and the epoch that its client knows are compared, and the records
// are written, in one run. Puts that wait for an answer of Redis queue up, and go out together.
//
// All keys begin with one hash tag, so that a cluster keeps them in one place:
//
//	{jibe}:r:KEY      a record: its version, 8 bytes, and its value
//	{jibe}:index      the keys of all records, in order
//	{jibe}:counters   the last number given under each prefix
//	{jibe}:changes    a stream of the newest Puts, whose ids are epoch-number
//	{jibe}:leases     leases that were acquired; {jibe}:attached those that last with one of them
//	{jibe}:state      the epoch, the number of the last Put, the last token, the run of Redis
//	{jibe}:senders    who has sent Puts again, and how often
//	{jibe}:runs       the last Put of each earlier run of Redis that was kept
//
// Redis may lose what it had answered: by a failover to a replica that lacks it, by a restart from
// an older file, by being emptied. Every connection is therefore compared with what the process
// knows before it is used (epoch.go).
//
// It doesn't know what the values mean.
package redis

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/jibe-vnfm/jibe/store"
)

var _ store.Store = (*Store)(nil)

const (
	// DefaultPrefix is the hash tag under which the keys are.
	DefaultPrefix = "jibe"
)

// The operations that an observer is told of.
const (
	View   = "view"   // a read
	Update = "update" // a Put, from the call until Redis has answered
)

// Options say where Redis is, and how it is used.
type Options struct {
	// URL is redis://[USER@]HOST:PORT[/DB], rediss:// with TLS, redis+sentinel://HOST:PORT,…[/DB]?master=NAME,
	// redis+cluster://HOST:PORT,…, or unix:///PATH[?db=N]. Parameters: prefix (the keys' hash tag),
	// ca, cert, key (files in PEM), sentinel-user. A password in it is refused.
	URL string
	// Password is that of the URL's user, or of Redis's default user. SentinelPassword is that
	// of the sentinels.
	Password, SentinelPassword string
	// Replicas is how many replicas of Redis must have a Put before it is answered.
	Replicas int
	// Observe is called after each [View] and [Update], whether or not it succeeded. It must not
	// block. nil is nobody.
	Observe func(operation string, took time.Duration)
	// Fenced is called for each Put that is refused as the lease that it is made under was lost. It
	// must not block. nil is nobody.
	Fenced func()
}

// Store is a [store.Store] in Redis.
type Store struct {
	Options
	client  redis.UniversalClient
	cluster bool
	keys    keys
	scripts scripts
	name    string // for messages: where Redis is, without a secret
	plain   bool   // the way there isn't encrypted
	self    string // tells this Store's Puts from others'
	// puts is how many Puts began, and round how often some were sent again; both are the
	// writer goroutine's.
	puts, round uint64

	work  context.Context // what the goroutines live in
	stop  context.CancelFunc
	queue chan *call
	done  chan struct{} // closed when the writer goroutine has ended
	last  atomic.Pointer[outcome]
	known known
	tail  tail

	mu     sync.RWMutex // held for reading by each call, for writing by Close
	closed bool
}

// keys are the names of what is in Redis.
type keys struct {
	records                                                                      string // a prefix
	state, runs, index, counters, changes, leases, attached, senders, writeProbe string
}

func newKeys(tag string) keys {
	p := "{" + tag + "}:"
	return keys{
		records: p + "r:", state: p + "state", runs: p + "runs", index: p + "index", counters: p + "counters",
		changes: p + "changes", leases: p + "leases", attached: p + "attached", senders: p + "senders", writeProbe: p + "probe",
	}
}

// Open connects to Redis, and fails with [store.ErrUnavailable] where that can't be done.
func Open(ctx context.Context, o Options) (*Store, error) {
	at, err := parse(o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		Options: o, cluster: at.IsClusterMode, keys: newKeys(at.prefix), scripts: newScripts(), name: at.name, plain: at.plain, self: uuid.NewString(),
		queue: make(chan *call, maxBatch), done: make(chan struct{}), tail: newTail(),
	}
	if s.cluster && o.Replicas > 0 {
		return nil, fmt.Errorf("store %s: waiting for replicas isn't possible in a cluster: have its nodes refuse writes instead (min-replicas-to-write)", s.name)
	}
	// What the library logs is in the errors of calls, too.
	redis.SetLogger(&logging.VoidLogger{})
	s.work, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	at.OnConnect = s.connected
	s.client = redis.NewUniversalClient(&at.UniversalOptions)
	if _, err := s.meet(ctx); err != nil {
		s.stop()
		return nil, errors.Join(fmt.Errorf("store: %w", s.failure(ctx, err)), s.client.Close())
	}
	go s.write()
	return s, nil
}

// Close waits for calls under way and ends the connections. It may be called twice.
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
	s.stop()
	err := s.client.Close()
	s.tail.wait()
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.name, err)
	}
	return nil
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) (store.Record, error) {
	var content []byte
	err := s.view(ctx, func() (err error) {
		content, err = s.client.Get(ctx, s.keys.records+key).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Record{}, fmt.Errorf("get %q: %w", key, err)
	}
	return decode(key, content)
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]store.Record, error) {
	least := "[" + prefix
	if after != "" && after >= prefix {
		least = "(" + after
	}
	if limit <= 0 {
		limit = -1
	}
	var found []string
	err := s.view(ctx, func() (err error) {
		// No key has the byte 0xff: keys are UTF-8.
		found, err = s.scripts.list.Run(ctx, s.client, []string{s.keys.index}, s.keys.records, least, "("+prefix+"\xff", limit).StringSlice()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	recs := make([]store.Record, 0, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		r, err := decode(found[i], []byte(found[i+1]))
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", prefix, err)
		}
		recs = append(recs, r)
	}
	return recs, nil
}

// view does a read.
func (s *Store) view(ctx context.Context, f func() error) error {
	if s.Observe != nil {
		defer func(began time.Time) { s.Observe(View, time.Since(began)) }(time.Now())
	}
	return s.repeat(ctx, f)
}

// How often a call is tried that may be repeated, and how long it waits before it is tried again.
const (
	tries = 3
	pause = 50 * time.Millisecond
)

// repeat makes a call that may be made again where its answer was lost. It returns
// [store.ErrUnavailable] where Redis doesn't answer, and [store.ErrClosed] after Close.
func (s *Store) repeat(ctx context.Context, f func() error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.closed {
			return store.ErrClosed
		}
		err := f()
		if err == nil || errors.Is(err, redis.Nil) {
			return err
		}
		if refused(err) && !passing(err) || try == tries {
			return s.failure(ctx, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause << try):
		}
	}
}

// failure is the error of a call that Redis didn't do. It holds no secret: a command's error
// names neither its arguments nor the password.
func (s *Store) failure(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, store.ErrUnavailable):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, redis.ErrClosed):
		return store.ErrClosed
	}
	return fmt.Errorf("%w: Redis at %s: %w", store.ErrUnavailable, s.name, err)
}

// refused says whether Redis itself answered with the error: then nothing was done.
func refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// Refused says of an error of [Open] whether Redis answered with it, as to a wrong password, so that waiting is
// of no use.
func Refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !passing(answer)
}

// passing says whether an answer is that of a Redis that starts, or changes its master.
func passing(err error) bool {
	for _, begin := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOSCRIPT", "UNBLOCKED"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}

// encode puts the version, 8 bytes, before the value.
func encode(version uint64, value []byte) string {
	b := make([]byte, 8, 8+len(value))
	binary.BigEndian.PutUint64(b, version)
	return string(append(b, value...))
}

func decode(key string, b []byte) (store.Record, error) {
	if len(b) < 8 {
		return store.Record{}, fmt.Errorf("record %q is damaged, %d bytes: was it evicted? (maxmemory-policy must be noeviction)", key, len(b))
	}
	return store.Record{Key: key, Version: binary.BigEndian.Uint64(b), Value: b[8:]}, nil
}

// number reads a number as Redis writes it; what isn't one is 0.
func number(text string) uint64 {
	n, _ := strconv.ParseUint(cmp.Or(text, "0"), 10, 64)
	return n
}
