// Package kit is what the tests of all packages share: how to wait for what comes about
// by itself, and how to compare with a golden file.
package kit

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Patience is how long a test waits for what has to come. It bounds a hang and measures
// nothing: a loaded machine may take a hundred times as long as a quiet one.
const Patience = 2 * time.Minute

// pause is how long to wait between two looks.
const pause = 10 * time.Millisecond

var update = flag.Bool("update", false, "write the golden files anew")

// Eventually calls look until it returns nil, and fails the test with the last error when
// that takes longer than [Patience].
func Eventually(t testing.TB, look func() error) {
	t.Helper()
	EventuallyWithin(t, Patience, look)
}

// EventuallyWithin is [Eventually] for what takes longer by its nature, such as a virtual
// machine that boots.
func EventuallyWithin(t testing.TB, patience time.Duration, look func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %v", patience, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the test ended first: %v", err)
		case <-time.After(pause):
		}
	}
}

// Until waits until the condition holds; what says in words what is waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Eventually(t, func() error {
		if holds() {
			return nil
		}
		return errors.New("still waiting: " + what)
	})
}

// Golden compares got with the file at path ("testdata/render.golden"), which
// "go test -update" writes anew.
func Golden(t testing.TB, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got; go test -update writes it anew):\n%s", path, diff)
	}
}

// Updating says whether the golden files are written anew, for tests that remove those
// which nothing writes any more.
func Updating() bool { return *update }
