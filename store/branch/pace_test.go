package branch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// stores are one of each kind.
func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	r, err := redis.Open(t.Context(), redis.Options{URL: redisserver.Start(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return map[string]store.Store{"bolt": openStore(t), "redis": r}
}

// signs is a store that sees what signs of life come of who pushes.
type signs struct {
	store.Store
	mu    sync.Mutex
	last  map[string]time.Time // when each gave the last one
	most  time.Duration        // how far apart two of one were at most
	times map[string]int       // how many each gave
}

func watched(s store.Store) *signs {
	return &signs{Store: s, last: map[string]time.Time{}, times: map[string]int{}}
}

func (s *signs) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	began := time.Now()
	lease, err := s.Store.Acquire(ctx, name, holder, ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[holder]; ok {
		s.most = max(s.most, time.Since(last))
	}
	if err == nil {
		s.last[holder] = began
		s.times[holder]++
	}
	return lease, err
}

// given is how many signs of life have come of a holder, whatever it has paced before.
func (s *signs) given(holder string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for paced, times := range s.times {
		if strings.HasPrefix(paced, holder+"/") {
			n += times
		}
	}
	return n
}

func TestPushesOfAllReplicasAreAnIntervalApart(t *testing.T) {
	const replicas, each, lasts = 3, 3, 60 * time.Millisecond
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Who gives no sign of life for an interval, as its machine stalls, is rightly taken for dead. Then
			// nothing can be said, and it is done again with a longer one.
			for interval, round := 200*time.Millisecond, 0; ; interval, round = 2*interval, round+1 {
				seen := watched(s)
				var mu sync.Mutex
				var began, ended []time.Time
				var all sync.WaitGroup
				for n := range replicas {
					turns := NewTurns(seen, fmt.Sprint("main-", round), fmt.Sprint("replica-", n))
					all.Go(func() {
						for range each {
							end, err := turns.Pace(t.Context(), interval)
							if err != nil {
								t.Error(err)
								return
							}
							from := time.Now()
							time.Sleep(lasts) // the push
							mu.Lock()
							began, ended = append(began, from), append(ended, time.Now())
							mu.Unlock()
							end(true)
						}
					})
				}
				all.Wait()
				if seen.most >= interval && !t.Failed() {
					t.Logf("somebody gave no sign of life for %s, of an interval of %s", seen.most, interval)
					continue
				}
				slices.SortFunc(began, time.Time.Compare)
				slices.SortFunc(ended, time.Time.Compare)
				for i := 1; i < len(began); i++ {
					if apart := began[i].Sub(ended[i-1]); apart < interval {
						t.Errorf("push %d began %s after the one before, want %s", i, apart, interval)
					}
				}
				return
			}
		})
	}
}

func TestAPushThatWasNotMadeKeepsNobodyWaiting(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			one, two := NewTurns(s, "main", "one"), NewTurns(s, "main", "two")
			for _, turns := range []*Turns{one, two, one} {
				end, err := turns.Pace(t.Context(), time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				end(false)
			}
			end, err := two.Pace(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			end(true)
			for who, turns := range map[string]*Turns{"another": one, "itself": two} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				if _, err := turns.Pace(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s doesn't wait after a push: %v", who, err)
				}
				cancel()
			}
		})
	}
}

func TestAPushThatLastsLongerThanTheIntervalKeepsOthersWaiting(t *testing.T) {
	const interval, intervals = 100 * time.Millisecond, 6
	// The store's clock goes on only where the push has given a sign of life since, so that it doesn't matter
	// for how long the machine stalls.
	var passed atomic.Int64
	began := time.Now()
	inner, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"), bolt.WithClock(func() time.Time { return began.Add(time.Duration(passed.Load())) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	s := watched(inner)
	end, err := NewTurns(s, "main", "one").Pace(t.Context(), interval)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	other := make(chan error, 1)
	go func() {
		_, err := NewTurns(s, "main", "two").Pace(ctx, interval)
		other <- err
	}()
	for passed.Load() < int64(intervals*interval) {
		passed.Add(int64(interval) * 3 / 4)
		before := s.given("one") // one may have begun before the clock went on, the next hasn't
		kit.Until(t, "the push gives signs of life", func() bool { return s.given("one") >= before+2 })
	}
	cancel()
	if err := <-other; !errors.Is(err, context.Canceled) {
		t.Errorf("another pushes meanwhile: %v", err)
	}
	end(true)
}
