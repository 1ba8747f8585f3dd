package replicas

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/app/metrics"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// TestRecordsWithoutASealAreBelievedOnce has an earlier version's records sealed by the first start of a
// data directory that served from the Redis already, and by no other.
func TestRecordsWithoutASealAreBelievedOnce(t *testing.T) {
	t.Parallel()

	r := redisserver.Start(t)
	attacker, err := redis.Open(t.Context(), redis.Options{URL: r.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = attacker.Close() })
	add := func() {
		t.Helper()
		id := uuid.NewString()
		if _, err := attacker.Put(t.Context(), store.Record{Key: "subscription/" + id, Value: []byte(`{"id":"` + id + `","callbackUri":"https://nfvo.example"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	keys, used, fresh := t.TempDir(), t.TempDir(), t.TempDir()
	keeper, err := secret.Open(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := datadir.WriteDurably(used+"/"+datadir.StorePlace, r.URL()+"\n"); err != nil {
		t.Fatal(err)
	}

	add()
	for i, start := range []struct {
		dir      string
		unproven int
	}{{fresh, 1}, {fresh, 1}, {used, 0}, {used, 1}, {used, 2}} {
		if i > 2 {
			add()
		}
		log := slog.New(slog.DiscardHandler)
		data, err := datadir.Open(start.dir, log)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Config{Data: data, Keeper: keeper, Store: StoreOptions{URL: r.URL()}, Log: log, Meters: metrics.New(metrics.Config{})})
		if err != nil {
			t.Fatal(err)
		}
		if found, err := notify.FindUnproven(context.Background(), s.Records, s.Sealer()); err != nil || len(found) != start.unproven {
			t.Errorf("start %d: %v aren't proven, want %d (%v)", i, found, start.unproven, err)
		}
		if err := s.Records.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Data.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
