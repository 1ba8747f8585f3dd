package redis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

func put(t testing.TB, s store.Store, recs ...store.Record) []store.Record {
	t.Helper()
	out, err := s.Put(t.Context(), recs...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mark(t testing.TB, s store.Store) store.Mark {
	t.Helper()
	m, err := s.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// eventually asks again until there is no error.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := kit.Poll(t.Context(), patience, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// noticed fails the test unless one who worked with Redis sees that it went back: a new epoch, no
// place to go on from, a Put by what was read before refused, and no number or token given again.
func noticed(t *testing.T, s store.Store, before store.Mark, appended string, lease store.Lease) {
	t.Helper()
	eventually(t, "Redis is back", func() error { _, err := s.Mark(t.Context()); return err })
	after := mark(t, s)
	if after.Epoch <= before.Epoch {
		t.Errorf("the store is at %+v after %+v: nobody can tell that it went back", after, before)
	}
	if got, _, err := s.Changes(t.Context(), before); !errors.Is(err, store.ErrLost) {
		t.Errorf("changes after what is lost: %+v, %v, want ErrLost", got, err)
	}
	if next := put(t, s, store.Record{Key: "log/"})[0].Key; next <= appended {
		t.Errorf("the number %s was given after %s", next, appended)
	}
	if _, err := s.Put(store.Under(t.Context(), lease), store.Record{Key: "fenced"}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a Put under a lease that is lost: %v, want ErrFenced", err)
	}
	if got, next, err := s.Changes(t.Context(), after); err != nil || len(got) != 1 || next.Put != after.Put+1 {
		t.Errorf("what was put since: %+v, %+v, %v", got, next, err)
	}
	eventually(t, "the lease is given again", func() error {
		again, err := s.Acquire(t.Context(), lease.Name, "another", time.Minute)
		if err == nil && again.Token <= lease.Token {
			t.Errorf("the token %d was given after %d", again.Token, lease.Token)
		}
		return err
	})
}

func TestWhatRedisLostIsNoticed(t *testing.T) {
	work := func(t *testing.T, s store.Store) (store.Mark, string, store.Lease) {
		t.Helper()
		lease, err := s.Acquire(t.Context(), "l", "one", 500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		key := put(t, s, store.Record{Key: "log/"}, store.Record{Key: "late"})[0].Key
		return mark(t, s), key, lease
	}
	t.Run("it is emptied", func(t *testing.T) {
		r := redisserver.Start(t)
		var fenced atomic.Int64
		s := open(t, redis.Options{URL: r.URL(), Fenced: func() { fenced.Add(1) }})
		at, key, lease := work(t, s)
		began := s.Began()
		if now := time.Since(began); now < 0 || now > time.Hour {
			t.Errorf("a Redis that is used first began %s ago", now)
		}
		if err := r.Client(t).FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), store.Record{Key: "late", Version: 1}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a Put by what was read before: %v, want ErrConflict", err)
		}
		noticed(t, s, at, key, lease)
		if !s.Began().After(began) {
			t.Errorf("what was lost leaves the beginning at %s", began)
		}
		if n := fenced.Load(); n != 1 {
			t.Errorf("%d Puts are told of as fenced, want 1", n)
		}
	})
	t.Run("it is started from an older file", func(t *testing.T) {
		r := redisserver.Start(t)
		s := open(t, redis.Options{URL: r.URL()})
		put(t, s, store.Record{Key: "early"}, store.Record{Key: "log/"})
		r.Kill()
		old := r.Keep(t)
		r.Start(t)
		eventually(t, "Redis is back", func() error { _, err := s.Mark(t.Context()); return err })
		at, key, lease := work(t, s)
		r.Kill()
		r.Restore(t, old)
		r.Start(t)
		noticed(t, s, at, key, lease)
		if _, err := s.Get(t.Context(), "early"); err != nil {
			t.Errorf("what the file had: %v", err)
		}
	})
	t.Run("it is started from an older file, and somebody new comes first", func(t *testing.T) {
		r := redisserver.Start(t)
		s := open(t, redis.Options{URL: r.URL()})
		put(t, s, store.Record{Key: "early"}, store.Record{Key: "log/"})
		r.Kill()
		old := r.Keep(t)
		r.Start(t)
		eventually(t, "Redis is back", func() error { _, err := s.Mark(t.Context()); return err })
		at, key, lease := work(t, s)
		r.Kill()
		r.Restore(t, old)
		r.Start(t)
		newcomer := open(t, redis.Options{URL: r.URL()})
		for range 10 { // more than was lost
			put(t, newcomer, store.Record{Key: "new/"})
		}
		eventually(t, "Redis is back", func() error { _, err := s.Mark(t.Context()); return err })
		noticed(t, s, at, key, lease)
	})
	t.Run("a replica is promoted that lacks some", func(t *testing.T) {
		r := redisserver.Start(t)
		host, port, _ := strings.Cut(r.Address, ":")
		replica := redisserver.Start(t, "--replicaof", host+" "+port)
		through := kit.NewWire(t, r.Address)
		s := open(t, redis.Options{URL: "redis://" + through.Address})
		put(t, s, store.Record{Key: "early"}, store.Record{Key: "log/"})
		eventually(t, "the replica has it", func() error {
			n, err := replica.Client(t).Exists(t.Context(), "{jibe}:r:early").Result()
			if err == nil && n == 0 {
				err = errors.New("not yet")
			}
			return err
		})
		// From now on the replica misses everything.
		if err := replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
			t.Fatal(err)
		}
		at, key, lease := work(t, s)
		r.Kill()
		through.Lead(replica.Address)
		noticed(t, s, at, key, lease)
		if _, err := s.Get(t.Context(), "early"); err != nil {
			t.Errorf("what the replica had: %v", err)
		}
	})
}

func TestARestartThatLosesNothingIsNoLoss(t *testing.T) {
	r := redisserver.Start(t)
	s := open(t, redis.Options{URL: r.URL()})
	other := open(t, redis.Options{URL: r.URL()})
	lease, err := s.Acquire(t.Context(), "l", "one", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, store.Record{Key: "a"})
	before := mark(t, s)
	mark(t, other)
	for range 2 {
		r.Kill()
		r.Start(t)
		eventually(t, "Redis is back", func() error { _, err := s.Mark(t.Context()); return err })
	}
	put(t, s, store.Record{Key: "b"})
	eventually(t, "Redis is back", func() error { _, err := other.Mark(t.Context()); return err })
	for _, s := range []*redis.Store{s, other} {
		got, next, err := s.Changes(t.Context(), before)
		if err != nil || len(got) == 0 || got[0].Key != "b" || next.Epoch != before.Epoch {
			t.Errorf("changes after a restart: %+v, %+v, %v", got, next, err)
		}
		if _, err := s.Put(store.Under(t.Context(), lease), store.Record{Key: "under/"}); err != nil {
			t.Errorf("a Put under a lease that Redis still has: %v", err)
		}
	}
}

func TestWhileRedisIsAwayCallsSaySoAndThenGoOn(t *testing.T) {
	r := redisserver.Start(t)
	s := open(t, redis.Options{URL: r.URL()})
	stored := put(t, s, store.Record{Key: "a", Value: []byte("1")})[0]
	from := mark(t, s)
	follows := make(chan error, 1)
	go func() {
		for {
			got, _, err := s.Changes(t.Context(), from)
			if err != nil && !errors.Is(err, store.ErrUnavailable) || len(got) > 0 {
				follows <- err
				return
			}
			kit.Pause(t.Context(), 20*time.Millisecond)
		}
	}()
	r.Kill()
	for name, call := range map[string]func() error{
		"Get":     func() error { _, err := s.Get(t.Context(), "a"); return err },
		"List":    func() error { _, err := s.List(t.Context(), "", "", 0); return err },
		"Put":     func() error { _, err := s.Put(t.Context(), stored); return err },
		"Acquire": func() error { _, err := s.Acquire(t.Context(), "l", "me", time.Minute); return err },
		"Attach":  func() error { _, err := s.Attach(t.Context(), "l", store.Lease{Name: "m", Holder: "me"}); return err },
		"Release": func() error { return s.Release(t.Context(), store.Lease{Name: "l", Holder: "me"}) },
		"Leases":  func() error { _, err := s.Leases(t.Context(), ""); return err },
		"Mark":    func() error { _, err := s.Mark(t.Context()); return err },
		"Changes": func() error { _, _, err := s.Changes(t.Context(), from); return err },
		"Probe":   func() error { return s.Probe(t.Context(), 1) },
		"Open":    func() error { _, err := redis.Open(t.Context(), redis.Options{URL: r.URL()}); return err },
	} {
		if err := call(); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), r.Address) {
			t.Errorf("%s: %v, want ErrUnavailable and where", name, err)
		}
	}
	if _, err := s.LastWrite(); err == nil {
		t.Error("the last write is said to have gone well")
	}
	r.Start(t)
	eventually(t, "a Put", func() error {
		_, err := s.Put(t.Context(), stored)
		if errors.Is(err, store.ErrConflict) { // with a former try, whose answer didn't come in time
			if now, gerr := s.Get(t.Context(), stored.Key); gerr == nil && now.Version == stored.Version+1 {
				return nil
			}
		}
		return err
	})
	if _, err := s.LastWrite(); err != nil {
		t.Errorf("the last write: %v", err)
	}
	select {
	case err := <-follows:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("one who follows isn't told of what was put after Redis was away")
	}
}

// TestAPutWhoseAnswerIsLostIsMadeOnce cuts connections again and again: a Put that was sent again
// would count twice, or conflict with itself.
func TestAPutWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	r := redisserver.Start(t)
	through := kit.NewWire(t, r.Address)
	s := open(t, redis.Options{URL: "redis://" + through.Address})
	const writers, each = 4, 60
	var cuts atomic.Int64
	cut := func() { cuts.Add(int64(through.Drop())) }
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(10+rand.IntN(50)) * time.Millisecond):
				cut()
			}
		}
	})
	var g sync.WaitGroup
	var unknown atomic.Int64
	for w := range writers {
		g.Go(func() {
			var version uint64
			open := false // whether the outcome of one isn't known yet
			for i := range each {
				if w == 0 && i == each/2 {
					cut() // also where all are done before the first of the others
				}
				out, err := s.Put(t.Context(), store.Record{Key: fmt.Sprint("w/", w, ".x"), Version: version}, store.Record{Key: "log/"})
				switch {
				case err == nil:
					version, open = out[0].Version, false
				case errors.Is(err, store.ErrUnavailable), open && errors.Is(err, store.ErrConflict):
					unknown.Add(1)
					open = true
					eventually(t, "a read", func() error {
						got, err := s.Get(t.Context(), fmt.Sprint("w/", w, ".x"))
						version = got.Version
						if errors.Is(err, store.ErrNotFound) {
							return nil
						}
						return err
					})
				default:
					t.Errorf("a Put that nobody else contends for: %v", err)
					return
				}
			}
		})
	}
	g.Wait()
	close(stop)
	cutter.Wait()
	var sum uint64
	for w := range writers {
		got, err := s.Get(t.Context(), fmt.Sprint("w/", w, ".x"))
		if err != nil {
			t.Fatal(err)
		}
		sum += got.Version
	}
	logged, err := s.List(t.Context(), "log/", "", 0)
	if err != nil || uint64(len(logged)) != sum || sum+uint64(unknown.Load()) < writers*each || cuts.Load() == 0 {
		t.Errorf("%d of %d Puts are there and %d entries of theirs, %d unknown, %d cuts, %v", sum, writers*each, len(logged), unknown.Load(), cuts.Load(), err)
	}
}
