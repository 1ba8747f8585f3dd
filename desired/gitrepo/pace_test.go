package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// limitedForge takes three pushes in two seconds; forgePace is how far apart they must be.
func limitedForge(t *testing.T) *httpForge {
	t.Helper()
	f := newHTTPForge(t)
	f.limit, f.within = 3, 2*time.Second
	return f
}

const forgePace = 2*time.Second/3 + time.Millisecond

func (f *httpForge) counts() (pushes, refused int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pushes, f.refused
}

func TestAForgeThatLimitsPushesRefusesNoneHoweverMuchIsWritten(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	const writers, lasts = 64, 5 * time.Second
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprint("replicas: ", replicas), func(t *testing.T) {
			f := limitedForge(t)
			s := sharedStore(t)
			var mu sync.Mutex
			var acked []string
			var took []time.Duration
			passed := 0 // of the pushes that came while one write waited, where that was long, the most
			// Each replica's turn is an interval and a push; the proposal's is one more.
			turns := replicas + 2
			long := time.Duration(turns)*forgePace + 8*time.Second
			var all sync.WaitGroup
			var repos []*Repo
			for p := range replicas {
				opt := Options{Remote: f.url, PushInterval: forgePace, PollInterval: 100 * time.Millisecond}
				var r *Repo
				if replicas == 1 {
					r = openRepo(t, opt)
				} else {
					r = replica(t, s, f.url, fmt.Sprint("replica-", p), opt)
				}
				repos = append(repos, r)
			}
			until := time.Now().Add(lasts)
			for w := range writers {
				r := repos[w%replicas]
				all.Go(func() {
					for i := 0; time.Now().Before(until); i++ {
						op := fmt.Sprintf("%d-%d", w, i)
						before, _ := f.counts()
						began := time.Now()
						rev, err := scale(t.Context(), r, w, op)
						if err != nil {
							t.Errorf("%s: %v", op, err)
							return
						}
						r.Note(rev.Commit, op+" COMPLETED")
						mu.Lock()
						acked, took = append(acked, op), append(took, time.Since(began))
						if after, _ := f.counts(); took[len(took)-1] > long {
							passed = max(passed, after-before)
						}
						mu.Unlock()
					}
				})
			}
			all.Go(func() { // a proposal is a push, too
				r := repos[0]
				kit.Until(t, "there is an instance", func() bool { return len(r.List()) > 0 })
				id := r.List()[0].Instance
				if _, err := r.Propose(t.Context(), "proposal", desired.Write{Instance: id, Subject: "s", Change: setLevel(id, 9)}); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			loud, _ := f.counts()
			onceEach(t, history(t, f.dir), acked)
			kit.Until(t, "the notes are there, which no commits take along any more", func() bool {
				text, err := tryGit(f.dir, "log", "--format=%N", "--notes=jibe", "main")
				return err == nil && strings.Count(text, "COMPLETED") == len(acked)
			})
			pushes, refused := f.counts()
			slices.Sort(took)
			most := took[len(took)-1]
			t.Logf("%d writes with %d pushes, %d at last; a write took %s in the middle, %s at most", len(acked), loud, pushes, took[len(took)/2], most)
			if refused > 0 {
				t.Errorf("%d of %d pushes were refused", refused, pushes)
			}
			// A slow machine is no fault, but that others are served all the time is.
			if most > long && passed > turns {
				t.Errorf("a write took %s, want %s at most; %d pushes came meanwhile, want %d", most, long, passed, turns)
			}
		})
	}
}

func TestThePushAfterAQuietTimeGoesAtOnceAndTheNextWaits(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := newHTTPForge(t)
	dir := filepath.Join(t.TempDir(), "desired.git")
	opt := Options{Dir: dir, Remote: f.url, PollInterval: time.Hour, PushInterval: MaxPushInterval}
	r := openRepo(t, opt)
	if _, err := scale(t.Context(), r, 1, "at-once"); err != nil {
		t.Fatal(err)
	}
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := scale(soon(), r, 1, "withdrawn"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a write that waits for the next push = %v", err)
	}
	if _, err := r.Propose(soon(), "proposal", desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 2)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a proposal that waits for the next push = %v", err)
	}
	if _, err := r.WriteVIM(soon(), "lab", "A VIM", nil, func([]byte) ([]byte, error) { return []byte("type: sim\n"), nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a VIM that waits for the next push = %v", err)
	}
	held := make(chan error)
	go func() {
		_, err := scale(t.Context(), r, 1, "held")
		held <- err
	}()
	kit.Until(t, "it waits", r.writer.waits)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-held; !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("a write that the interval holds up at the end = %v", err)
	}
	next := openRepo(t, opt)
	if _, err := scale(soon(), next, 1, "too-early"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the next process doesn't wait: %v", err)
	}
	onceEach(t, history(t, f.dir), []string{"at-once"})
}

func TestNotesAndPinsTravelWithTheCommitsInOnePush(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := newHTTPForge(t)
	r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, PushInterval: time.Millisecond})
	rev := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	before, _ := f.counts()
	r.Note(rev.Commit, "op-1 COMPLETED")
	pin := "refs/jibe/packages/" + rev.Tree // any tree will do
	runGit(t, r.opt.Dir, "update-ref", pin, rev.Tree)
	mustWrite(t, r, testID(1), "", 2)
	if after, _ := f.counts(); after != before+1 {
		t.Errorf("%d pushes, want one", after-before)
	}
	if got := runGit(t, f.dir, "rev-parse", "--verify", pin); got != rev.Tree {
		t.Errorf("the pin is %s", got)
	}
	if got := noteLines(t, f.dir, rev.Commit); !slices.Equal(got, []string{"op-1 COMPLETED"}) {
		t.Errorf("the note is %q", got)
	}

	// Others have written notes meanwhile.
	theirs := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", f.dir, theirs)
	runGit(t, theirs, "fetch", "-q", "origin", "refs/notes/jibe:refs/notes/jibe")
	runGit(t, theirs, "notes", "--ref=jibe", "append", "-m", "by another", rev.Commit)
	runGit(t, theirs, "push", "-q", "origin", "refs/notes/jibe")
	r.Note(rev.Commit, "op-2 COMPLETED")
	before, _ = f.counts()
	mustWrite(t, r, testID(1), "", 3)
	if after, _ := f.counts(); after != before+1 {
		t.Errorf("%d pushes, want one", after-before)
	}
	if got := strings.Join(noteLines(t, f.dir, rev.Commit), "\n"); !strings.Contains(got, "by another") || !strings.Contains(got, "op-2 COMPLETED") {
		t.Errorf("the notes aren't joined: %q", got)
	}
}

func TestNotesThatTheRemoteDoesNotTakeFailNoCommit(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, refuse := range map[string]func(t *testing.T, dir string, r *Repo){
		"others have written some": func(t *testing.T, dir string, _ *Repo) {
			tree := runGit(t, dir, "write-tree")
			runGit(t, dir, "update-ref", objects.NotesRef, runGit(t, dir, "commit-tree", "-m", "notes", tree))
		},
		"the ref is hidden": func(t *testing.T, dir string, _ *Repo) {
			runGit(t, dir, "config", "receive.hideRefs", "refs/notes")
		},
		"a hook refuses all": func(t *testing.T, dir string, _ *Repo) {
			hook := filepath.Join(dir, "hooks", "pre-receive")
			put(t, dir, "hooks/pre-receive", []byte("#!/bin/sh\n! grep -q refs/notes\n"))
			if err := os.Chmod(hook, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newHTTPForge(t)
			r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour})
			rev := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
			refuse(t, f.dir, r)
			r.Note(rev.Commit, "op-1 COMPLETED")
			kit.Until(t, "the note is written", func() bool { return !r.notes.waiting() })
			for level := range 3 {
				rev := mustWrite(t, r, testID(1), "", 2+level)
				if got := tipOf(t, f.dir); got != rev.Commit {
					t.Errorf("the remote is at %s, want %s", got, rev.Commit)
				}
			}
			if pushes, _ := f.counts(); pushes > 5 {
				t.Errorf("%d pushes of four commits", pushes)
			}
			if r.Health() != nil {
				t.Error(r.Health())
			}
			if name == "others have written some" {
				r.Poke()
				kit.Until(t, "the note is joined", func() bool {
					out, err := tryGit(f.dir, "notes", "--ref=jibe", "show", rev.Commit)
					return err == nil && out == "op-1 COMPLETED"
				})
			}
		})
	}
}

func TestItIsToldHowLongEachWriteWasHeldUpByTheInterval(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const interval = 4 * time.Second
	f := newHTTPForge(t)
	var mu sync.Mutex
	var held []time.Duration
	r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, PushInterval: interval,
		Held: func(d time.Duration) { mu.Lock(); held = append(held, d); mu.Unlock() }})
	// A machine may stall at any point: all that is known of a moment is what it was between.
	type moment struct{ from, to time.Time }
	var asked [3]moment
	asked[0].from = time.Now()
	if _, err := scale(t.Context(), r, 1, "at-once"); err != nil {
		t.Fatal(err)
	}
	asked[0].to = time.Now()
	var all sync.WaitGroup
	late := func(n int) {
		var done atomic.Bool
		asked[n].from = time.Now()
		all.Go(func() {
			defer done.Store(true)
			if _, err := scale(t.Context(), r, n, fmt.Sprint("late-", n)); err != nil {
				t.Error(err)
			}
		})
		kit.Until(t, "it waits, or did", func() bool {
			r.writer.mu.Lock()
			defer r.writer.mu.Unlock()
			return len(r.writer.queue) == n && len(r.pace.next) == 0 || done.Load() // and the writer waits with it
		})
		asked[n].to = time.Now()
	}
	late(1)
	kit.Pause(t.Context(), interval/2)
	late(2)
	all.Wait()
	end := time.Now()
	if len(held) != 3 {
		t.Fatalf("%d writes were held up: %v", len(held), held)
	}
	f.mu.Lock()
	came := slices.Clone(f.came)
	f.mu.Unlock()
	if most := asked[0].to.Sub(asked[0].from); held[0] > min(most, interval-1) {
		t.Errorf("the first was held up for %s within %s", held[0], most)
	}
	first, second := max(held[1], held[2]), min(held[1], held[2])
	if len(came) > 2 || second == 0 { // it stalled for so long that the second came when the first was let go on
		for n := 1; n <= 2; n++ {
			if most := end.Sub(asked[n].from); held[n] > most {
				t.Errorf("write %d was held up for %s within %s", n, held[n], most)
			}
		}
		return
	}
	for n, is := range map[int]time.Duration{1: first, 2: second} {
		least, most := interval-asked[n].to.Sub(came[0]), end.Sub(asked[n].from)
		if is < least || is > most {
			t.Errorf("write %d was held up for %s, want %s to %s", n, is, least, most)
		}
	}
	if least, most := asked[2].from.Sub(asked[1].to), asked[2].to.Sub(asked[1].from); first-second < least || first-second > most {
		t.Errorf("the first of them was held up for %s longer than the second, want %s to %s", first-second, least, most)
	}
}
