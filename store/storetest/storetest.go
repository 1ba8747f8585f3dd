// Package storetest is the suite that every store.Store passes. The caller gives it a way to
// open the store under test.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// Harness opens the store under test.
type Harness struct {
	// Open opens an empty store whose leases expire by now.
	Open func(t *testing.T, now func() time.Time) store.Store
	// Reopen closes the store and opens it again on the same data; nil where the
	// data doesn't outlive the store.
	Reopen func(t *testing.T, s store.Store) store.Store
	// Pass lets time pass for the leases of the store that was opened last; nil where they
	// expire by the clock that Open was given.
	Pass func(t *testing.T, d time.Duration)
}

// patience bounds a hang and measures nothing: a loaded machine is slow.
const patience = 2 * time.Minute

// Run runs the whole suite. Each test opens a store of its own.
func Run(t *testing.T, h Harness) {
	clock := &clock{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	each := func(name string, f func(t *testing.T, s store.Store)) {
		t.Run(name, func(t *testing.T) {
			clock.passed = func(d time.Duration) {
				if h.Pass != nil {
					h.Pass(t, d)
				}
			}
			s := h.Open(t, clock.now)
			t.Cleanup(func() { _ = s.Close() })
			f(t, s)
		})
	}
	each("AnAbsentRecordIsNotFound", absent)
	each("APutIsReadBackWithItsVersion", readBack)
	each("APutWithAnOldVersionConflictsAndWritesNothing", conflict)
	each("ADeletedRecordIsGoneAndMayComeAgain", deleted)
	each("NoKeyHasAVersionTwice", versions)
	each("BadKeysAreRefused", badKeys)
	each("AListIsPagedInOrderOfKeys", paging)
	each("APrefixListsOnlyWhatBeginsWithIt", prefixes)
	each("AppendKeysGrowAndNeverComeTwice", appendKeys)
	each("AppendedRecordsBecomeVisibleInOrder", appendVisibility)
	each("OneOfManyWritersWinsEachVersion", manyWriters)
	each("AMoveBetweenTwoRecordsIsNeverHalfSeen", allOrNone)
	each("LargeAndEmptyValuesAreKept", values)
	each("WhatIsReturnedIsTheCallersOwn", ownMemory)
	each("AnEndedContextStopsACall", contexts)
	each("AClosedStoreSaysSo", closed)
	each("ALeaseHasOneHolder", lease)
	each("ALeaseRefusesNonsense", leaseNonsense)
	each("AttachedLeasesLastWithTheirSession", attached)
	each("APutUnderALostLeaseIsFenced", fenced)
	each("ChangesAreToldInTheOrderOfPuts", changes)
	each("OneWhoFollowsMissesNothing", followed)
	each("AMarkIsNotBehindWhatIsRead", markOfWhatIsRead)
	each("ASessionThatExpiresLosesWhatIsAttached", func(t *testing.T, s store.Store) { sessionExpiry(t, s, clock) })
	if h.Reopen != nil {
		each("RecordsAndCountersOutliveTheStore", func(t *testing.T, s store.Store) { durable(t, s, h.Reopen) })
		each("ALeaseExpiresAndItsTokenGrows", func(t *testing.T, s store.Store) { leaseExpiry(t, s, clock) })
	}
}

type clock struct {
	passed func(d time.Duration)

	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	defer c.passed(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func put(t *testing.T, s store.Store, recs ...store.Record) []store.Record {
	t.Helper()
	out, err := s.Put(t.Context(), recs...)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return out
}

func rec(key string, version uint64, value string) store.Record {
	return store.Record{Key: key, Version: version, Value: []byte(value)}
}

func keys(recs []store.Record) []string {
	var ks []string
	for _, r := range recs {
		ks = append(ks, r.Key)
	}
	return ks
}

func absent(t *testing.T, s store.Store) {
	if _, err := s.Get(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get of an absent record: %v, want ErrNotFound", err)
	}
	if recs, err := s.List(t.Context(), "", "", 0); err != nil || len(recs) != 0 {
		t.Fatalf("List of an empty store: %v, %v", recs, err)
	}
	if recs, err := s.Put(t.Context()); err != nil || len(recs) != 0 {
		t.Fatalf("Put of nothing: %v, %v", recs, err)
	}
}

func readBack(t *testing.T, s store.Store) {
	for version := range uint64(3) {
		value := fmt.Sprint("value ", version)
		stored := put(t, s, rec("a", version, value))
		if len(stored) != 1 || stored[0].Version != version+1 || stored[0].Key != "a" {
			t.Fatalf("Put returned %+v", stored)
		}
		got, err := s.Get(t.Context(), "a")
		if err != nil || got.Version != version+1 || string(got.Value) != value || got.Key != "a" {
			t.Fatalf("Get: %+v, %v", got, err)
		}
	}
}

func conflict(t *testing.T, s store.Store) {
	put(t, s, rec("a", 0, "1"))
	put(t, s, rec("a", 1, "2"))
	for _, version := range []uint64{0, 1, 3} {
		_, err := s.Put(t.Context(), rec("new", 0, "x"), rec("log/", 0, "x"), rec("a", version, "x"))
		if !errors.Is(err, store.ErrConflict) {
			t.Fatalf("Put at version %d of 2: %v, want ErrConflict", version, err)
		}
	}
	if _, err := s.Put(t.Context(), rec("absent", 1, "x")); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Put at version 1 of an absent record: %v, want ErrConflict", err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: "a", Version: 1, Delete: true}); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Delete at an old version: %v, want ErrConflict", err)
	}
	recs, err := s.List(t.Context(), "", "", 0)
	if err != nil || len(recs) != 1 || string(recs[0].Value) != "2" {
		t.Fatalf("after the conflicts: %+v, %v", recs, err)
	}
}

func deleted(t *testing.T, s store.Store) {
	put(t, s, rec("a", 0, "1"), rec("b", 0, "1"))
	put(t, s, store.Record{Key: "a", Version: 1, Delete: true}, rec("b", 1, "2"))
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get of a deleted record: %v", err)
	}
	put(t, s, rec("a", 0, "again"))
	if got, err := s.Get(t.Context(), "a"); err != nil || string(got.Value) != "again" {
		t.Fatalf("a record that came again: %q, %v", got.Value, err)
	}
}

func badKeys(t *testing.T, s store.Store) {
	long := strings.Repeat("k", 512)
	put(t, s, rec(long, 0, "as long as may be"))
	for name, recs := range map[string][]store.Record{
		"empty":            {rec("", 0, "x")},
		"NUL":              {rec("a\x00b", 0, "x")},
		"not UTF-8":        {rec("a\xff", 0, "x")},
		"too long":         {rec(long+"k", 0, "x")},
		"twice":            {rec("a", 0, "x"), rec("a", 0, "y")},
		"append at":        {rec("log/", 1, "x")},
		"append deletes":   {{Key: "log/", Delete: true}},
		"append too long":  {rec(strings.Repeat("k", 500)+"/", 0, "x")},
		"second one wrong": {rec("good", 0, "x"), rec("", 0, "x")},
	} {
		if _, err := s.Put(t.Context(), recs...); err == nil || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	if recs, err := s.List(t.Context(), "", "", 0); err != nil || len(recs) != 1 {
		t.Errorf("the refused were stored: %q, %v", keys(recs), err)
	}
}

func paging(t *testing.T, s store.Store) {
	var want []string
	for _, i := range rand.Perm(57) {
		key := fmt.Sprintf("p/%03d", i)
		want = append(want, key)
		put(t, s, rec(key, 0, "x"))
	}
	slices.Sort(want)
	for _, limit := range []int{0, -1, 1, 7, 57, 1000} {
		var got []string
		after := ""
		for {
			recs, err := s.List(t.Context(), "p/", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if limit > 0 && len(recs) > limit {
				t.Fatalf("a page of %d records, limit %d", len(recs), limit)
			}
			if len(recs) == 0 {
				break
			}
			got = append(got, keys(recs)...)
			after = recs[len(recs)-1].Key
		}
		if !slices.Equal(got, want) {
			t.Fatalf("limit %d: %q", limit, got)
		}
	}
	// The next page begins after the last key, even if the record there is gone.
	put(t, s, store.Record{Key: "p/010", Version: 1, Delete: true})
	recs, err := s.List(t.Context(), "p/", "p/010", 1)
	if err != nil || !slices.Equal(keys(recs), []string{"p/011"}) {
		t.Fatalf("after a deleted record: %q, %v", keys(recs), err)
	}
}

func prefixes(t *testing.T, s store.Store) {
	for _, k := range []string{"a", "a/1", "a/2", "ab/1", "b/1", "ä/1"} {
		put(t, s, rec(k, 0, "x"))
	}
	for _, c := range []struct {
		prefix, after string
		want          []string
	}{
		{"", "", []string{"a", "a/1", "a/2", "ab/1", "b/1", "ä/1"}},
		{"a/", "", []string{"a/1", "a/2"}},
		{"a", "", []string{"a", "a/1", "a/2", "ab/1"}},
		{"a/", "a/1", []string{"a/2"}},
		{"a/", "A", []string{"a/1", "a/2"}},
		{"a/", "b", nil},
		{"b/", "a/2", []string{"b/1"}},
		{"ä", "", []string{"ä/1"}},
		{"c", "", nil},
	} {
		recs, err := s.List(t.Context(), c.prefix, c.after, 0)
		if err != nil || !slices.Equal(keys(recs), c.want) {
			t.Errorf("List(%q, %q) = %q, %v; want %q", c.prefix, c.after, keys(recs), err, c.want)
		}
	}
}

func appendKeys(t *testing.T, s store.Store) {
	out := put(t, s, rec("log/", 0, "1"), rec("other/", 0, "1"), rec("log/", 0, "2"))
	all := []string{out[0].Key, out[2].Key}
	for _, r := range out {
		prefix, number, _ := strings.Cut(r.Key, "/")
		if len(number) != 20 || strings.Trim(number, "0123456789") != "" || r.Version != 1 || prefix == "" {
			t.Fatalf("completed to %+v", r)
		}
	}
	put(t, s, store.Record{Key: out[0].Key, Version: 1, Delete: true}, store.Record{Key: out[2].Key, Version: 1, Delete: true})
	all = append(all, put(t, s, rec("log/", 0, "3"))[0].Key)
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Fatalf("keys given: %q", all)
	}
}

// appendVisibility reads on from the last key seen while others append. Such a reader must
// miss no record.
func appendVisibility(t *testing.T, s store.Store) {
	const writers, each = 8, 25
	var g sync.WaitGroup
	for w := range writers {
		g.Go(func() {
			for i := range each {
				if _, err := s.Put(t.Context(), rec("log/", 0, fmt.Sprint(w, " ", i))); err != nil {
					t.Errorf("append: %v", err)
					return
				}
			}
		})
	}
	seen := map[string]bool{}
	after := ""
	for deadline := time.Now().Add(patience); len(seen) < writers*each && time.Now().Before(deadline) && !t.Failed(); {
		recs, err := s.List(t.Context(), "log/", after, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			seen[string(r.Value)] = true
			after = r.Key
		}
	}
	g.Wait()
	if len(seen) != writers*each {
		t.Fatalf("a reader that goes on from the last key saw %d of %d records", len(seen), writers*each)
	}
}

func manyWriters(t *testing.T, s store.Store) {
	const writers, raises = 16, 20
	var g sync.WaitGroup
	var conflicts atomic.Int64
	for range writers {
		g.Go(func() {
			for done := 0; done < raises; {
				old, err := s.Get(t.Context(), "n")
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Errorf("get: %v", err)
					return
				}
				_, err = s.Put(t.Context(), store.Record{Key: "n", Version: old.Version, Value: append(old.Value, '.')})
				switch {
				case err == nil:
					done++
				case errors.Is(err, store.ErrConflict):
					conflicts.Add(1)
				default:
					t.Errorf("put: %v", err)
					return
				}
			}
		})
	}
	g.Wait()
	got, err := s.Get(t.Context(), "n")
	if err != nil || len(got.Value) != writers*raises || got.Version != writers*raises {
		t.Fatalf("%d raises at version %d after %d (%d conflicts), %v", len(got.Value), got.Version, writers*raises, conflicts.Load(), err)
	}
}

// allOrNone moves a token between two records; exactly one has it at any time.
func allOrNone(t *testing.T, s store.Store) {
	put(t, s, rec("pair/a", 0, "token"), rec("pair/b", 0, ""))
	stop := make(chan struct{})
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				recs, err := s.List(t.Context(), "pair/", "", 0)
				if err != nil || len(recs) != 2 {
					t.Errorf("list: %d records, %v", len(recs), err)
					return
				}
				a, b := recs[0], recs[1]
				if (len(a.Value) > 0) == (len(b.Value) > 0) {
					t.Errorf("half of a Put is seen: %q, %q", a.Value, b.Value)
					return
				}
				a.Value, b.Value = b.Value, a.Value
				if _, err := s.Put(t.Context(), a, b); err != nil && !errors.Is(err, store.ErrConflict) {
					t.Errorf("put: %v", err)
					return
				}
			}
		})
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && !t.Failed(); {
		r, err := s.Get(t.Context(), "pair/a")
		if err != nil {
			t.Fatal(err)
		}
		if r.Version > 100 {
			break
		}
	}
	close(stop)
	g.Wait()
}

func values(t *testing.T, s store.Store) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	put(t, s, store.Record{Key: "big", Value: big}, store.Record{Key: "empty"}, store.Record{Key: "binary", Value: []byte{0, 255, 0}})
	for key, want := range map[string][]byte{"big": big, "empty": nil, "binary": {0, 255, 0}} {
		if got, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(got.Value, want) {
			t.Errorf("%s: %d bytes, %v", key, len(got.Value), err)
		}
	}
}

func ownMemory(t *testing.T, s store.Store) {
	mine := []byte("value")
	put(t, s, store.Record{Key: "a", Value: mine})
	copy(mine, "XXXXX")
	got, err := s.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	copy(got.Value, "YYYYY")
	if again, err := s.Get(t.Context(), "a"); err != nil || string(again.Value) != "value" {
		t.Fatalf("%q, %v", again.Value, err)
	}
}

func contexts(t *testing.T, s store.Store) {
	put(t, s, rec("a", 0, "x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Get":     func() error { _, err := s.Get(ctx, "a"); return err },
		"List":    func() error { _, err := s.List(ctx, "", "", 0); return err },
		"Put":     func() error { _, err := s.Put(ctx, rec("b", 0, "x")); return err },
		"Acquire": func() error { _, err := s.Acquire(ctx, "l", "me", time.Minute); return err },
		"Release": func() error { return s.Release(ctx, store.Lease{Name: "l", Holder: "me"}) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
	if _, err := s.Get(t.Context(), "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a cancelled Put wrote: %v", err)
	}
}

func closed(t *testing.T, s store.Store) {
	put(t, s, rec("a", 0, "x"))
	// A call under way either writes or says that the store is closed.
	var g sync.WaitGroup
	for i := range 16 {
		g.Go(func() {
			if _, err := s.Put(t.Context(), rec(fmt.Sprint("c", i), 0, "x")); err != nil && !errors.Is(err, store.ErrClosed) {
				t.Errorf("put while closing: %v", err)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	g.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	for name, call := range map[string]func() error{
		"Get":     func() error { _, err := s.Get(t.Context(), "a"); return err },
		"List":    func() error { _, err := s.List(t.Context(), "", "", 0); return err },
		"Put":     func() error { _, err := s.Put(t.Context(), rec("b", 0, "x")); return err },
		"Acquire": func() error { _, err := s.Acquire(t.Context(), "l", "me", time.Minute); return err },
		"Release": func() error { return s.Release(t.Context(), store.Lease{Name: "l", Holder: "me"}) },
	} {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

func durable(t *testing.T, s store.Store, reopen func(*testing.T, store.Store) store.Store) {
	put(t, s, rec("a", 0, "1"), rec("gone", 0, "1"))
	put(t, s, rec("a", 1, "2"), store.Record{Key: "gone", Version: 1, Delete: true})
	last := remade(t, s, "gone", 3)
	first := put(t, s, rec("log/", 0, "x"))[0].Key
	put(t, s, store.Record{Key: first, Version: 1, Delete: true})
	one := acquire(t, s, "l", "one", time.Hour)

	s = reopen(t, s)
	t.Cleanup(func() { _ = s.Close() })
	recs, err := s.List(t.Context(), "", "", 0)
	if err != nil || len(recs) != 1 || recs[0].Key != "a" || recs[0].Version != 2 || string(recs[0].Value) != "2" {
		t.Fatalf("after reopening: %+v, %v", recs, err)
	}
	if second := put(t, s, rec("log/", 0, "x"))[0].Key; second <= first {
		t.Fatalf("key %q after %q", second, first)
	}
	if again := put(t, s, rec("gone", 0, "again")); again[0].Version <= last {
		t.Fatalf("version %d after %d", again[0].Version, last)
	}
	// Whether the lease outlives a store depends on who else may open it; its token
	// never goes back.
	if again := acquire(t, s, "l", "one", time.Hour); again.Token < one.Token {
		t.Fatalf("token %d, was %d", again.Token, one.Token)
	}
}
