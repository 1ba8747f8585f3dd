package reconciler

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

func TestAnOperationIsExpectedToTakeAsLongAsTheLongestOfTheLastOfItsKind(t *testing.T) {
	t.Parallel()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	now := time.Now().Add(-24 * time.Hour)
	log, err := oplog.Open(t.Context(), db, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	// done puts an operation that was carried out for a time after an hour in STARTING.
	done := func(instance string, typ lcm.Type, automatic bool, took time.Duration, end lcm.Event) {
		t.Helper()
		made++
		rev := desired.Revision{Instance: instance, Dir: "instances/" + instance, Tree: fmt.Sprint(made), Commit: fmt.Sprint(made)}
		op, err := log.Born(t.Context(), lcm.Operation{ID: fmt.Sprint("op-", made), Instance: instance, Type: typ, Automatic: automatic, After: rev})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			event lcm.Event
			after time.Duration
		}{{lcm.Granted, time.Hour}, {end, took}} {
			now = now.Add(step.after)
			if _, err := log.Record(t.Context(), op.ID, func(op *lcm.Operation, _ *lcm.Instance) error {
				return op.Advance(step.event, now, nil)
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(typ lcm.Type, want time.Duration) {
		t.Helper()
		got, err := gate{oplog: log}.expected(t.Context(), "a", typ)
		if err != nil || got != want {
			t.Errorf("%s is expected to take %s, want %s: %v", typ, got, want, err)
		}
	}
	expect(lcm.Scale, 0)
	done("a", lcm.Scale, false, 9*time.Minute, lcm.Converged)
	expect(lcm.Scale, 9*time.Minute)
	for range recent - 1 {
		done("a", lcm.Scale, false, 2*time.Minute, lcm.Converged)
	}
	done("b", lcm.Scale, false, 40*time.Minute, lcm.Converged)
	done("a", lcm.Heal, true, 50*time.Minute, lcm.Converged)
	expect(lcm.Scale, 9*time.Minute)
	expect(lcm.Heal, 0) // nobody asked for that one
	done("a", lcm.Scale, false, 3*time.Minute, lcm.Converged)
	expect(lcm.Scale, 3*time.Minute) // the longest of all was too long ago
	done("a", lcm.Scale, false, 30*time.Minute, lcm.Broke)
	expect(lcm.Scale, 3*time.Minute) // how long a failure takes tells nothing
}
