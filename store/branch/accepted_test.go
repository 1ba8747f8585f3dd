package branch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestTheAcceptedCommitMovesOnlyFromWhereItIs(t *testing.T) {
	s := openStore(t)
	one, two := NewAccepted(s, "main", "one"), NewAccepted(s, "main", "two")
	for _, c := range []struct {
		who      *Accepted
		from, to string
		moves    bool
	}{
		{one, "x", "a", false}, {one, "", "a", true}, {two, "", "b", false}, {two, "a", "b", true}, {one, "a", "c", false}, {one, "b", "a", true},
	} {
		before, err := two.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		moved, err := c.who.Move(t.Context(), c.from, c.to)
		if err != nil || moved != c.moves {
			t.Errorf("move from %q to %q: %v, %v", c.from, c.to, moved, err)
		}
		want := before
		if c.moves {
			want = c.to
		}
		if now, err := one.Load(t.Context()); err != nil || now != want {
			t.Errorf("after the move from %q to %q it is %q, %v", c.from, c.to, now, err)
		}
	}
	if other, err := NewAccepted(s, "other", "one").Load(t.Context()); err != nil || other != "" {
		t.Errorf("another branch is at %q, %v", other, err)
	}
}

func TestOneOfSeveralMovesOfTheAcceptedCommitSucceeds(t *testing.T) {
	s := openStore(t)
	var won atomic.Int64
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			moved, err := NewAccepted(s, "main", fmt.Sprint(n)).Move(t.Context(), "", fmt.Sprint(n))
			if err != nil {
				t.Error(err)
			}
			if moved {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d moves from one place succeeded", won.Load())
	}
}

func TestWhoWatchesTheAcceptedCommitIsToldOfEachMove(t *testing.T) {
	s := openStore(t)
	one, two := NewAccepted(s, "main", "one"), NewAccepted(s, "main", "two")
	ctx, cancel := context.WithCancel(t.Context())
	var seen atomic.Value
	ended := make(chan error)
	go func() {
		ended <- one.Watch(ctx, func() {
			if now, err := one.Load(ctx); err == nil {
				seen.Store(now)
			}
		})
	}()
	from := ""
	for i := range 5 {
		to := fmt.Sprint(i)
		if moved, err := two.Move(t.Context(), from, to); err != nil || !moved {
			t.Fatal(moved, err)
		}
		kit.Until(t, "the move is seen", func() bool { return seen.Load() == to })
		from = to
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("watch = %v", err)
	}
}
