package replicas

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// serves opens a store as a process does.
func serves(t *testing.T, r *redisserver.Server, holder string) *serving {
	t.Helper()
	s, err := redis.Open(t.Context(), redis.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	sv := &serving{Store: s, ctx: t.Context(), holder: holder, ttl: time.Hour, log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { _ = s.Close() })
	return sv
}

// ends returns how the keeping of the lease ends.
func ends(t *testing.T, s *serving) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.run(t.Context()) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("the process goes on")
		return nil
	}
}

func TestASecondProcessIsRefusedAndANextOneTakesOver(t *testing.T) {
	t.Parallel()

	r := redisserver.Start(t)
	one := serves(t, r, "one")
	if err := one.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := one.Acquire(t.Context(), "instance/a", "one", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	two := serves(t, r, "two")
	two.ttl = time.Second
	if err := two.take(t.Context()); !errors.Is(err, store.ErrHeld) || !strings.Contains(err.Error(), "another process serves") || !strings.Contains(err.Error(), "by one") {
		t.Fatalf("a second process: %v", err)
	}
	if _, err := two.Put(t.Context(), store.Record{Key: "a"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a Put without the lease: %v", err)
	}
	// The first one was killed, and gave nothing back: its lease ends.
	if err := r.Client(t).HDel(t.Context(), "{jibe}:leases", serveLease).Err(); err != nil {
		t.Fatal(err)
	}
	one.lease.Expires = time.Now()
	one.ttl, two.ttl = time.Second, time.Hour
	if err := two.take(t.Context()); err != nil {
		t.Fatalf("the next process: %v", err)
	}
	if _, err := two.Acquire(t.Context(), "instance/a", "two", time.Hour); err != nil {
		t.Errorf("what the former process held: %v", err)
	}
	if _, err := one.Store.Put(store.Under(t.Context(), held), store.Record{Key: "b"}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a Put of the former process: %v, want ErrFenced", err)
	}
	if _, err := one.Put(t.Context(), store.Record{Key: "b"}); !errors.Is(err, store.ErrUnavailable) || one.health() == nil {
		t.Errorf("a Put of the former process: %v, health %v", err, one.health())
	}
	if err := ends(t, one); err == nil || !strings.Contains(err.Error(), "another process serves") {
		t.Errorf("the former process ends with %v", err)
	}
}

func TestTheLeaseIsKeptHoweverLongTheStartTakes(t *testing.T) {
	t.Parallel()

	r := redisserver.Start(t)
	log := slog.New(slog.DiscardHandler)
	data, err := datadir.Open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = data.Close() })
	s, err := Open(t.Context(), Config{Data: data, Store: StoreOptions{URL: r.URL()}, Log: log, Meters: metrics.New(metrics.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.serving.mine()
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { // what opens the repositories takes longer than the lease lasts
		if now, err := s.serving.mine(); err != nil || !now.Expires.After(first.Expires) {
			return fmt.Errorf("the lease ends %v, as at first %v: %w", now.Expires, first.Expires, err)
		}
		return nil
	})
	if err := s.Records.Close(); err != nil {
		t.Fatal(err)
	}
	if err := serves(t, r, "next").take(t.Context()); err != nil {
		t.Errorf("the next process: %v", err)
	}
}

func TestWhatIsStoredAfterTheLeaseWasLostSaysHowThatCame(t *testing.T) {
	t.Parallel()

	r := redisserver.Start(t)
	s := serves(t, r, "one")
	if err := s.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.ttl = time.Second // looks often
	s.keep()
	t.Cleanup(s.stop)
	if err := s.ended(t.Context()); err == nil || !strings.Contains(err.Error(), "has lost records") {
		t.Errorf("the lease is lost, as %v", err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: "b"}); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "start it again") {
		t.Errorf("a Put afterwards: %v", err)
	}
}

func TestAProcessEndsWhereRedisLostRecords(t *testing.T) {
	t.Parallel()

	r := redisserver.Start(t)
	s := serves(t, r, "one")
	if err := s.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	s.ttl = time.Second // looks often
	if err := r.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, s); err == nil || !strings.Contains(err.Error(), "has lost records") {
		t.Errorf("the process ends with %v", err)
	}
}

func TestAPasswordIsAReferenceAndNeverShown(t *testing.T) {
	t.Setenv("REDIS_SECRET", "of the environment")
	for reference, want := range map[string]string{"env:REDIS_SECRET": "of the environment", "": ""} {
		if o, err := (StoreOptions{URL: "redis://h", Password: reference}).redis(); err != nil || o.Password != want {
			t.Errorf("%q: %q, %v", reference, o.Password, err)
		}
	}
	for _, o := range []StoreOptions{{URL: "redis://h", Password: "hunter2"}, {URL: "redis://h", SentinelPassword: "hunter2"}, {URL: "redis://h", Password: "env:ABSENT_HERE"}, {URL: "hunter2@h"}} {
		if _, err := o.redis(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
