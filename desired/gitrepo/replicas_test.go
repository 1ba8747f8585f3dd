package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	storebranch "github.com/jibe-vnfm/jibe/store/branch"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func sharedStore(t *testing.T) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// replica opens a mirror of the remote that shares the store with others.
func replica(t *testing.T, s store.Store, remote, name string, opt Options) *Repo {
	t.Helper()
	opt.Remote = remote
	if opt.PollInterval == 0 {
		opt.PollInterval = time.Hour // whatever is seen is told of by the store
	}
	opt.Turn, opt.Accepted = storebranch.NewTurns(s, "main", name), storebranch.NewAccepted(s, "main", name)
	return openRepo(t, opt)
}

func TestManyWritersOfThreeMirrorsTakeTurnsWithoutLoss(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	const replicas, writers = 3, 32
	forge := bareRemote(t)
	put(t, forge, "hooks/pre-receive", []byte("#!/bin/sh\nexec sleep 0.05\n"))
	if err := os.Chmod(filepath.Join(forge, "hooks", "pre-receive"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := sharedStore(t)
	var pushes, inVain, done atomic.Int64
	var mu sync.Mutex
	var acked []string
	half := make([]int64, replicas) // of the writes of each, when half of all were done
	count := make([]atomic.Int64, replicas)
	var repos []*Repo // all are there before the first writes, else it would be done before the last begins
	for p := range replicas {
		repos = append(repos, replica(t, s, forge, fmt.Sprint("replica-", p), Options{
			MaxBatch: 8, // so that each has to take several turns
			Observe: func(command string, _ time.Duration, err error) {
				switch {
				case command == "push":
					pushes.Add(1)
				case errors.Is(err, git.ErrRefMoved):
					inVain.Add(1)
				}
			},
		}))
	}
	var all sync.WaitGroup
	for p, r := range repos {
		for i := range writers {
			all.Go(func() {
				op := fmt.Sprintf("%d-%d", p, i)
				rev, err := scale(t.Context(), r, p*100+i, op)
				if err != nil {
					t.Errorf("%s: %v", op, err)
					return
				}
				count[p].Add(1)
				mu.Lock()
				defer mu.Unlock()
				if acked = append(acked, op); done.Add(1) == replicas*writers/2 {
					for q := range replicas {
						half[q] = count[q].Load()
					}
				}
				if ok, err := r.contains(t.Context(), rev.Commit); err != nil || !ok {
					t.Errorf("%s isn't in its own mirror: %v", op, err)
				}
			})
		}
	}
	all.Wait()
	onceEach(t, history(t, forge), acked)
	t.Logf("%d pushes, %d batches in vain, writes at half time: %v", pushes.Load(), inVain.Load(), half)
	if n := inVain.Load(); n > 6 {
		t.Errorf("%d of %d pushes were in vain", n, pushes.Load())
	}
	for p, n := range half {
		if n < writers/4 {
			t.Errorf("when half of all was written, replica %d had written %d of %d", p, n, writers)
		}
	}
}

func TestAWriteOfOneReplicaIsReadAtAnother(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	s := sharedStore(t)
	one, two := replica(t, s, forge, "one", Options{}), replica(t, s, forge, "two", Options{})
	for i := range 10 {
		writer, reader := one, two
		if i%2 == 1 {
			writer, reader = two, one
		}
		rev, err := scale(t.Context(), writer, 1, fmt.Sprint("op-", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.WaitFor(t.Context(), rev.Commit); err != nil {
			t.Fatal(err)
		}
		if got, _ := reader.Lookup(testID(1)); got.Tree != rev.Tree {
			t.Errorf("the other reads %+v, want %+v", got, rev)
		}
		kit.Until(t, "a replica that nobody asks follows too", func() bool { return reader.Head() == writer.Head() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := one.WaitFor(ctx, strings.Repeat("ab", 20)); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("a wait for what never comes = %v", err)
	}
}

func TestAMirrorThatIsBehindKnowsThatItIs(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := newHTTPForge(t)
	s := sharedStore(t)
	one, two := replica(t, s, f.url, "one", Options{}), replica(t, s, f.url, "two", Options{})
	first, err := scale(t.Context(), one, 1, "first")
	if err != nil {
		t.Fatal(err)
	}
	if err := two.WaitFor(t.Context(), first.Commit); err != nil {
		t.Fatal(err)
	}
	f.deny.Store("git-upload-pack") // two can't fetch
	second, err := scale(t.Context(), one, 1, "second")
	if err != nil {
		t.Fatal(err)
	}
	for commit, want := range map[string]bool{first.Commit: true, second.Commit: false, "": false} {
		if known, err := two.Knows(t.Context(), commit); err != nil || known != want {
			t.Errorf("two knows %q: %v, %v", commit, known, err)
		}
	}
	for _, commit := range []string{first.Commit, second.Commit, ""} {
		if known, err := one.Knows(t.Context(), commit); err != nil || !known {
			t.Errorf("one knows %q: %v, %v", commit, known, err)
		}
	}
	f.deny.Store("")
	kit.Until(t, "two follow", func() bool {
		known, err := two.Knows(t.Context(), second.Commit)
		return err == nil && known
	})
}

func TestWhatOneReplicaAcceptsTheOthersDoNotJudgeAnew(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	s := sharedStore(t)
	one, two := replica(t, s, forge, "one", Options{}), replica(t, s, forge, "two", Options{})
	for i := range check.MaxEnds + 1 {
		mustWrite(t, one, testID(i), shardDir(testID(i)), 1)
	}
	dir := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", forge, dir)
	runGit(t, dir, "rm", "-rq", "instances")
	commitPush(t, dir, "End them all")
	for _, r := range []*Repo{one, two} {
		r.Poke()
		kit.Until(t, "it holds the commit back", func() bool { return errors.Is(r.Health(), errHeld) })
	}
	if _, err := one.Accept(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the other takes it", func() bool { return len(two.List()) == 0 && two.Health() == nil })
	// An empty mirror judges no differently.
	three := replica(t, s, forge, "three", Options{})
	if three.Head() != one.Head() {
		t.Errorf("a new mirror is at %s, want %s", three.Head(), one.Head())
	}
	mustWrite(t, two, testID(1), shardDir(testID(1)), 1)

	// So it is with a history that was rewritten.
	accepted := two.Head()
	runGit(t, dir, "fetch", "-q", "origin")
	runGit(t, dir, "push", "-q", "-f", "origin", "HEAD~1:main")
	for _, r := range []*Repo{one, two} {
		r.Poke()
		kit.Until(t, "it holds the rewritten history back", func() bool { return errors.Is(r.Health(), errHeld) })
	}
	if _, err := Open(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "desired.git"), Remote: forge, Accepted: storebranch.NewAccepted(s, "main", "four")}); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("an empty mirror took a rewritten history: %v", err)
	}
	if _, err := two.Accept(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the other takes it", func() bool { return one.Head() == two.Head() && one.Health() == nil })
	if len(one.List()) != check.MaxEnds+1 {
		t.Errorf("%d instances", len(one.List()))
	}
	for _, r := range []*Repo{one, two} {
		if known, err := r.Knows(t.Context(), accepted); err != nil || !known {
			t.Errorf("what a person took out of the history is waited for: %v, %v", known, err)
		}
	}
}

func TestReplicasWithoutTheirStoreStillWriteWithoutLoss(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	s := sharedStore(t)
	one, two := replica(t, s, forge, "one", Options{}), replica(t, s, forge, "two", Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var acked []string
	for p, r := range []*Repo{one, two} {
		all.Go(func() {
			for i := range 5 {
				op := fmt.Sprintf("%d-%d", p, i)
				if _, err := scale(t.Context(), r, p, op); err != nil {
					t.Errorf("%s: %v", op, err)
					return
				}
				mu.Lock()
				acked = append(acked, op)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	onceEach(t, history(t, forge), acked)
}

func TestAFetchFromOneReplicaHasWhatAnotherHasPushed(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := newHTTPForge(t)
	s := sharedStore(t)
	one, two := replica(t, s, f.url, "one", Options{}), replica(t, s, f.url, "two", Options{})
	hasty := two.HTTPHandler().(Served)
	patient := hasty // it waits for the mirror longer than a fetch does, as a busy machine may need
	patient.CatchUp = func(context.Context) error { return hasty.CatchUp(t.Context()) }
	shownBy := func(s Served) string {
		served := httptest.NewServer(s)
		defer served.Close()
		commit, _, _ := strings.Cut(runGit(t, "", "ls-remote", served.URL, "refs/heads/main"), "\t")
		return commit
	}
	for i := range 5 {
		rev, err := scale(t.Context(), one, 1, fmt.Sprint("op-", i))
		if err != nil {
			t.Fatal(err)
		}
		if got := shownBy(patient); got != rev.Commit {
			t.Errorf("fetch %d shows %s, want %s", i, got, rev.Commit)
		}
	}
	before := one.Head()
	f.deny.Store("git-upload-pack") // two can't fetch
	if _, err := scale(t.Context(), one, 1, "behind"); err != nil {
		t.Fatal(err)
	}
	if got := shownBy(hasty); got != before {
		t.Errorf("while the forge is away, a fetch shows %s, want what the mirror has: %s", got, before)
	}
	f.deny.Store("")
	if got := shownBy(patient); got != one.Head() {
		t.Errorf("a fetch shows %s, want %s", got, one.Head())
	}
}
