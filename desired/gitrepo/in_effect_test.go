package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	storebranch "github.com/jibe-vnfm/jibe/store/branch"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// held waits until the branch is held, and checks that the commit stays in effect.
func wantHeld(t *testing.T, r *Repo, commit string, instances int) {
	t.Helper()
	kit.Until(t, "the branch is held", func() bool { return errors.Is(r.Health(), errHeld) })
	if got := r.Head(); got != commit {
		t.Errorf("commit %s is in effect, want %s", got, commit)
	}
	if got := len(r.List()); got != instances {
		t.Errorf("%d instances are obeyed, want %d", got, instances)
	}
	problems := r.Problems()
	if len(problems) != 1 || !strings.Contains(problems[0].Message, commit) || !strings.Contains(problems[0].Message, "jibe accept") {
		t.Errorf("the problems are %v", problems)
	}
	if _, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "Scale", Change: setLevel(testID(1), 3)}); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("a write to what is held: %v", err)
	}
}

func TestALocalBranchThatIsSetBackIsHeldUntilItIsPutBackOrAccepted(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	first := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	last := mustWrite(t, r, testID(2), shardDir(testID(2)), 1).Commit
	setTo := func(commit string) { runGit(t, r.opt.Dir, "update-ref", "refs/heads/main", commit) }

	setTo(first)
	wantHeld(t, r, last, 2)
	runGit(t, r.opt.Dir, "gc", "--quiet", "--prune=now")
	setTo(last) // its objects are there still
	kit.Until(t, "it is well again", func() bool { return r.Refresh(t.Context()) == nil && r.Health() == nil })
	notPinned := func() {
		t.Helper()
		if at, err := git.ReadRef(r.opt.Dir, inEffectRef); err != nil || at != "" {
			t.Errorf("%s is at %q, %v, and nothing is held", inEffectRef, at, err)
		}
	}
	notPinned()
	last = mustWrite(t, r, testID(1), "", 2).Commit

	other := runGit(t, r.opt.Dir, "-c", "user.name=p", "-c", "user.email=p", "commit-tree", "-m", "Another history", first+"^{tree}")
	setTo(other)
	wantHeld(t, r, last, 2)
	if _, err := r.Accept(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := len(r.List()); got != 1 || r.Head() != other || r.Health() != nil || len(r.Problems()) != 0 {
		t.Errorf("after it was accepted there are %d instances at %s, health %v, problems %v", got, r.Head(), r.Health(), r.Problems())
	}
	notPinned()
	last = mustWrite(t, r, testID(1), "", 3).Commit

	setTo(other) // what was accepted once isn't the next time
	wantHeld(t, r, last, 1)
}

func TestABranchThatWasSetBackWhileNothingRanIsHeldAtTheStart(t *testing.T) {
	t.Parallel()

	opt := Options{Dir: filepath.Join(t.TempDir(), "desired.git"), Accepted: storebranch.NewAccepted(sharedStore(t), "main", "test")}
	r := openRepo(t, opt)
	first := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	last := mustWrite(t, r, testID(2), shardDir(testID(2)), 1).Commit
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	runGit(t, opt.Dir, "update-ref", "refs/heads/main", first)

	again := openRepo(t, opt)
	wantHeld(t, again, last, 2)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	third := openRepo(t, opt)
	wantHeld(t, third, last, 2)
	if _, err := third.Accept(t.Context(), ""); err != nil || len(third.List()) != 1 {
		t.Errorf("accepted: %v, %d instances", err, len(third.List()))
	}
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	if fourth := openRepo(t, opt); fourth.Head() != first || fourth.Health() != nil {
		t.Errorf("what was accepted is asked for again: %s, %v", fourth.Head(), fourth.Health())
	}
}

func TestARepositoryWithoutWhatWasInEffectIsRefusedUnlessItsHeadIsAccepted(t *testing.T) {
	t.Parallel()

	opt := Options{Dir: filepath.Join(t.TempDir(), "desired.git"), Accepted: storebranch.NewAccepted(sharedStore(t), "main", "test")}
	r := openRepo(t, opt)
	first := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	copied := filepath.Join(t.TempDir(), "copy.git")
	runGit(t, filepath.Dir(copied), "clone", "-q", "--mirror", "--no-local", opt.Dir, copied)
	last := mustWrite(t, r, testID(2), shardDir(testID(2)), 1).Commit
	if err := errors.Join(r.Close(), os.RemoveAll(opt.Dir), os.Rename(copied, opt.Dir)); err != nil {
		t.Fatal(err)
	}

	_, err := Open(t.Context(), opt)
	for _, want := range []string{first, last, "--accept-head"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("the start says %v, without %s", err, want)
		}
	}
	opt.AcceptHead = last // another one than the branch's
	if _, err := Open(t.Context(), opt); !errors.Is(err, errHeld) {
		t.Fatalf("another commit was accepted: %v", err)
	}
	opt.AcceptHead = first
	if r := openRepo(t, opt); r.Head() != first || len(r.List()) != 1 || r.Health() != nil {
		t.Errorf("%d instances at %s, health %v", len(r.List()), r.Head(), r.Health())
	}
}

// A push of several commits, and a merge, go forwards.
func TestEveryWayForwardsIsFollowed(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	for range 3 {
		runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "More")
	}
	runGit(t, dir, "push", "-q", "origin", "HEAD:main")
	runGit(t, dir, "checkout", "-q", "-b", "side", "HEAD~2")
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "Beside")
	runGit(t, dir, "merge", "-q", "--no-edit", "main")
	runGit(t, dir, "push", "-q", "origin", "HEAD:main")
	tip := tipOf(t, dir)
	kit.Until(t, "the merge is followed", func() bool { return r.Head() == tip })
	if err := r.Health(); err != nil {
		t.Error(err)
	}
	if at, err := git.ReadRef(r.opt.Dir, inEffectRef); err != nil || at != "" {
		t.Errorf("%s is at %q, %v, and nothing was held", inEffectRef, at, err)
	}
}
