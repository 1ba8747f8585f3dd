package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
)

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

func compact(t testing.TB, path string) (freed int64) {
	t.Helper()
	freed, err := bolt.CompactHalf(path)
	if err != nil {
		t.Fatal(err)
	}
	return freed
}

// sound fails the test if the pages of the file contradict each other.
func sound(t testing.TB, s *bolt.Store) {
	t.Helper()
	for _, err := range s.Check() {
		t.Error(err)
	}
}

// mostlyFree returns a file that was closed, with ten of a hundred records left in it.
func mostlyFree(t *testing.T) (path string, left int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jibe.db")
	s := open(t, path)
	var recs []store.Record
	for i := range 500 {
		recs = append(recs, store.Record{Key: fmt.Sprintf("r/%04d.", i), Value: make([]byte, 4000)})
	}
	recs = put(t, s, recs...)
	for i := range recs {
		recs[i].Delete = i%10 > 0
	}
	put(t, s, recs...)
	put(t, s, store.Record{Key: "log/"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, 50
}

func TestAFileThatIsMostlyFreeIsCompacted(t *testing.T) {
	t.Parallel()
	path, left := mostlyFree(t)
	full := size(t, path)

	if freed, err := bolt.Compact(path, time.Second); freed != 0 || err != nil {
		t.Fatalf("a small file: %d bytes were freed, %v", freed, err)
	}
	if freed := compact(t, path); freed != full-size(t, path) || size(t, path) > full/2 {
		t.Fatalf("%d bytes were freed of %d, and the file has %d", freed, full, size(t, path))
	}
	if freed := compact(t, path); freed != 0 {
		t.Errorf("a file without much free space became %d bytes smaller", freed)
	}

	s := open(t, path)
	sound(t, s)
	recs, err := s.List(t.Context(), "r/", "", 0)
	if err != nil || len(recs) != left || recs[0].Version != 2 || len(recs[0].Value) != 4000 {
		t.Fatalf("%d records are left, %v", len(recs), err)
	}
	if next := put(t, s, store.Record{Key: "log/"}); next[0].Key != "log/00000000000000000002" {
		t.Errorf("the numbers go on with %s", next[0].Key)
	}
	if freed, err := bolt.CompactAny(filepath.Join(t.TempDir(), "absent.db")); freed != 0 || err != nil {
		t.Errorf("no file: %d, %v", freed, err)
	}
}

func TestAFileInUseIsNotCompacted(t *testing.T) {
	t.Parallel()
	path, _ := mostlyFree(t)
	open(t, path)
	if _, err := bolt.CompactAny(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("compact a file in use: %v", err)
	}
}

// Of several processes that start, one has the file at a time, and each finds what was answered.
func TestOnlyOneHasTheFileWhileItIsCompacted(t *testing.T) {
	t.Parallel()
	path, left := mostlyFree(t)
	var having atomic.Int32
	var g sync.WaitGroup
	for w := range 4 {
		g.Go(func() {
			if _, err := bolt.CompactAny(path); err != nil && !strings.Contains(err.Error(), "another process") {
				t.Error(err)
			}
			s, err := bolt.Open(path, bolt.WithLockTimeout(kit.Patience))
			if err != nil {
				t.Error(err)
				return
			}
			if having.Add(1) > 1 {
				t.Error("two have the file open")
			}
			put(t, s, store.Record{Key: fmt.Sprintf("by/%d.", w)})
			having.Add(-1)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()

	recs, err := open(t, path).List(t.Context(), "", "", 0)
	if err != nil || len(recs) != left+1+4 {
		t.Errorf("%d records, %v", len(recs), err)
	}
}

func TestWhatACrashLeftOfACompactionIsRemoved(t *testing.T) {
	t.Parallel()
	path, left := mostlyFree(t)
	if err := os.WriteFile(path+".shrinking", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	compact(t, path)
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Fatalf("left behind: %q", left)
	}

	if err := os.WriteFile(path+".shrinking", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Fatalf("left behind: %q", left)
	}
	if recs, err := s.List(t.Context(), "r/", "", 0); err != nil || len(recs) != left {
		t.Fatalf("%d records, %v", len(recs), err)
	}
}

// A compaction that ends at any of its steps leaves a file with all records.
func TestACompactionThatFailsLeavesTheFileAsItWas(t *testing.T) {
	t.Parallel()
	path, left := mostlyFree(t)
	before := size(t, path)

	// The copy can't be written further than the limit of the child, as on a full disk.
	text, err := child(t, "compact-full", path).Output()
	if err != nil || !strings.Contains(string(text), path) || !strings.Contains(string(text), syscall.EFBIG.Error()) {
		t.Fatalf("%v: %s", err, text)
	}
	if leftover, _ := filepath.Glob(path + ".*"); len(leftover) > 0 {
		t.Errorf("left behind: %q", leftover)
	}
	if now := size(t, path); now > before+before/10 {
		t.Errorf("the file has %d bytes, after %d", now, before)
	}

	s := open(t, path)
	sound(t, s)
	if recs, err := s.List(t.Context(), "r/", "", 0); err != nil || len(recs) != left {
		t.Fatalf("%d records, %v", len(recs), err)
	}
}

// compactOnAFullDisk compacts where no file can grow beyond 64 KiB.
func compactOnAFullDisk(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		fmt.Println("limit:", err)
		os.Exit(1)
	}
	_, err := bolt.CompactAny(path)
	fmt.Println(err)
}

func TestAnAnsweredWriteOutlivesAKillInACompaction(t *testing.T) {
	kit.Long(t)
	random := rand.New(rand.NewPCG(7, 11)) // the same points each time, as far as a machine can
	path := filepath.Join(t.TempDir(), "jibe.db")
	answered := map[string]bool{}
	for range 12 {
		cmd := child(t, "compact", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after, late, n := 1+random.IntN(100), time.Duration(random.IntN(5000))*time.Microsecond, 0
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
		for i := range answered {
			if _, err := s.Get(t.Context(), "kept/"+i); err != nil {
				t.Errorf("what was answered is lost: %s, %v", i, err)
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

// compactUntilKilled writes, deletes and compacts in turn, and prints the name of each record once
// the record is durable, and its companion gone.
func compactUntilKilled(path string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	for i := 0; ; i++ {
		s, err := bolt.Open(path)
		fail(err)
		name := fmt.Sprintf("%d.%d", os.Getpid(), i)
		out, err := s.Put(context.Background(), store.Record{Key: "gone/" + name, Value: make([]byte, 300_000)})
		fail(err)
		out[0].Delete = true
		_, err = s.Put(context.Background(), out[0], store.Record{Key: "kept/" + name})
		fail(err)
		fmt.Println(name)
		fail(s.Close())
		_, err = bolt.CompactAny(path)
		fail(err)
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
