package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/store/transfer"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

func file(t testing.TB) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func server(t testing.TB, r *redisserver.Server) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), redis.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// all has the values of a store by key.
func all(t testing.TB, s store.Store) map[string]string {
	t.Helper()
	recs, err := s.List(t.Context(), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range recs {
		out[r.Key] = string(r.Value)
	}
	return out
}

func put(t testing.TB, s store.Store, key, value string) {
	t.Helper()
	old, err := s.Get(t.Context(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: key, Version: old.Version, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
}

// pairs writes, until ctx ends, the records a/N and z/N with the same value in one Put each time, now and then
// removes both, and adds the value to a log. It counts the Puts that were answered.
func pairs(ctx context.Context, t *testing.T, s store.Store, n, of int, answered *atomic.Int64) {
	for i := 0; ctx.Err() == nil; i++ {
		kit.Pause(ctx, 5*time.Millisecond) // the file's copy is synced to the disk all the time, which shouldn't be overtaken
		k := fmt.Sprintf("/%05d", of*rand.IntN(200)+n)
		var recs []store.Record
		for _, key := range []string{"a" + k, "z" + k} {
			old, err := s.Get(t.Context(), key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
				return
			}
			recs = append(recs, store.Record{Key: key, Version: old.Version, Value: fmt.Append(nil, n, " ", i), Delete: old.Version > 0 && i%5 == 0})
		}
		recs = append(recs, store.Record{Key: "log/", Value: []byte(k)})
		if _, err := s.Put(t.Context(), recs...); err != nil {
			t.Error(err)
			return
		}
		answered.Add(1)
	}
}

func TestACopyThatIsMadeWhileManyWriteIsWhatTheStoreWasAtOneMoment(t *testing.T) {
	r := redisserver.Start(t, "--appendfsync", "no")
	for name, from := range map[string]store.Store{"redis": server(t, r), "file": file(t)} {
		t.Run(name, func(t *testing.T) {
			const writers = 8
			var still []store.Record
			for i := range 1500 {
				still = append(still, store.Record{Key: fmt.Sprintf("still/%05d", i), Value: []byte("x")})
			}
			if _, err := from.Put(t.Context(), still...); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var g sync.WaitGroup
			var answered atomic.Int64
			for n := range writers {
				g.Go(func() { pairs(ctx, t, from, n, writers, &answered) })
			}
			defer g.Wait()
			defer stop()
			for range 5 {
				to := file(t)
				c, err := transfer.Begin(t.Context(), from, to)
				if err != nil {
					t.Fatal(err)
				}
				before := answered.Load()
				if err := c.Take(t.Context()); err != nil {
					t.Fatal(err)
				}
				after := answered.Load()
				if err := c.Finish(t.Context()); err != nil {
					t.Fatal(err)
				}
				have := all(t, to)
				logged := int64(0)
				for k, v := range have {
					switch {
					case strings.HasPrefix(k, "log/"):
						logged++
					case strings.HasPrefix(k, "a/") && have["z"+k[1:]] != v, strings.HasPrefix(k, "z/") && have["a"+k[1:]] != v:
						t.Errorf("%s is %q in the copy, and the other half is %q and %q", k, v, have["a"+k[1:]], have["z"+k[1:]])
					}
				}
				// A Put that was made may not be counted as answered yet, by each writer.
				if logged < before || logged > after+writers {
					t.Errorf("the copy has %d of the Puts, of which %d were answered when it was taken and %d when it was done", logged, before, after)
				}
			}
		})
	}
}

func TestAStoreIsMadeEqualToAnotherHoweverFarItWas(t *testing.T) {
	r := redisserver.Start(t, "--appendfsync", "no")
	to := server(t, r)
	kept := func(key string) bool { return key == "kept" }
	for round := range 4 {
		from := file(t)
		var recs []store.Record
		for i := range 900 {
			if rand.IntN(3) > 0 {
				recs = append(recs, store.Record{Key: fmt.Sprintf("r/%04d", i+round*200), Value: fmt.Append(nil, rand.IntN(2))})
			}
		}
		if round < 3 { // then nothing is left
			if _, err := from.Put(t.Context(), recs...); err != nil {
				t.Fatal(err)
			}
		}
		put(t, to, "kept", fmt.Sprint(round))
		foreign, err := transfer.Foreign(t.Context(), from, to, kept)
		if err != nil || (foreign == "") != (round == 0) {
			t.Errorf("foreign is %q, %v", foreign, err)
		}
		n, err := transfer.Level(t.Context(), from, to, kept)
		if err != nil {
			t.Fatal(err)
		}
		want := all(t, from)
		want["kept"] = fmt.Sprint(round)
		if have := all(t, to); n != len(want)-1 || fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("%d records were carried; the store has %d, want %d", n, len(have), len(want))
		}
		if foreign, err := transfer.Foreign(t.Context(), from, to, kept); err != nil || foreign != "" {
			t.Errorf("foreign is %q, %v, when all are equal", foreign, err)
		}
	}
}

func TestNumbersGoOnBehindThoseOfTheStoreThatRecordsCameFrom(t *testing.T) {
	r := redisserver.Start(t, "--appendfsync", "no")
	from, to := server(t, r), file(t)
	last := ""
	grows := func(s store.Store) {
		t.Helper()
		out, err := s.Put(t.Context(), store.Record{Key: "log/"})
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Key <= last {
			t.Errorf("after %s comes %s", last, out[0].Key)
		}
		last = out[0].Key
		// What was read and removed is known by its number still.
		if _, err := s.Put(t.Context(), store.Record{Key: last, Version: 1, Delete: true}); err != nil {
			t.Fatal(err)
		}
	}
	grows(from)
	if err := to.CountFrom(t.Context(), from.LastNumber()); err != nil {
		t.Fatal(err)
	}
	grows(to)
	grows(to)
	mark, err := from.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := from.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	grows(from)
	if _, _, err := from.Changes(t.Context(), mark); !errors.Is(err, store.ErrLost) {
		t.Errorf("who follows is told %v, want %v", err, store.ErrLost)
	}
}
