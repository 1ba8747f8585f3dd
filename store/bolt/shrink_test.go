package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// always makes Shrink copy any file.
func always() bolt.Option { return bolt.WithShrinkBounds(0, -1) }

func put(t testing.TB, s store.Store, recs ...store.Record) []store.Record {
	t.Helper()
	out, err := s.Put(t.Context(), recs...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func shrink(t testing.TB, s *bolt.Store) {
	t.Helper()
	if err := s.Shrink(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// sound fails the test if the pages of the file contradict each other.
func sound(t testing.TB, s *bolt.Store) {
	t.Helper()
	for _, err := range s.Check() {
		t.Error(err)
	}
}

func TestAFileThatIsMostlyFreeShrinksWhileItIsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path, bolt.WithShrinkBounds(1<<20, 0.5))
	const n = 1000
	var recs []store.Record
	for i := range n {
		recs = append(recs, store.Record{Key: fmt.Sprintf("r/%04d.", i), Value: make([]byte, 4000)})
	}
	recs = put(t, s, recs...)
	full := size(t, path)
	shrink(t, s)
	if now := size(t, path); now != full {
		t.Fatalf("a file without free pages went from %d bytes to %d", full, now)
	}
	for i := range recs {
		recs[i].Delete = i%10 > 0
	}
	put(t, s, recs...)
	shrink(t, s)
	small := size(t, path)
	if small > full/2 {
		t.Fatalf("a tenth of %d bytes is left, and the file has %d", full, small)
	}
	sound(t, s)
	shrink(t, s) // safe to repeat
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := open(t, path).List(t.Context(), "r/", "", 0)
	if err != nil || len(left) != n/10 {
		t.Fatalf("%d records are left, %v", len(left), err)
	}
}

// Writers, readers and Shrink work at once; what was answered is there, exactly once.
func TestNothingIsLostOrComesBackWhileTheFileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path, always())
	const writers, each = 8, 150
	var versions sync.Map // of what is kept: key -> version
	var g sync.WaitGroup
	for w := range writers {
		g.Go(func() {
			for i := range each {
				kept := store.Record{Key: fmt.Sprintf("kept/%d.%03d", w, i), Value: make([]byte, 700)}
				gone := store.Record{Key: fmt.Sprintf("gone/%d.%03d", w, i)}
				out, err := s.Put(t.Context(), kept, gone, store.Record{Key: "log/"})
				if err == nil {
					out[1].Delete, out[0].Value = true, []byte("second")
					out, err = s.Put(t.Context(), out[0], out[1])
				}
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				versions.Store(kept.Key, out[0].Version)
				if r, err := s.Get(t.Context(), kept.Key); err != nil || string(r.Value) != "second" || r.Version != out[0].Version {
					t.Errorf("get what was just answered: %d %q, %v", r.Version, r.Value, err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { g.Wait(); close(written) }()
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		shrink(t, s)
		if err := s.Probe(t.Context(), 100); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		for prefix, want := range map[string]int{"kept/": writers * each, "gone/": 0, "log/": writers * each} {
			recs, err := s.List(t.Context(), prefix, "", 0)
			if err != nil || len(recs) != want {
				t.Errorf("%s: %d records, want %d, %v", prefix, len(recs), want, err)
			}
			for i, r := range recs {
				if version, _ := versions.Load(r.Key); prefix == "kept/" && (r.Version != version || string(r.Value) != "second") {
					t.Errorf("%s has version %d, want %v", r.Key, r.Version, version)
				}
				if want := fmt.Sprintf("log/%020d", i+1); prefix == "log/" && r.Key != want {
					t.Errorf("%s, want %s", r.Key, want)
				}
			}
		}
		sound(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, path)
	}
}

func TestAReaderEndsOnTheFileOnWhichItBegan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path, always())
	put(t, s, store.Record{Key: "a/1.", Value: []byte("one")}, store.Record{Key: "a/2.", Value: []byte("two")})
	var g sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		g.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if recs, err := s.List(t.Context(), "a/", "", 0); err != nil || len(recs) != 2 {
					t.Errorf("%d records, %v", len(recs), err)
					return
				}
			}
		})
	}
	for range 50 {
		shrink(t, s)
	}
	close(stop)
	g.Wait()
}

// A process that waits for the lock waits for the file that it opened. That it isn't given
// the lock of a file that a Shrink has replaced is what this holds.
func TestNobodyElseGetsTheFileWhileItShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path, always())
	put(t, s, store.Record{Key: "a"})
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			other, err := bolt.Open(path, bolt.WithLockTimeout(time.Second))
			if err == nil {
				t.Error("two have the file open")
				_ = other.Close()
			} else if !strings.Contains(err.Error(), "another process") {
				t.Error(err)
			}
		})
	}
	opened := make(chan struct{})
	go func() { g.Wait(); close(opened) }()
	for {
		shrink(t, s)
		select {
		case <-opened:
			return
		default:
		}
	}
}

func TestAShrinkEndsWithItsContextAndWithTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path, always())
	put(t, s, store.Record{Key: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shrink(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	var g sync.WaitGroup
	for range 3 {
		g.Go(func() {
			for {
				if err := s.Shrink(t.Context()); errors.Is(err, store.ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	put(t, s, store.Record{Key: "b"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	g.Wait()
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if recs, err := open(t, path).List(t.Context(), "", "", 0); err != nil || len(recs) != 2 {
		t.Errorf("%d records, %v", len(recs), err)
	}
}

func TestWhatACrashLeftOfAShrinkIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path)
	put(t, s, store.Record{Key: "a"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".shrinking", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, always())
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Fatalf("left behind: %q", left)
	}
	shrink(t, s)
	if _, err := s.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

func TestACopyThatCannotBeMadeLeavesTheStoreAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path, always())
	put(t, s, store.Record{Key: "a"})
	// A folder that isn't empty is in the place of the copy.
	if err := os.MkdirAll(filepath.Join(path+".shrinking", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Shrink(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("shrink: %v", err)
	}
	put(t, s, store.Record{Key: "b"})
	if err := os.RemoveAll(path + ".shrinking"); err != nil {
		t.Fatal(err)
	}
	shrink(t, s)
	if recs, err := s.List(t.Context(), "", "", 0); err != nil || len(recs) != 2 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
}

func TestAnAnsweredWriteOutlivesAKillWhileTheFileShrinks(t *testing.T) {
	kit.Long(t)
	random := rand.New(rand.NewPCG(7, 11)) // the same points each time, as far as a machine can
	path := filepath.Join(t.TempDir(), "jibe.db")
	answered := map[string]bool{}
	for range 12 {
		cmd := child(t, "shrink", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after, late, n := 1+random.IntN(200), time.Duration(random.IntN(5000))*time.Microsecond, 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			answered[lines.Text()] = true
			if n++; n == after {
				kit.Pause(t.Context(), late) // anywhere between two answers
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		if n < after {
			t.Fatalf("the child ended by itself after %d answers", n)
		}
		s := open(t, path)
		sound(t, s)
		kept, err := s.List(t.Context(), "kept/", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, r := range kept {
			have[strings.TrimPrefix(r.Key, "kept/")] = true
		}
		for i := range answered {
			if !have[i] {
				t.Errorf("what was answered is lost: %s", i)
			}
			if _, err := s.Get(t.Context(), "gone/"+i); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("what was deleted is back: %s, %v", i, err)
			}
		}
		if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// shrinkUntilKilled writes, deletes and shrinks at once, and prints the name of each record
// once the record is durable, and the one beside it gone.
func shrinkUntilKilled(path string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	s, err := bolt.Open(path, always())
	fail(err)
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d.%d.%d", os.Getpid(), w, i)
				out, err := s.Put(context.Background(), store.Record{Key: "gone/" + name}, store.Record{Key: "log/", Value: make([]byte, 3000)})
				fail(err)
				out[0].Delete = true
				_, err = s.Put(context.Background(), out[0], store.Record{Key: "kept/" + name})
				fail(err)
				fmt.Println(name)
			}
		}()
	}
	for {
		fail(s.Shrink(context.Background()))
	}
}

// unclosed returns a copy of the file of a store that was never closed, and in which many
// pages are free.
func unclosed(t *testing.T) (path string, records int) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, from)
	var recs []store.Record
	for i := range 3000 {
		recs = append(recs, store.Record{Key: fmt.Sprintf("r/%04d.", i), Value: make([]byte, rand.IntN(6000))})
	}
	recs = put(t, s, recs...)
	for i := range recs {
		recs[i].Delete = i%3 > 0
	}
	put(t, s, recs...)
	put(t, s, store.Record{Key: "log/"})
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "unclosed.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, 1000
}

func TestTheFreePagesOfAFileThatWasNotClosedAreFound(t *testing.T) {
	path, records := unclosed(t)
	before := size(t, path)
	s := open(t, path)
	sound(t, s)
	if recs, err := s.List(t.Context(), "r/", "", 0); err != nil || len(recs) != records {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	for i := range 500 {
		put(t, s, store.Record{Key: fmt.Sprintf("new/%d.", i), Value: make([]byte, 3000)})
	}
	if after := size(t, path); after > before+before/10 {
		t.Fatalf("the file grew from %d bytes to %d, although it had free pages", before, after)
	}
	sound(t, s)
}

func TestAFileThatWasNotClosedAndIsDamagedIsAClearError(t *testing.T) {
	path, _ := unclosed(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for name, damage := range map[string]func(b []byte) []byte{
		"truncated":  func(b []byte) []byte { return b[:len(b)/4] },
		"zeroed":     func(b []byte) []byte { clear(b[10*page:]); return b },
		"mixed up":   func(b []byte) []byte { copy(b[10*page:], b[20*page:]); return b },
		"two pages":  func(b []byte) []byte { return b[:2*page] },
		"only metas": func(b []byte) []byte { clear(b[2*page:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "damaged.db")
			if err := os.WriteFile(path, damage(append([]byte(nil), content...)), 0o600); err != nil {
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

// A version of before reads the file with bbolt's own means.
func TestAFileIsBboltsOwnWhetherItWasClosedOrNot(t *testing.T) {
	path, records := unclosed(t)
	for range 2 {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *bbolt.Tx) error {
			n := 0
			_ = tx.Bucket([]byte("records")).ForEach(func(k, _ []byte) error {
				if strings.HasPrefix(string(k), "r/") {
					n++
				}
				return nil
			})
			if n != records {
				t.Errorf("%d records", n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, path) // its list of free pages is in the file
		put(t, s, store.Record{Key: "log/"})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What a Put costs doesn't depend on how much of the file is free.
func TestAPutWritesNoListOfFreePages(t *testing.T) {
	path, _ := unclosed(t)
	for _, reopen := range []bool{false, true} {
		s := open(t, path)
		put(t, s, store.Record{Key: "first/"}) // bbolt may write the list at the first
		before := s.Written()
		for range 10 {
			put(t, s, store.Record{Key: "log/"})
		}
		if each := (s.Written() - before) / 10; each > 10*int64(os.Getpagesize()) {
			t.Errorf("a Put wrote %d bytes (closed before: %v)", each, reopen)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
