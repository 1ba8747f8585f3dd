package bolt_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/storetest"
)

func open(t testing.TB, path string, options ...bolt.Option) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	var path string
	var clock func() time.Time
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T, now func() time.Time) store.Store {
			path, clock = filepath.Join(t.TempDir(), "jibe.db"), now
			return open(t, path, bolt.WithClock(now))
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, path, bolt.WithClock(clock))
		},
	})
}

func TestASecondOpeningIsRefusedByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	open(t, path)
	_, err := bolt.Open(path)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("second Open: %v", err)
	}
}

func TestOnlyTheOwnerReadsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	open(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
}

func TestADamagedFileIsAClearError(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	s, err := bolt.Open(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := s.Put(t.Context(), store.Record{Key: fmt.Sprint("k", i), Value: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	zeroed := slices.Clone(content)
	clear(zeroed[2*page:])
	for name, damaged := range map[string][]byte{
		"text":         []byte(strings.Repeat("this is no database\n", 1000)),
		"short":        content[:100],
		"truncated":    content[:3*page],
		"zeroed metas": append(make([]byte, 2*page), content[2*page:]...),
		"zeroed pages": zeroed,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := bolt.Open(path)
			if err == nil {
				_ = s.Close()
				t.Fatal("a damaged file was opened")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "backup") {
				t.Fatalf("the error doesn't say what happened, where, and what to do: %v", err)
			}
		})
	}
}

// A process may be killed when bbolt has made the file, and hasn't written to it.
func TestAnEmptyFileIsANewStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: "k", Value: []byte("v")}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAPathThatCannotBeIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "jibe.db")
	if _, err := bolt.Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("Open: %v", err)
	}
}

// A conflict shares its transaction with other writers: it must not take them
// down, nor leave a part of itself.
func TestAConflictFailsAlone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "jibe.db"))
	var g sync.WaitGroup
	var won, lost atomic.Int64
	for i := range 200 {
		g.Go(func() {
			own := fmt.Sprint("own/", i)
			_, err := s.Put(t.Context(), store.Record{Key: own + ".x"}, store.Record{Key: fmt.Sprint("contended/", i%10, ".x")})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, store.ErrConflict):
				lost.Add(1)
			default:
				t.Errorf("put: %v", err)
			}
		})
	}
	g.Wait()
	if won.Load() != 10 || lost.Load() != 190 {
		t.Fatalf("%d won, %d lost", won.Load(), lost.Load())
	}
	own, err := s.List(t.Context(), "own/", "", 0)
	if err != nil || len(own) != 10 {
		t.Fatalf("%d records of those that won, %v", len(own), err)
	}
}

// TestStoreDoesAsANaiveModelDoes compares random calls with a map.
func TestStoreDoesAsANaiveModelDoes(t *testing.T) {
	dir := t.TempDir()
	var runs atomic.Int64
	rapid.Check(t, func(r *rapid.T) {
		path := filepath.Join(dir, fmt.Sprint(runs.Add(1)))
		s, err := bolt.Open(path)
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = s.Close(); _ = os.Remove(path) }()
		model := map[string]store.Record{}
		counters, greatest := map[string]uint64{}, map[string]uint64{}
		key := rapid.SampledFrom([]string{"a", "b", "a/1", "a/2", "b/1", "log/"})
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				ks := rapid.SliceOfNDistinct(key, 1, 3, rapid.ID).Draw(r, "keys")
				var recs []store.Record
				conflict := false
				for _, k := range ks {
					rec := store.Record{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(r, "value")}
					if !strings.HasSuffix(k, "/") {
						rec.Version = model[k].Version
						if rapid.IntRange(0, 4).Draw(r, "stale") == 0 {
							rec.Version += rapid.Uint64Range(1, 2).Draw(r, "off")
							conflict = true
						}
						rec.Delete = rec.Version > 0 && rapid.Bool().Draw(r, "delete")
					}
					recs = append(recs, rec)
				}
				out, err := s.Put(t.Context(), recs...)
				if errors.Is(err, store.ErrConflict) != conflict || err != nil && !conflict {
					r.Fatalf("put: %v, conflict %v", err, conflict)
				}
				for i, rec := range out {
					if strings.HasSuffix(recs[i].Key, "/") {
						counters[recs[i].Key]++
						if want := fmt.Sprintf("%s%020d", recs[i].Key, counters[recs[i].Key]); rec.Key != want {
							r.Fatalf("completed to %q, want %q", rec.Key, want)
						}
					}
					if rec.Version <= greatest[rec.Key] {
						r.Fatalf("%s has version %d, and had %d", rec.Key, rec.Version, greatest[rec.Key])
					}
					greatest[rec.Key] = rec.Version
					if rec.Delete {
						delete(model, rec.Key)
					} else {
						model[rec.Key] = rec
					}
				}
			},
			"reopen": func(r *rapid.T) {
				if rapid.IntRange(0, 9).Draw(r, "really") > 0 {
					return
				}
				if err := s.Close(); err != nil {
					r.Fatal(err)
				}
				if s, err = bolt.Open(path); err != nil {
					r.Fatal(err)
				}
			},
			"compact": func(r *rapid.T) {
				err := s.Close()
				if err == nil {
					_, err = bolt.CompactAny(path)
				}
				if err == nil {
					s, err = bolt.Open(path)
				}
				if err != nil {
					r.Fatal(err)
				}
				if errs := s.Check(); len(errs) > 0 {
					r.Fatal(errs)
				}
			},
			"": func(r *rapid.T) {
				prefix := rapid.SampledFrom([]string{"", "a", "a/", "log/", "z"}).Draw(r, "prefix")
				after := rapid.SampledFrom([]string{"", "a", "a/1", "b", "log/00000000000000000002"}).Draw(r, "after")
				limit := rapid.IntRange(0, 3).Draw(r, "limit")
				var want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if strings.HasPrefix(k, prefix) && k > after && (limit == 0 || len(want) < limit) {
						want = append(want, k)
					}
				}
				recs, err := s.List(t.Context(), prefix, after, limit)
				if err != nil || len(recs) != len(want) {
					r.Fatalf("list(%q, %q, %d): %d records, want %q, %v", prefix, after, limit, len(recs), want, err)
				}
				for i, rec := range recs {
					m := model[want[i]]
					if rec.Key != want[i] || rec.Version != m.Version || string(rec.Value) != string(m.Value) {
						r.Fatalf("list gave %+v, want %+v", rec, m)
					}
				}
			},
		})
	})
}

// BenchmarkPut64 writes from 64 goroutines; each Put is durable when it returns.
func BenchmarkPut64(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "jibe.db"))
	value := make([]byte, 2000)
	work := make(chan int)
	var g sync.WaitGroup
	for range 64 {
		g.Go(func() {
			for i := range work {
				if _, err := s.Put(b.Context(), store.Record{Key: fmt.Sprint("operation/", i), Value: value}, store.Record{Key: "outbox/", Value: value}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	n := 0
	for b.Loop() {
		work <- n
		n++
	}
	close(work)
	g.Wait()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "puts/s")
}

// BenchmarkPutAlone is one writer: what an idle store answers in.
func BenchmarkPutAlone(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "jibe.db"))
	n := 0
	for b.Loop() {
		if _, err := s.Put(b.Context(), store.Record{Key: fmt.Sprint("operation/", n), Value: make([]byte, 2000)}); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

// BenchmarkPutWithManyFreePages is one writer on a file of which most is free, as after history
// was pruned. Its cost must be that of BenchmarkPutAlone.
func BenchmarkPutWithManyFreePages(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "jibe.db"))
	var recs []store.Record
	for i := range 20_000 {
		recs = append(recs, store.Record{Key: fmt.Sprintf("pruned/%d.", i), Value: make([]byte, 4000)})
	}
	recs = put(b, s, recs...)
	for i := range recs {
		recs[i].Delete = true
	}
	put(b, s, recs...)
	before, n := s.Written(), 0
	for b.Loop() {
		put(b, s, store.Record{Key: fmt.Sprint("operation/", n), Value: make([]byte, 2000)})
		n++
	}
	b.ReportMetric(float64(s.Written()-before)/float64(n), "written-B/op")
}
