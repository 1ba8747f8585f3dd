package oplog

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store/bolt"
)

func TestDropThroughLeavesWhatIsNewer(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := Open(t.Context(), db, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var b batch
	const n = 2*dropPage + 3
	for range n {
		b.event(Event{Type: CreatedEvent, Instance: "i"})
	}
	if err := l.commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for _, through := range []uint64{0, 1, dropPage + 1, n - 2, n - 2, n + 7} {
		if err := l.DropThrough(t.Context(), through); err != nil {
			t.Fatal(err)
		}
		left, err := l.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if want := max(0, n-int(through)); len(left) != want || want > 0 && left[0].Seq != through+1 {
			t.Fatalf("%d events are left after dropping those through %d of %d, want %d from %d on", len(left), through, n, want, through+1)
		}
	}
}
