package members_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// away is a store that a member can't reach while it is cut off.
type away struct {
	store.Store
	off   atomic.Bool
	blind atomic.Int64 // so many questions who lives fail still
	calls atomic.Int64
}

var errAway = errors.New("the store is away")

func (a *away) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	a.calls.Add(1)
	if a.off.Load() {
		return store.Lease{}, errAway
	}
	return a.Store.Acquire(ctx, name, holder, ttl)
}

func (a *away) Leases(ctx context.Context, prefix string) ([]store.Lease, error) {
	a.calls.Add(1)
	if a.off.Load() || a.blind.Add(-1) >= 0 {
		return nil, errAway
	}
	return a.Store.Leases(ctx, prefix)
}

func (a *away) Put(ctx context.Context, recs ...store.Record) ([]store.Record, error) {
	a.calls.Add(1)
	return a.Store.Put(ctx, recs...)
}

func (a *away) Attach(ctx context.Context, name string, s store.Lease) (store.Lease, error) {
	a.calls.Add(1)
	return a.Store.Attach(ctx, name, s)
}

// bubble runs f with a store, where time passes at once while everybody waits.
func bubble(t *testing.T, f func(t *testing.T, s store.Store)) {
	path := filepath.Join(t.TempDir(), "store.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(t, s)
	})
}

func join(t *testing.T, s store.Store, change func(*members.Config)) *members.Member {
	t.Helper()
	c := members.Config{Store: s, Log: slog.New(slog.DiscardHandler), Shared: true, Host: "host", Version: "v1"}
	if change != nil {
		change(&c)
	}
	m, err := members.Join(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func leave(t *testing.T, m *members.Member) {
	t.Helper()
	if err := m.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// later lets time pass, and everybody do what is due.
func later(d time.Duration) {
	kit.Pass(d)
}

func living(t *testing.T, m *members.Member, want ...*members.Member) {
	t.Helper()
	var ids []string
	for _, x := range want {
		ids = append(ids, x.Holder())
	}
	slices.Sort(ids)
	if got := m.Living(); !slices.Equal(got, ids) {
		t.Errorf("%s sees %v, want %v", m.Holder(), got, ids)
	}
}

func TestMembersSeeWhoComesAndWhoGoes(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		one, two := join(t, s, nil), join(t, s, nil)
		living(t, two, one, two)
		later(time.Second)
		living(t, one, one, two)
		var changes atomic.Int64
		one.OnChange(func() { changes.Add(1) })
		later(time.Minute)
		living(t, one, one, two)
		if changes.Load() != 0 {
			t.Errorf("%d changes while nobody came or went", changes.Load())
		}
		leave(t, two)
		later(time.Second)
		living(t, one, one)
		if changes.Load() != 1 {
			t.Errorf("%d changes when one left, want 1", changes.Load())
		}
		leave(t, one)
	})
}

func TestAKilledMemberIsMissedSoonAfterItsSessionHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		// Whenever it dies between heartbeats, the others know within a quarter of a second.
		for _, after := range []time.Duration{time.Second, 1200 * time.Millisecond, 1900 * time.Millisecond} {
			cut := &away{Store: s}
			one := join(t, s, nil)
			later(300 * time.Millisecond)
			two := join(t, cut, nil)
			later(after)
			cut.off.Store(true)
			killed := time.Now()
			for len(one.Living()) > 1 {
				later(10 * time.Millisecond)
				if time.Since(killed) > time.Minute {
					t.Fatal("it is still taken for living")
				}
			}
			if took := time.Since(killed); took > 4250*time.Millisecond {
				t.Errorf("killed %s after it joined: the others know after %s", after, took)
			}
			if two.Session() != nil {
				t.Error("it takes itself for living longer than the others do")
			}
			leave(t, two)
			leave(t, one)
		}
	})
}

func TestASessionEndsByItsHoldersClockWhenTheStoreIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		cut := &away{Store: s}
		m := join(t, cut, nil)
		session := m.Session()
		lease, err := cut.Attach(t.Context(), "instance/a", session.Lease())
		if err != nil {
			t.Fatal(err)
		}
		within, cancel := session.Within(t.Context())
		defer cancel()
		cut.off.Store(true)
		before := session.Left()
		later(3 * time.Second)
		if !session.Held() || within.Err() != nil {
			t.Error("the session ended before its time")
		}
		if left := session.Left(); left <= 0 || left > before-2*time.Second {
			t.Errorf("%s are left of the session after 3 s without a renewal, and were %s", left, before)
		}
		later(time.Second)
		if left := session.Left(); left != 0 {
			t.Errorf("%s are left of a session that has ended", left)
		}
		if session.Held() || m.Session() != nil || !errors.Is(context.Cause(within), members.ErrEnded) {
			t.Errorf("the session is held without a renewal; its context: %v", context.Cause(within))
		}
		if _, err := s.Put(store.Under(t.Context(), lease), store.Record{Key: "x", Value: []byte("x")}); !errors.Is(err, store.ErrFenced) {
			t.Errorf("a Put under what was attached: %v", err)
		}
		// It comes back by itself, with nothing of what it had.
		var told atomic.Bool
		m.OnChange(func() { told.Store(true) })
		cut.blind.Store(2) // it comes back by and by
		cut.off.Store(false)
		later(time.Second)
		if m.Session() == nil || m.Session() == session || session.Held() || !told.Load() {
			t.Error("it doesn't come back with a session of its own, or doesn't tell")
		}
		if list, err := members.List(t.Context(), s); err != nil || len(list) != 1 {
			t.Errorf("its record: %+v, %v", list, err)
		}
		leave(t, m)
	})
}

func TestAMemberThatWasStoppedFindsItsSessionEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		var slept atomic.Int64
		m := join(t, s, func(c *members.Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		})
		session := m.Session()
		before, err := s.Attach(t.Context(), "instance/a", session.Lease())
		if err != nil {
			t.Fatal(err)
		}
		slept.Store(int64(5 * time.Second)) // no timer of the process has fired meanwhile
		if session.Held() || m.Session() != nil {
			t.Error("it takes its session for held")
		}
		later(time.Second)
		next := m.Session()
		if next == nil || next.Lease().Token == session.Lease().Token {
			t.Fatalf("its next session: %+v after %+v", next, session)
		}
		if n := m.Lost(); n != 1 {
			t.Errorf("%d sessions are counted as lost, want 1", n)
		}
		// The store's clock has it held all the time: what was attached must be lost still.
		if _, err := s.Put(store.Under(t.Context(), before), store.Record{Key: "x", Value: []byte("x")}); !errors.Is(err, store.ErrFenced) {
			t.Errorf("a Put under what was attached to the former session: %v", err)
		}
		leave(t, m)
	})
}

func TestAtRestAMemberAsksTheStoreTwiceAHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		count := &away{Store: s}
		m, other := join(t, count, nil), join(t, s, nil)
		for n := range 1000 {
			if _, err := s.Attach(t.Context(), fmt.Sprint("instance/", n), m.Session().Lease()); err != nil {
				t.Fatal(err)
			}
		}
		later(2 * time.Second)
		count.calls.Store(0)
		later(100 * time.Second)
		if n := count.calls.Load(); n > 202 {
			t.Errorf("%d calls in 100 heartbeats, want 200", n)
		}
		leave(t, m)
		leave(t, other)
	})
}

func TestRecordsTellOfTheLivingAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		one := join(t, s, func(c *members.Config) { c.Host = "one" })
		cut := &away{Store: s}
		two := join(t, cut, func(c *members.Config) { c.Host = "two" })
		list, err := members.List(t.Context(), s)
		if err != nil || len(list) != 2 || list[0].Holder > list[1].Holder || list[0].Version != "v1" || list[0].Since.IsZero() {
			t.Fatalf("%+v, %v", list, err)
		}
		cut.off.Store(true)
		later(6 * time.Second)
		if list, err := members.List(t.Context(), s); err != nil || len(list) != 1 || list[0].Host != "one" {
			t.Errorf("after one was killed: %+v, %v", list, err)
		}
		if stored, err := s.List(t.Context(), "member/", "", 0); err != nil || len(stored) != 1 {
			t.Errorf("records of members that are gone: %v, %v", stored, err)
		}
		leave(t, two)
		leave(t, one)
		if stored, err := s.List(t.Context(), "member/", "", 0); err != nil || len(stored) != 0 {
			t.Errorf("after all have left: %v, %v", stored, err)
		}
	})
}

func TestWhoIsGoneIsAskedOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		cut := &away{Store: s}
		one, two := join(t, s, nil), join(t, cut, nil)
		gone := func(holder string, want bool) {
			t.Helper()
			if is, err := one.Gone(t.Context(), holder); err != nil || is != want {
				t.Errorf("%q is gone: %v, %v", holder, is, err)
			}
		}
		gone("", true) // of a version that named nobody
		gone("never", true)
		gone(one.Holder(), false)
		gone(two.Holder(), false)
		cut.off.Store(true)
		later(3 * time.Second)
		gone(two.Holder(), false)
		later(time.Second)
		gone(two.Holder(), true)
		leave(t, two)
		leave(t, one)
	})
}

func TestAJobIsDoneByOneMemberAtATimeAndTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		cut := &away{Store: s}
		all := []*members.Member{join(t, cut, nil), join(t, s, nil), join(t, s, nil)}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var doers []int
		var now, most int
		var wg sync.WaitGroup
		for n, m := range all {
			wg.Go(func() {
				err := m.Only(ctx, "prune", func(ctx context.Context) error {
					mu.Lock()
					doers = append(doers, n)
					now++
					most = max(most, now)
					mu.Unlock()
					if _, ok := store.LeaseOf(ctx); !ok {
						t.Error("the job writes under no lease")
					}
					<-ctx.Done()
					mu.Lock()
					now--
					mu.Unlock()
					return ctx.Err()
				})
				if err != nil {
					t.Errorf("member %d: %v", n, err)
				}
			})
			synctest.Wait()
		}
		later(time.Minute)
		cut.off.Store(true)
		later(5 * time.Second)
		mu.Lock()
		if len(doers) != 2 || doers[0] != 0 || most != 1 || now != 1 {
			t.Errorf("done by %v, by %d at once, by %d now", doers, most, now)
		}
		mu.Unlock()
		stop()
		wg.Wait()
		for _, m := range all {
			leave(t, m)
		}
	})
}

func TestAJobThatComesToItsEndIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		one, two := join(t, s, nil), join(t, s, nil)
		failed := errors.New("in vain")
		if err := one.Only(t.Context(), "job", func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%v, want what the job returns", err)
		}
		ran := false
		if err := two.Only(t.Context(), "job", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("the lease isn't free again: %v", err)
		}
		leave(t, one)
		leave(t, two)
	})
}
