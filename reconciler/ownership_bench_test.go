package reconciler

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// BenchmarkLeaseOfAPass is what the lease adds to each pass: taken and given back, as one that isn't
// kept would be, or kept; and what it takes to own an instance for the first time.
func BenchmarkLeaseOfAPass(b *testing.B) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	m, err := members.Join(b.Context(), members.Config{Store: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Leave(b.Context()) //nolint:errcheck // the store goes with the benchmark
	b.Run("each", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lease, err := db.Acquire(b.Context(), "instance/each", m.Holder(), time.Minute)
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Release(b.Context(), lease); err != nil {
				b.Fatal(err)
			}
		}
	})
	own := newOwnership(Config{Store: db, Member: m, Now: time.Now})
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t, err := own.take(b.Context(), "kept")
			if err != nil {
				b.Fatal(err)
			}
			_, end := t.under(b.Context())
			end()
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for n := range b.N {
			if _, err := own.take(b.Context(), fmt.Sprint("first", n)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
