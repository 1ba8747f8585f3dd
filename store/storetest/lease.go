package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

func acquire(t *testing.T, s store.Store, name, holder string, ttl time.Duration) store.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), name, holder, ttl)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return l
}

func lease(t *testing.T, s store.Store) {
	one := acquire(t, s, "l", "one", time.Hour)
	if one.Name != "l" || one.Holder != "one" || one.Token == 0 || one.Expires.IsZero() {
		t.Fatalf("acquired %+v", one)
	}
	if _, err := s.Acquire(t.Context(), "l", "two", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("acquire of a held lease: %v, want ErrHeld", err)
	}
	if again := acquire(t, s, "l", "one", time.Hour); again.Token != one.Token {
		t.Fatalf("a renewal changed the token from %d to %d", one.Token, again.Token)
	}
	acquire(t, s, "other", "two", time.Hour)
	if err := s.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	two := acquire(t, s, "l", "two", time.Hour)
	if two.Token <= one.Token {
		t.Fatalf("token %d after %d", two.Token, one.Token)
	}
	// A late release doesn't concern the new holder.
	if err := s.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "l", "one", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("a stale release took the lease away: %v", err)
	}
	if recs, err := s.List(t.Context(), "", "", 0); err != nil || len(recs) != 0 {
		t.Fatalf("leases are listed as records: %q, %v", keys(recs), err)
	}
}

func leaseNonsense(t *testing.T, s store.Store) {
	for _, c := range []struct {
		name, holder string
		ttl          time.Duration
	}{{"", "me", time.Second}, {"l", "", time.Second}, {"l", "me", 0}, {"l", "me", -1}} {
		if l, err := s.Acquire(t.Context(), c.name, c.holder, c.ttl); err == nil {
			t.Errorf("%+v gave %+v", c, l)
		}
	}
	if err := s.Release(t.Context(), store.Lease{Name: "never taken", Holder: "me", Token: 1}); err != nil {
		t.Errorf("release of a lease that nobody has: %v", err)
	}
}

func leaseExpiry(t *testing.T, s store.Store, c *clock) {
	// Where the store's own clock counts, a minute is left before the end, as a machine may stall for seconds.
	one := acquire(t, s, "l", "one", time.Hour)
	c.pass(59 * time.Minute)
	if _, err := s.Acquire(t.Context(), "l", "two", time.Hour); !errors.Is(err, store.ErrHeld) {
		t.Fatalf("before it expired: %v", err)
	}
	c.pass(time.Minute)
	two := acquire(t, s, "l", "two", time.Hour)
	if two.Token <= one.Token {
		t.Fatalf("token %d after %d", two.Token, one.Token)
	}
	c.pass(time.Hour)
	// The lease has expired, so the token grows even for the same holder.
	if again := acquire(t, s, "l", "two", time.Minute); again.Token <= two.Token {
		t.Fatalf("token %d after %d", again.Token, two.Token)
	}
}
