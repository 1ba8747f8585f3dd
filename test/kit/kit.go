// Package kit is what the tests of all packages share: how to wait for what comes about
// by itself, and how to compare with a golden file.
package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Patience is how long a test waits for what has to come. It bounds a hang and measures
// nothing: a loaded machine may take a hundred times as long as a quiet one.
const Patience = 4 * time.Minute

// The pause between two looks grows with the time since the first: what comes soon is seen soon, and what takes long
// isn't slowed down by those who look.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	stayPause  = 50 * time.Millisecond // where all looks count alike
)

var update = flag.Bool("update", false, "write the golden files anew")

// final is the error of a look that needs no repetition.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final is err, for a look that found a state from which nothing comes any more: [Poll]
// and [Eventually] wait no longer.
func Final(err error) error { return final{err} }

// Poll calls look until it returns nil. Where limit passes or ctx ends first, or the error
// is [Final], it returns the last error of look, wrapped. It is for those who have no test to fail, or have more
// to say than the error; tests use [Eventually].
func Poll(ctx context.Context, limit time.Duration, look func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("still so after %s", limit))
	defer cancel()

	for begun := time.Now(); ; {
		err := look()
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(min(max(time.Since(begun)/5, firstPause), lastPause)):
		}
	}
}

// Eventually calls look until it returns nil, and fails the test with the last error when
// that takes longer than [Patience] or is [Final].
func Eventually(t testing.TB, look func() error) {
	t.Helper()
	EventuallyWithin(t, Patience, look)
}

// EventuallyWithin is [Eventually] for what takes longer by its nature, such as a virtual
// machine that boots.
func EventuallyWithin(t testing.TB, patience time.Duration, look func() error) {
	t.Helper()
	if err := Poll(alive(t), patience, look); err != nil {
		t.Fatal(err)
	}
}

// alive is the context of the test, without its end where the test is cleaning up: what is
// left behind is to go all the same.
func alive(t testing.TB) context.Context {
	if ctx := t.Context(); ctx.Err() == nil {
		return ctx
	}
	return context.WithoutCancel(t.Context())
}

// Stays looks for a while, and fails the test at the first error: it is for what must not
// happen, as nobody can wait for that.
func Stays(t testing.TB, while time.Duration, look func() error) {
	t.Helper()
	for end := time.Now().Add(while); ; time.Sleep(stayPause) {
		if err := look(); err != nil {
			t.Fatal(err)
		}
		if !time.Now().Before(end) {
			return
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

// Quick reports whether the test is to do part of what it can: a run with -short is there to be quick.
// The log of the test then says [InFull], by which "make test-all" knows that it has to run the test again.
func Quick(t testing.TB) bool {
	t.Helper()

	if testing.Short() {
		t.Log(InFull)
	}

	return testing.Short()
}

// InFull is what the log of a test says that did only a part because of -short.
const InFull = "a part of it ran: make test-all runs it in full"

// Long skips a test that takes long in a short run, as "make test" is one. "make test-all" runs it.
func Long(t testing.TB) {
	t.Helper()

	if testing.Short() {
		t.Skip("it takes long: make test-all runs it, and so does go test without -short")
	}
}
