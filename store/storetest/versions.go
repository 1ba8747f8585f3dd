package storetest

import (
	"errors"
	"testing"

	"github.com/jibe-vnfm/jibe/store"
)

// remade puts a record that isn't there and removes it again, a number of times, and returns the
// last version that it had.
func remade(t *testing.T, s store.Store, key string, times int) (last uint64) {
	t.Helper()
	for range times {
		made := put(t, s, rec(key, 0, "x"))[0]
		if made.Version <= last {
			t.Fatalf("%s is made with version %d, and had %d", key, made.Version, last)
		}
		read, err := s.Get(t.Context(), key)
		if err != nil || read.Version != made.Version {
			t.Fatalf("%s: version %d is read, %d was returned, %v", key, read.Version, made.Version, err)
		}
		last = put(t, s, store.Record{Key: key, Version: made.Version, Delete: true})[0].Version
	}
	return last
}

func versions(t *testing.T, s store.Store) {
	// One key that lives long, so that its versions are far from those of the others.
	old := put(t, s, rec("old", 0, "x"))[0]
	for range 20 {
		old = put(t, s, rec("old", old.Version, "x"))[0]
	}
	remade(t, s, "short", 3)
	put(t, s, store.Record{Key: "old", Version: old.Version, Delete: true})
	from := mark(t, s)
	again := put(t, s, rec("old", 0, "again"), rec("n/", 0, "x"), rec("new", 0, "x"))
	if again[0].Version <= old.Version {
		t.Fatalf("a record that comes again has version %d, and had %d", again[0].Version, old.Version)
	}
	if again[1].Version != 1 {
		t.Errorf("a record whose key never comes again begins with version %d", again[1].Version)
	}
	told, _ := changesSince(t, s, from)
	for n, c := range told {
		if c.Version != again[n].Version || c.Key != again[n].Key {
			t.Errorf("%+v is told of %s, version %d", c, again[n].Key, again[n].Version)
		}
	}
	// Whoever has read the former one writes over nothing.
	for _, late := range []store.Record{rec("old", old.Version, "late"), {Key: "old", Version: old.Version, Delete: true}} {
		if _, err := s.Put(t.Context(), late); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a Put with the version of a former life: %v", err)
		}
	}
	for n, r := range again {
		next := put(t, s, rec(r.Key, r.Version, "next"))[0]
		read, err := s.Get(t.Context(), r.Key)
		if err != nil || next.Version != again[n].Version+1 || read.Version != next.Version || string(read.Value) != "next" {
			t.Errorf("the next Put of %s: %+v, read %+v, %v", r.Key, next, read, err)
		}
	}
}
