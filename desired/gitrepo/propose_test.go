package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const branch = "upgrades/amf"

// propose proposes a level for the n-th test instance.
func propose(t *testing.T, r *Repo, n, level int) desired.Revision {
	t.Helper()
	rev, err := r.Propose(t.Context(), branch, proposal(n, level))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func proposal(n, level int) desired.Write {
	return desired.Write{
		Instance: testID(n), Subject: fmt.Sprintf("Scale %d to %d", n, level), Change: setLevel(testID(n), level),
		Trailers: []desired.Trailer{{Key: desired.TrailerRequestedBy, Value: "follow"}},
	}
}

// level is that of the n-th test instance at a commit of a repository.
func level(t *testing.T, dir, commit string, n int) string {
	t.Helper()
	text := runGit(t, dir, "show", commit+":"+shardDir(testID(n))+"/vnf.yaml")
	_, after, _ := strings.Cut(text, "vdu1_aspect: ")
	return strings.TrimSpace(after)
}

func TestAProposalIsACommitOnABranchOfItsOwnAndChangesNothingThatRuns(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Now: tick()})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	mustWrite(t, r, testID(2), shardDir(testID(2)), 1)
	head, was := r.Head(), r.List()
	rev := propose(t, r, 1, 5)

	if r.Head() != head || tipOf(t, r.opt.Dir) != head || len(r.List()) != len(was) || r.List()[0] != was[0] || r.List()[1] != was[1] {
		t.Error("the branch that runs has moved")
	}
	if got := runGit(t, r.opt.Dir, "rev-parse", branch); got != rev.Commit {
		t.Errorf("the branch is at %s, not at %s", got, rev.Commit)
	}
	if got := runGit(t, r.opt.Dir, "rev-parse", branch+"^"); got != head {
		t.Errorf("the branch begins at %s, not at head", got)
	}
	if got := level(t, r.opt.Dir, branch, 1) + level(t, r.opt.Dir, branch, 2); got != "51" {
		t.Errorf("levels %s", got)
	}
	if got := runGit(t, r.opt.Dir, "log", "-1", "--format=%s|%an|%(trailers:key=Requested-By,valueonly)", branch); got != "Scale 1 to 5|Jibe|follow" {
		t.Error(got)
	}
	if got := runGit(t, r.opt.Dir, "diff", "--stat=200", "main", branch, "--", "."); strings.Count(got, "\n") != 1 {
		t.Errorf("more than one file differs: %s", got)
	}
	files, err := r.read.Files(t.Context(), rev)
	if err != nil || !strings.Contains(string(files[desired.InstanceFile]), "vdu1_aspect: 5") {
		t.Errorf("the revision on the branch can't be read: %v", err)
	}
	fsck(t, r)
}

func TestAProposalThatTheBranchHasAlreadyIsNotMadeAgain(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	propose(t, r, 1, 1)
	if out, err := tryGit(r.opt.Dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err == nil {
		t.Errorf("a branch was made at %s for nothing", out)
	}
	first := propose(t, r, 1, 2)
	if again := propose(t, r, 1, 2); again != first {
		t.Errorf("%+v after %+v", again, first)
	}
}

func TestProposalsStandOnEachOtherUntilTheBranchIsMerged(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	mustWrite(t, r, testID(2), shardDir(testID(2)), 1)
	first := propose(t, r, 1, 2)
	mustWrite(t, r, testID(3), shardDir(testID(3)), 1) // the branch doesn't know it
	second := propose(t, r, 2, 2)
	if got := runGit(t, r.opt.Dir, "log", "--format=%s", "--first-parent", first.Commit+".."+second.Commit); got != "Scale 2 to 2\nMerge main" {
		t.Errorf("on the first stand %q", got)
	}
	if propose(t, r, 3, 2); level(t, r.opt.Dir, branch, 3) != "2" {
		t.Error("an instance that is younger than the branch has no proposal")
	}

	dir := clone(t, r)
	runGit(t, dir, "merge", "-q", "-m", "Merge", "origin/"+branch)
	runGit(t, dir, "push", "-q", "origin", "HEAD:main")
	kit.Until(t, "the merge is followed", func() bool { return r.Head() == tipOf(t, dir) })
	merged := r.Head()
	if rev := propose(t, r, 1, 3); runGit(t, r.opt.Dir, "rev-parse", rev.Commit+"^") != merged {
		t.Error("a branch that was merged doesn't begin anew at head")
	}
	if got := level(t, r.opt.Dir, "main", 1) + level(t, r.opt.Dir, "main", 2) + level(t, r.opt.Dir, "main", 3); got != "222" {
		t.Errorf("levels %s", got)
	}
}

func TestAPersonsCommitsOnTheBranchAreKept(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	propose(t, r, 1, 2)
	dir := clone(t, r)
	runGit(t, dir, "checkout", "-q", branch)
	put(t, dir, "README.md", []byte("why\n"))
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "Say why")
	runGit(t, dir, "push", "-q", "origin", branch)
	propose(t, r, 1, 3)
	if got := runGit(t, r.opt.Dir, "log", "--format=%s", "main.."+branch); got != "Scale 1 to 3\nSay why\nScale 1 to 2" {
		t.Error(got)
	}
	if got := runGit(t, r.opt.Dir, "show", branch+":README.md"); got != "why" {
		t.Error(got)
	}
}

func TestAProposalThatCanNotBeIsRefusedAndWritesNothing(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	errNo := errors.New("no")
	good := proposal(1, 2)
	with := func(change desired.Change) desired.Write { w := good; w.Change = change; return w }
	for name, c := range map[string]struct {
		branch string
		w      desired.Write
	}{
		"the branch that runs": {"main", good},
		"no branch":            {"", good},
		"a command":            {"x\ndelete refs/heads/main", good},
		"a climb":              {"../../config", good},
		"an option":            {"-", desired.Write{Instance: testID(1)}},
		"nobody":               {branch, proposal(7, 1)},
		"an objection":         {branch, with(func(desired.Revision, desired.Files) (desired.Files, error) { return nil, errNo })},
		"a removal":            {branch, with(func(desired.Revision, desired.Files) (desired.Files, error) { return nil, nil })},
		"no instance": {branch, with(func(desired.Revision, desired.Files) (desired.Files, error) {
			return desired.Files{"vnf.yaml": []byte("name: x\n")}, nil
		})},
		"another's id": {branch, with(setLevel(testID(2), 1))},
	} {
		if rev, err := r.Propose(t.Context(), c.branch, c.w); err == nil {
			t.Errorf("%s: %+v", name, rev)
		}
	}
	if got := runGit(t, r.opt.Dir, "for-each-ref", "--format=%(refname)", "refs/heads"); got != "refs/heads/main" {
		t.Errorf("branches: %s", got)
	}
}

func TestABranchThatConflictsWithHeadIsLeftToWhoeverMergesIt(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	mustWrite(t, r, testID(2), shardDir(testID(2)), 1)
	first := propose(t, r, 1, 2)
	mustWrite(t, r, testID(1), "", 3)
	if rev := propose(t, r, 2, 2); runGit(t, r.opt.Dir, "rev-parse", rev.Commit+"^") != first.Commit {
		t.Error("it doesn't stand on what the branch proposes")
	}
	if got := level(t, r.opt.Dir, branch, 1) + level(t, r.opt.Dir, branch, 2); got != "22" {
		t.Errorf("levels %s", got)
	}
	fsck(t, r)
}

func TestProposalsToARemoteAreOnItsBranchAndNoneIsLost(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	first := openRepo(t, Options{Remote: forge})
	const most = 4
	for n := range 2 * most {
		mustWrite(t, first, testID(n), shardDir(testID(n)), 1)
	}
	second := openRepo(t, Options{Remote: forge})
	var all sync.WaitGroup
	for p, r := range []*Repo{first, second} {
		all.Go(func() {
			for n := range most {
				if _, err := r.Propose(t.Context(), branch, proposal(p*most+n, 2)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for n := range 2 * most {
		if got := level(t, forge, branch, n) + level(t, forge, "main", n); got != "21" {
			t.Errorf("instance %d has %s", n, got)
		}
	}
	if out, err := tryGit(first.opt.Dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err == nil {
		t.Errorf("the mirror has a branch of its own at %s", out)
	}

	if err := os.Rename(forge, forge+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Propose(t.Context(), branch, proposal(0, 3)); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("proposed to a remote that is away: %v", err)
	}
	if err := os.Rename(forge+".away", forge); err != nil {
		t.Fatal(err)
	}
	if propose(t, first, 0, 3); level(t, forge, branch, 0) != "3" {
		t.Error("nothing is proposed once the remote is back")
	}
}

func TestALockThatACrashLeftOnTheBranchIsBroken(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	propose(t, r, 1, 2)
	lock := filepath.Join(r.opt.Dir, "refs", "heads", branch+".lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := tick()()
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	if rev := propose(t, r, 1, 3); runGit(t, r.opt.Dir, "rev-parse", branch) != rev.Commit {
		t.Error("not proposed")
	}
}

func TestWhoHasGoneIsNotToldThatABranchCanNotBeOrIsNotThere(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Remote: bareRemote(t)})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range map[string]func() error{
		"a proposal":             func() error { _, err := r.Propose(gone, branch, proposal(1, 2)); return err },
		"a proposal of many":     func() error { _, err := r.ProposeMany(gone, branch, desired.WriteMany{Subject: "s"}); return err },
		"a branch":               func() error { _, err := r.Branch(gone, branch); return err },
		"a branch of the remote": func() error { _, err := r.FetchBranch(gone, branch); return err },
		"a removal":              func() error { return r.RemoveBranch(gone, branch) },
	} {
		if err := ask(); !errors.Is(err, context.Canceled) || !errors.Is(err, desired.ErrUnavailable) || errors.Is(err, desired.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
