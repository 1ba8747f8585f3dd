package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

func attach(t *testing.T, s store.Store, name string, session store.Lease) store.Lease {
	t.Helper()
	l, err := s.Attach(t.Context(), name, session)
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return l
}

// fencedPut fails the test unless a Put under the lease is fenced and writes nothing.
func fencedPut(t *testing.T, s store.Store, l store.Lease) {
	t.Helper()
	_, err := s.Put(store.Under(t.Context(), l), rec("under/a-lost-lease", 0, "x"))
	if !errors.Is(err, store.ErrFenced) {
		t.Fatalf("a Put under %+v: %v, want ErrFenced", l, err)
	}
	if _, err := s.Get(t.Context(), "under/a-lost-lease"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("a fenced Put wrote: %v", err)
	}
}

// heldPut fails the test unless a Put under the lease succeeds.
func heldPut(t *testing.T, s store.Store, l store.Lease) {
	t.Helper()
	if _, err := s.Put(store.Under(t.Context(), l), rec("under/", 0, "x")); err != nil {
		t.Fatalf("a Put under a held lease: %v", err)
	}
}

func fenced(t *testing.T, s store.Store) {
	one := acquire(t, s, "l", "one", time.Hour)
	heldPut(t, s, one)
	heldPut(t, s, acquire(t, s, "l", "one", time.Hour)) // a renewal
	heldPut(t, s, one)                                  // has the same token
	never := one
	never.Name = "never taken"
	fencedPut(t, s, never)
	other := one
	other.Holder = "other"
	fencedPut(t, s, other)
	if err := s.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	fencedPut(t, s, one)
	two := acquire(t, s, "l", "two", time.Hour)
	fencedPut(t, s, one)
	heldPut(t, s, two)
	if err := s.Release(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	again := acquire(t, s, "l", "one", time.Hour)
	fencedPut(t, s, one) // the holder is the same, the token isn't
	heldPut(t, s, again)
}

func attached(t *testing.T, s store.Store) {
	one := acquire(t, s, "member/one", "one", time.Hour)
	two := acquire(t, s, "member/two", "two", time.Hour)
	a := attach(t, s, "a", one)
	leases, err := s.Leases(t.Context(), "member/")
	if err != nil || len(leases) != 2 || leases[0].Token != one.Token || leases[1].Holder != "two" || leases[1].Expires.IsZero() {
		t.Fatalf("leases: %+v, %v", leases, err)
	}
	if leases, err := s.Leases(t.Context(), ""); err != nil || len(leases) != 2 {
		t.Fatalf("what is attached is listed: %+v, %v", leases, err)
	}
	if a.Name != "a" || a.Holder != "one" || a.Session != "member/one" || a.Token == 0 {
		t.Fatalf("attached %+v", a)
	}
	b := attach(t, s, "b", one)
	if again := attach(t, s, "a", one); again.Token != a.Token {
		t.Fatalf("attached again, the token changed from %d to %d", a.Token, again.Token)
	}
	heldPut(t, s, a)
	if _, err := s.Attach(t.Context(), "a", two); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("attach of what another session holds: %v, want ErrHeld", err)
	}
	if _, err := s.Acquire(t.Context(), "a", "two", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("acquire of what a session holds: %v, want ErrHeld", err)
	}
	// One is given back, the other lasts.
	if err := s.Release(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	fencedPut(t, s, a)
	heldPut(t, s, b)
	if taken := attach(t, s, "a", two); taken.Token <= a.Token {
		t.Fatalf("token %d after %d", taken.Token, a.Token)
	}
	// The session is given back, and all with it.
	if err := s.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	fencedPut(t, s, b)
	if _, err := s.Attach(t.Context(), "c", one); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("attach to a session that has ended: %v, want ErrFenced", err)
	}
	if taken := attach(t, s, "b", two); taken.Token <= b.Token {
		t.Fatalf("token %d after %d", taken.Token, b.Token)
	}
	// The same holder's next session has none of the former's.
	next := acquire(t, s, "member/one", "one", time.Hour)
	fencedPut(t, s, b)
	if _, err := s.Attach(t.Context(), "c", one); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("attach to a former session: %v, want ErrFenced", err)
	}
	heldPut(t, s, attach(t, s, "c", next))
	for _, bad := range []struct {
		name    string
		session store.Lease
	}{{"", two}, {"member/two", two}, {"x", attach(t, s, "d", two)}} {
		if l, err := s.Attach(t.Context(), bad.name, bad.session); err == nil {
			t.Errorf("attach %q to %+v gave %+v", bad.name, bad.session, l)
		}
	}
}

func sessionExpiry(t *testing.T, s store.Store, c *clock) {
	// Where the store's own clock counts, a minute is left before each end, as a machine may stall for seconds.
	one := acquire(t, s, "member/one", "one", time.Hour)
	a := attach(t, s, "a", one)
	c.pass(59 * time.Minute)
	acquire(t, s, "member/one", "one", time.Hour)
	c.pass(59 * time.Minute)
	heldPut(t, s, a) // lasts as long as the session is renewed
	two := acquire(t, s, "member/two", "two", time.Hour)
	if _, err := s.Attach(t.Context(), "a", two); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("before the session expired: %v, want ErrHeld", err)
	}
	c.pass(time.Minute)
	fencedPut(t, s, a)
	if _, err := s.Attach(t.Context(), "b", one); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("attach to an expired session: %v, want ErrFenced", err)
	}
	if taken := attach(t, s, "a", two); taken.Token <= a.Token {
		t.Fatalf("token %d after %d", taken.Token, a.Token)
	}
	if leases, err := s.Leases(t.Context(), "member/"); err != nil || len(leases) != 1 || leases[0].Holder != "two" {
		t.Fatalf("leases: %+v, %v", leases, err)
	}
	// The session comes back with another token, too late for what it had.
	if again := acquire(t, s, "member/one", "one", time.Minute); again.Token <= one.Token {
		t.Fatalf("token %d after %d", again.Token, one.Token)
	}
	fencedPut(t, s, a)
}
