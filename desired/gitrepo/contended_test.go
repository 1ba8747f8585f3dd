package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// person works on an instance of their own in a clone of the remote.
type person struct {
	t      *testing.T
	dir    string
	n      int // of the instance
	pushed int
}

func newPerson(t *testing.T, remote string, n int) *person {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "person")
	runGit(t, "", "clone", "-q", remote, dir)
	return &person{t: t, dir: dir, n: n}
}

// push commits a change and pushes it, rebased as often as others were faster. It returns the
// operation that the commit names.
func (p *person) push() (op string, err error) {
	op = fmt.Sprintf("person-%d-%d", p.n, p.pushed)
	p.pushed++
	put(p.t, p.dir, shardDir(testID(p.n))+"/vnf.yaml", vnfFile(testID(p.n), p.pushed))
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", op + "\n\n" + desired.TrailerOperation + ": " + op}} {
		if out, err := tryGit(p.dir, args...); err != nil {
			return op, fmt.Errorf("%s: %w: %s", op, err, out)
		}
	}
	for p.t.Context().Err() == nil {
		if _, err := tryGit(p.dir, "push", "-q", "origin", "HEAD:main"); err == nil {
			return op, nil
		}
		if out, err := tryGit(p.dir, "pull", "-q", "--rebase", "origin", "main"); err != nil {
			return op, fmt.Errorf("%s: rebase: %w: %s", op, err, out)
		}
	}
	return op, p.t.Context().Err()
}

// exchanges counts what a repository has done.
type exchanges struct{ pushes, fetches, moved atomic.Int64 }

func (x *exchanges) observe(command string, _ time.Duration, err error) {
	switch {
	case command == "push":
		x.pushes.Add(1)
	case command == "fetch":
		x.fetches.Add(1)
	case errors.Is(err, git.ErrRefMoved):
		x.moved.Add(1)
	}
}

// Pushes that each waited for an interval would take longer than the test lets them: a push which git has not even sent
// doesn't wait for it, nor for anything else.
func TestAPushThatOthersWereFasterThanIsMadeAgainAtOnceAfterOneFetch(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const faster = 5
	for _, interval := range []time.Duration{0, MaxPushInterval} {
		t.Run(fmt.Sprint("push interval ", interval), func(t *testing.T) {
			f := newHTTPForge(t)
			var did exchanges
			r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, PushInterval: interval, Observe: did.observe})
			p := newPerson(t, f.url, 2)
			before := did.fetches.Load()
			runs := 0
			ctx, cancel := context.WithTimeout(t.Context(), (faster-1)*MaxPushInterval)
			defer cancel()
			rev, err := r.Write(ctx, desired.Write{Instance: testID(1), Dir: shardDir(testID(1)), Subject: "s",
				Change: func(_ desired.Revision, _ desired.Files) (desired.Files, error) {
					// Between the fetch and the push.
					if runs++; runs <= faster {
						if _, err := p.push(); err != nil {
							return nil, err
						}
					}
					return desired.Files{"vnf.yaml": vnfFile(testID(1), 1)}, nil
				}})
			if err != nil || ctx.Err() != nil {
				t.Fatal(err, ctx.Err())
			}
			if got := tipOf(t, f.dir); got != rev.Commit {
				t.Errorf("the remote is at %s, want %s", got, rev.Commit)
			}
			if n, m := did.pushes.Load(), did.moved.Load(); n != faster+1 || m != faster {
				t.Errorf("%d pushes, %d of them in vain, want %d and %d", n, m, faster+1, faster)
			}
			if n := did.fetches.Load() - before; n != faster {
				t.Errorf("%d fetches, want one for each push in vain: %d", n, faster)
			}
			if sent, _ := f.counts(); sent != faster+1 { // the person's, and the last
				t.Errorf("the forge got %d pushes, want %d", sent, faster+1)
			}
		})
	}
}

func TestWritesThatComeWhileAPushIsMadeAgainGoWithIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const others = 5
	f := newHTTPForge(t)
	var did exchanges
	r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, Observe: did.observe})
	p := newPerson(t, f.url, 100)
	var all sync.WaitGroup
	var late []error
	var mu sync.Mutex
	ran := false
	_, err := r.Write(t.Context(), desired.Write{Instance: testID(0), Dir: shardDir(testID(0)), Subject: "s",
		Change: func(desired.Revision, desired.Files) (desired.Files, error) {
			if !ran {
				ran = true
				for i := range others {
					all.Go(func() {
						_, err := scale(t.Context(), r, i+1, fmt.Sprint("late-", i))
						mu.Lock()
						defer mu.Unlock()
						late = append(late, err)
					})
				}
				kit.Until(t, "they wait", func() bool {
					r.writer.mu.Lock()
					defer r.writer.mu.Unlock()
					return len(r.writer.queue) == others
				})
				if _, err := p.push(); err != nil {
					return nil, err
				}
			}
			return desired.Files{"vnf.yaml": vnfFile(testID(0), 1)}, nil
		}})
	all.Wait()
	if err = errors.Join(append(late, err)...); err != nil {
		t.Fatal(err)
	}
	if n := did.pushes.Load(); n != 2 {
		t.Errorf("%d pushes of %d writes, want one in vain and one for all", n, others+1)
	}
	if n := len(history(t, f.dir)); n != others+1 { // the first names no operation, the person's does
		t.Errorf("%d commits name an operation, want %d", n, others+1)
	}
}

func TestWritesOfReplicasLandOnceEachWhilePeoplePushAllTheTime(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	const replicas, writers, lasts = 3, 6, 5 * time.Second
	f := newHTTPForge(t)
	s := sharedStore(t)
	var did exchanges
	var repos []*Repo
	for p := range replicas {
		repos = append(repos, replica(t, s, f.url, fmt.Sprint("replica-", p), Options{Observe: did.observe}))
	}
	var mu sync.Mutex
	var acked []string
	var took []time.Duration
	ack := func(op string) { mu.Lock(); acked = append(acked, op); mu.Unlock() }
	until := time.Now().Add(lasts)
	var all sync.WaitGroup
	all.Go(func() {
		p := newPerson(t, f.url, 100)
		for time.Now().Before(until) {
			op, err := p.push()
			if err != nil {
				t.Error(err)
				return
			}
			ack(op)
			kit.Pause(t.Context(), 100*time.Millisecond)
		}
	})
	for w := range writers {
		all.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				op, began := fmt.Sprintf("%d-%d", w, i), time.Now()
				if _, err := scale(t.Context(), repos[w%replicas], w, op); err != nil {
					t.Errorf("%s: %v", op, err)
					return
				}
				ack(op)
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	onceEach(t, history(t, f.dir), acked)
	slices.Sort(took)
	t.Logf("%d writes, %d of people; half took %s, the slowest %s; %d pushes, %d in vain, %d fetches", len(took), len(acked)-len(took),
		took[len(took)/2], took[len(took)-1], did.pushes.Load(), did.moved.Load(), did.fetches.Load())
}

// As long as somebody else moves a branch of the remote, whose git has a lock then, nobody else can.
func TestWhatMeetsAPushOfSomebodyElseAtTheRemoteIsMadeWhenThatIsOver(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge, PollInterval: time.Hour})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	put(t, forge, "hooks/pre-receive", []byte("#!/bin/sh\necho >>tried\n")) // it runs before the branch is locked
	if err := os.Chmod(filepath.Join(forge, "hooks", "pre-receive"), 0o700); err != nil {
		t.Fatal(err)
	}
	for locked, write := range map[string]func() error{
		"main": func() error { _, err := scale(t.Context(), r, 1, "met"); return err },
		branch: func() error { _, err := r.Propose(t.Context(), branch, proposal(1, 5)); return err },
	} {
		t.Run(locked, func(t *testing.T) {
			put(t, forge, "tried", nil)
			lock := filepath.Join(forge, "refs", "heads", locked+".lock")
			put(t, filepath.Dir(lock), filepath.Base(lock), nil)
			done := make(chan error, 1)
			go func() { done <- write() }()
			kit.Until(t, "it is tried again, or given up", func() bool {
				tried, err := os.ReadFile(filepath.Join(forge, "tried"))
				return err == nil && len(tried) > 1 || len(done) > 0
			})
			if err := os.Remove(lock); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	onceEach(t, history(t, forge), []string{"met"})

	// A lock that stays was left by a crash there.
	lock := filepath.Join(forge, "refs", "heads", "main.lock")
	put(t, filepath.Dir(lock), filepath.Base(lock), nil)
	r.move.Lock()
	r.overtaken = time.Now().Add(-git.StaleLock)
	r.move.Unlock()
	if _, err := scale(t.Context(), r, 1, "kept out"); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("beside a lock that stays: %v", err)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if _, err := scale(t.Context(), r, 1, "after it"); err != nil {
		t.Error(err)
	}
}
