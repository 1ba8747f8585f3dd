package branch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
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

func TestPushesOfAllReplicasAreAnIntervalApart(t *testing.T) {
	const replicas, each, interval, lasts = 3, 3, 200 * time.Millisecond, 60 * time.Millisecond
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var began, ended []time.Time
			var all sync.WaitGroup
			for n := range replicas {
				turns := NewTurns(s, "main", fmt.Sprint("replica-", n))
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
			slices.SortFunc(began, time.Time.Compare)
			slices.SortFunc(ended, time.Time.Compare)
			for i := 1; i < len(began); i++ {
				if apart := began[i].Sub(ended[i-1]); apart < interval {
					t.Errorf("push %d began %s after the one before, want %s", i, apart, interval)
				}
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
	const interval = 100 * time.Millisecond
	s := openStore(t)
	end, err := NewTurns(s, "main", "one").Pace(t.Context(), interval)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*interval)
	defer cancel()
	if _, err := NewTurns(s, "main", "two").Pace(ctx, interval); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another pushes meanwhile: %v", err)
	}
	end(true)
}
