package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

func TestACopyIsTheStoreAtTheMomentItIsTaken(t *testing.T) {
	dir := t.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(key string) {
		t.Helper()
		if _, err := s.Put(t.Context(), store.Record{Key: key, Value: []byte(key)}); err != nil {
			t.Error(err)
		}
	}
	for i := range 2000 {
		put(fmt.Sprintf("before/%04d", i))
	}
	// Writers go on while it is copied; what was answered before Take is in, what begins after isn't.
	var answered sync.Map
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("during/%d/%06d", w, i)
				put(key)
				answered.Store(key, true)
			}
		})
	}
	name := filepath.Join(dir, "copy.db")
	c, err := s.Copy(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	must := map[string]bool{}
	answered.Range(func(k, _ any) bool { must[k.(string)] = true; return true })
	if err := c.Take(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	writers.Wait()
	put("after")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	facts, err := bolt.Inspect(t.Context(), name)
	if err != nil || facts.Crashed {
		t.Fatalf("the copy: %+v, %v", facts, err)
	}
	to, err := bolt.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for i := range 2000 {
		must[fmt.Sprintf("before/%04d", i)] = true
	}
	for key := range must {
		if rec, err := to.Get(t.Context(), key); err != nil || string(rec.Value) != key || rec.Version != 1 {
			t.Fatalf("%s in the copy: %v, %v", key, rec, err)
		}
	}
	if _, err := to.Get(t.Context(), "after"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was written after the moment is in the copy: %v", err)
	}
	if facts.Records < len(must) {
		t.Errorf("%d records are counted, want %d at least", facts.Records, len(must))
	}
}

func TestACopyThatIsGivenUpLeavesNothingAndHoldsNothingUp(t *testing.T) {
	dir := t.TempDir()
	s, err := bolt.Open(filepath.Join(dir, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name := filepath.Join(dir, "copy.db")
	for range 2 {
		c, err := s.Copy(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file of a copy that was given up: %v", err)
		}
	}
	put(t, s, store.Record{Key: "a"})

	ctx, cancel := context.WithCancel(t.Context())
	c, err := s.Copy(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Take(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("Close after the end of ctx = %v", err)
	}
	if left, _ := filepath.Glob(name + "*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := s.Copy(ctx, name); !errors.Is(err, context.Canceled) {
		t.Errorf("Copy after the end of ctx = %v", err)
	}
}

func TestADamagedFileIsInspectedWithoutAPanic(t *testing.T) {
	name := filepath.Join(t.TempDir(), "store.db")
	s, err := bolt.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, err := s.Put(t.Context(), store.Record{Key: fmt.Sprint(i), Value: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := bolt.Inspect(t.Context(), name)
	if err != nil || f.Records != 500 || f.Size == 0 {
		t.Fatalf("the whole file: %+v, %v", f, err)
	}
	for _, size := range []int{0, 100, 4096, int(f.Size) / 2} {
		if err := os.WriteFile(name, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Inspect(t.Context(), name); err == nil {
			t.Errorf("%d of %d bytes are taken for a store", size, len(whole))
		}
	}
}
