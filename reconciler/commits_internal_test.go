package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// beyondReach is a store that answers no question for leases while it is away.
type beyondReach struct {
	store.Store
	away atomic.Bool
}

func (s *beyondReach) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	if s.away.Load() {
		return store.Lease{}, store.ErrUnavailable
	}
	return s.Store.Acquire(ctx, name, holder, ttl)
}

// A commit that waits for its turn is an order of who owned the instance when it was asked for. The queue of the
// repository withdraws what a context gives up (TestACancelledWriteIsNotMade of desired/gitrepo).
func TestACommitThatWaitsIsGivenUpWithTheSessionOfWhoAskedForItAndNotRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := bolt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := &beyondReach{Store: db}
		m, err := members.Join(t.Context(), members.Config{Store: s, Log: slog.New(slog.DiscardHandler), Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		owned := newOwnership(Config{Store: s, Member: m, Now: time.Now})
		mine, err := owned.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var looks, writes atomic.Int64
		c := newCommits(func(string) { looks.Add(1) })
		lifetime, stop := context.WithCancel(t.Context())
		defer func() { stop(); c.wait() }()
		c.begin(lifetime)
		in := committer{"a", mine, c}
		waits := func(ctx context.Context) (string, error) {
			writes.Add(1)
			if lease, under := store.LeaseOf(ctx); !under || lease.Token != mine.lease.Token {
				t.Errorf("it is made under %+v, want the lease of the instance", lease)
			}
			<-ctx.Done() // its turn doesn't come
			return "", context.Cause(ctx)
		}
		if _, err := commitOf(t.Context(), in, "pin", waits); !errors.Is(err, errCommitting) {
			t.Fatalf("a commit whose turn doesn't come: %v", err)
		}
		kit.Pass(3 * m.Lasts()) // it is renewed all the time
		if c.ended("a") != nil {
			t.Fatal("a commit is given up while the session is held")
		}
		s.away.Store(true)
		kit.Pass(m.Lasts())
		x := c.ended("a")
		if x == nil || !errors.Is(x.err, members.ErrEnded) {
			t.Fatalf("after the session has ended the commit is %+v, want it given up", x)
		}
		s.away.Store(false)
		kit.Pass(m.Lasts())
		if n := writes.Load(); n != 1 || looks.Load() != 1 {
			t.Errorf("it was asked for %d times, and %d passes told, want one of each: who owns the instance now decides anew", n, looks.Load())
		}
		next, err := owned.take(t.Context(), "a")
		if err != nil || next.lease.Token == mine.lease.Token {
			t.Errorf("the next tenure is %+v, %v", next.lease, err)
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
