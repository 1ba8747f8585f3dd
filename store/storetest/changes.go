package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

func mark(t *testing.T, s store.Store) store.Mark {
	t.Helper()
	m, err := s.Mark(t.Context())
	if err != nil {
		t.Fatalf("mark: %v", err)
	}
	return m
}

// changesSince returns what was put after a Mark, of which there must be something.
func changesSince(t *testing.T, s store.Store, after store.Mark) ([]store.Change, store.Mark) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, next, err := s.Changes(ctx, after)
	if err != nil {
		t.Fatalf("changes: %v", err)
	}
	if !after.Before(next) {
		t.Fatalf("changes after %+v go on behind %+v", after, next)
	}
	return got, next
}

func changes(t *testing.T, s store.Store) {
	put(t, s, rec("before", 0, "x"))
	from := mark(t, s)
	put(t, s, rec("a", 0, "1"), rec("b", 0, "1"))
	appended := put(t, s, rec("n/", 0, "1"))[0].Key
	middle := mark(t, s)
	put(t, s, rec("a", 1, "2"))
	put(t, s, store.Record{Key: "b", Version: 1, Delete: true})
	if _, err := s.Put(t.Context(), rec("a", 1, "conflict")); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	end := mark(t, s)
	for _, c := range []struct {
		after store.Mark
		want  []store.Change
	}{
		{from, []store.Change{{Key: "a", Version: 1}, {Key: "b", Version: 1}, {Key: appended, Version: 1}, {Key: "a", Version: 2}, {Key: "b"}}},
		{middle, []store.Change{{Key: "a", Version: 2}, {Key: "b"}}},
	} {
		if got, next := changesSince(t, s, c.after); !slices.Equal(got, c.want) || next != end {
			t.Errorf("changes after %+v: %+v, go on behind %+v, want %+v and %+v", c.after, got, next, c.want, end)
		}
	}
	// Nothing was put since: it waits until ctx ends, or there is something.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got, next, err := s.Changes(ctx, end); !errors.Is(err, context.DeadlineExceeded) || len(got) != 0 || next != end {
		t.Fatalf("changes while nothing is put: %+v, %+v, %v", got, next, err)
	}
	waits := make(chan []store.Change)
	go func() {
		got, _, _ := s.Changes(t.Context(), end)
		waits <- got
	}()
	late := put(t, s, rec("late", 0, "x"))[0]
	select {
	case got := <-waits:
		if !slices.Equal(got, []store.Change{{Key: "late", Version: late.Version}}) {
			t.Fatalf("one who waited was told of %+v", got)
		}
	case <-time.After(patience):
		t.Fatal("one who waits isn't told of a change")
	}
	for _, strange := range []store.Mark{{Epoch: end.Epoch + 1, Put: end.Put}, {Epoch: end.Epoch, Put: end.Put + 1000}} {
		if _, _, err := s.Changes(t.Context(), strange); !errors.Is(err, store.ErrLost) {
			t.Errorf("changes after %+v, which never was: %v, want ErrLost", strange, err)
		}
	}
}

// followed has several writers, and one who follows and ends with what is stored.
func followed(t *testing.T, s store.Store) {
	const writers, puts = 8, 50
	at := mark(t, s)
	for w := range writers {
		go func() {
			for n := range uint64(puts) {
				_, err := s.Put(t.Context(), rec(fmt.Sprint("w/", w), n, fmt.Sprint(n)))
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
			}
		}()
	}
	seen := map[string]uint64{}
	done := 0
	for done < writers {
		var got []store.Change
		got, at = changesSince(t, s, at)
		for _, c := range got {
			if c.Version <= seen[c.Key] {
				t.Fatalf("told of %+v after version %d", c, seen[c.Key])
			}
			if seen[c.Key] = c.Version; c.Version == puts {
				done++
			}
		}
	}
}

// markOfWhatIsRead has readers see each Put as soon as anybody can: the Mark that they take then isn't behind it.
func markOfWhatIsRead(t *testing.T, s store.Store) {
	const puts = 300
	before := mark(t, s).Put
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for last := uint64(0); last < puts; {
				r, err := s.Get(t.Context(), "a")
				switch {
				case errors.Is(err, store.ErrNotFound):
					continue
				case t.Context().Err() != nil:
					return
				case err != nil:
					t.Errorf("get: %v", err)
					return
				}
				m, err := s.Mark(t.Context())
				if err != nil || m.Put < before+r.Version {
					t.Errorf("the mark is %+v, %v, but Put %d has been read", m, err, before+r.Version)
					return
				}
				last = r.Version
			}
		})
	}
	for n := range uint64(puts) { // the first makes version 1
		put(t, s, rec("a", n, "x"))
	}
	g.Wait()
}
