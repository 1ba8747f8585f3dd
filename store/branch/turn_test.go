package branch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func openStore(t *testing.T) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func take(t *testing.T, turns *Turns) (others bool, give func()) {
	t.Helper()
	others, give, err := turns.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return others, give
}

func TestTurnsAreTakenOneAtATimeInTheOrderOfComing(t *testing.T) {
	const replicas, each = 4, 20
	s := openStore(t)
	var mu sync.Mutex
	var order []int
	busy := 0
	var all sync.WaitGroup
	for n := range replicas {
		turns := NewTurns(s, "main", fmt.Sprint("replica-", n))
		turns.ttl = kit.Patience // nobody dies, and who stalls isn't to be taken for dead
		all.Go(func() {
			for range each {
				_, give, err := turns.Take(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if busy++; busy > 1 {
					t.Error("two have the turn")
				}
				order = append(order, n)
				mu.Unlock()
				// Who waits takes a ticket meanwhile, as it would during a push.
				kit.Until(t, "the others wait, or are done", func() bool {
					tickets, err := s.List(t.Context(), "turn/main/", "", 0)
					mu.Lock()
					defer mu.Unlock()
					waiting := replicas
					for other := range replicas {
						if count(order, other) == each && other != n {
							waiting--
						}
					}
					return err == nil && len(tickets) >= waiting
				})
				mu.Lock()
				busy--
				mu.Unlock()
				give()
			}
		})
	}
	all.Wait()
	for at := 0; at+replicas <= len(order); at += replicas {
		round := slices.Clone(order[at : at+replicas])
		if slices.Sort(round); len(slices.Compact(round)) != replicas {
			t.Fatalf("somebody had two turns while another waited: %v in %v", order[at:at+replicas], order)
		}
	}
	if left, err := s.List(t.Context(), "turn", "", 0); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func count(list []int, n int) (times int) {
	for _, v := range list {
		if v == n {
			times++
		}
	}
	return times
}

func TestATurnSaysWhetherSomebodyElseMayHaveHadIt(t *testing.T) {
	s := openStore(t)
	one, two := NewTurns(s, "main", "one"), NewTurns(s, "main", "two")
	one.ttl, two.ttl = kit.Patience, kit.Patience
	for i, step := range []struct {
		who    *Turns
		others bool
	}{{one, false}, {one, false}, {two, true}, {two, false}, {one, true}, {one, false}} {
		others, give := take(t, step.who)
		give()
		if others != step.others && i > 0 { // at the first there is no last one
			t.Errorf("turn %d: others = %v", i, others)
		}
	}
}

func TestTheTurnOfOneThatDiedIsFreeWhenItsLeaseEnds(t *testing.T) {
	s := openStore(t)
	dead := NewTurns(s, "main", "dead")
	lease, err := s.Acquire(t.Context(), dead.waits+dead.holder, dead.holder, kit.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.ticket(t.Context(), lease); err != nil { // and never gives it back
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), dead.waits+dead.holder, dead.holder, 100*time.Millisecond); err != nil { // its last sign of life
		t.Fatal(err)
	}
	one := NewTurns(s, "main", "one")
	_, give := take(t, one)
	give()
	if left, err := s.List(t.Context(), "turn/", "", 0); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWhoWaitsForATurnNoLongerLeavesTheQueue(t *testing.T) {
	s := openStore(t)
	one, two := NewTurns(s, "main", "one"), NewTurns(s, "main", "two")
	one.ttl, two.ttl = kit.Patience, kit.Patience
	_, give := take(t, one)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, _, err := two.Take(ctx)
		failed <- err
	}()
	kit.Until(t, "two wait", func() bool {
		tickets, err := s.List(t.Context(), "turn/", "", 0)
		return err == nil && len(tickets) == 2
	})
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("take = %v", err)
	}
	give()
	_, give = take(t, two)
	give()
}
