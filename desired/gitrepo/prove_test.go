package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/archive"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// errJudged is the answer of a judge that was asked.
var errJudged = errors.New("judged")

// prove asks whether git proves a revision. A fresh cache has it search as after a start.
func prove(t *testing.T, r *Repo, rev desired.Revision, proposal string) error {
	t.Helper()
	r.proven.Clear()
	return r.Prove(t.Context(), rev, proposal, func(*desired.Instance) error { return errJudged })
}

func wantProven(t *testing.T, r *Repo, what string, rev desired.Revision) {
	t.Helper()
	if err := prove(t, r, rev, ""); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func wantUnproven(t *testing.T, r *Repo, what string, rev desired.Revision) {
	t.Helper()
	if err := prove(t, r, rev, ""); !errors.As(err, new(*desired.UnprovenError)) {
		t.Errorf("%s: %v", what, err)
	}
}

// ownOp is the write of an operation's request.
func ownOp(id, op string, level int) desired.Write {
	return desired.Write{Instance: id, Subject: "Scale", Change: setLevel(id, level),
		Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}, {Key: desired.TrailerType, Value: "SCALE"}}}
}

func TestWhatWasInEffectIsProved(t *testing.T) {
	t.Parallel()
	r := openRepo(t, Options{Key: []byte("key")})
	id := testID(1)
	first := mustWrite(t, r, id, shardDir(id), 1)
	second := mustWrite(t, r, id, "", 2)

	wantProven(t, r, "the present", second)
	wantProven(t, r, "the past", first)
	later := first
	later.Commit = mustWrite(t, r, testID(2), shardDir(testID(2)), 1).Commit
	wantUnproven(t, r, "a past content at a commit that hasn't it", later)
	moved := first
	moved.Dir = shardDir(testID(2))
	wantUnproven(t, r, "another directory", moved)
	theirs := first
	theirs.Instance = testID(2)
	wantUnproven(t, r, "another instance", theirs)
	lost := first
	lost.Commit = "1111111111111111111111111111111111111111"
	wantUnproven(t, r, "a commit that isn't there", lost)
	lost.Commit = "main"
	wantUnproven(t, r, "a name in place of a commit", lost)

	if _, err := r.Write(t.Context(), desired.Write{Instance: id, Subject: "End", Change: func(desired.Revision, desired.Files) (desired.Files, error) { return nil, nil }}); err != nil {
		t.Fatal(err)
	}
	wantProven(t, r, "what ran before it was removed", second)
	wantProven(t, r, "nothing", desired.Revision{Instance: id, Dir: shardDir(id)})
}

func TestADraftIsProvedForItsProposalAlone(t *testing.T) {
	t.Parallel()
	r := openRepo(t, Options{Key: []byte("key")})
	id := testID(1)
	mustWrite(t, r, id, shardDir(id), 1)
	draft, err := r.Propose(t.Context(), "draft", desired.Write{Instance: id, Subject: "A draft", Change: setLevel(id, 5)})
	if err != nil {
		t.Fatal(err)
	}
	op := "5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0aa"
	proposed, err := r.Propose(t.Context(), "jibe/op/"+op, ownOp(id, op, 6))
	if err != nil {
		t.Fatal(err)
	}

	wantUnproven(t, r, "a draft", draft)
	wantUnproven(t, r, "a proposal that isn't merged", proposed)
	if err := prove(t, r, proposed, op); err != nil {
		t.Errorf("a proposal of its operation: %v", err)
	}
	if err := prove(t, r, proposed, "another"); err == nil {
		t.Error("another operation's proposal is proved")
	}
	if err := prove(t, r, draft, op); err == nil {
		t.Error("a draft is proved as a proposal")
	}

	merged := mustWrite(t, r, id, "", 6) // squashed: another commit, the same content
	if merged.Tree != proposed.Tree {
		t.Fatal("the content differs")
	}
	wantProven(t, r, "a proposal that was merged by squashing", proposed)
}

func TestACommitWithinAPushIsJudged(t *testing.T) {
	t.Parallel()
	r := openRepo(t, Options{Key: []byte("key")})
	id := testID(1)
	dir := shardDir(id)
	mustWrite(t, r, id, dir, 1)
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", r.opt.Dir, clone)
	at := func() desired.Revision {
		return desired.Revision{Instance: id, Dir: dir, Commit: runGit(t, clone, "rev-parse", "HEAD"), Tree: runGit(t, clone, "rev-parse", "HEAD:"+dir)}
	}
	put(t, clone, dir+"/vnf.yaml", vnfFile(id, 8))
	runGit(t, clone, "add", "-A")
	runGit(t, clone, "commit", "-q", "-m", "Never in effect")
	within := at()
	put(t, clone, dir+"/vnf.yaml", vnfFile(id, 2))
	runGit(t, clone, "commit", "-q", "-a", "-m", "In effect")
	last := at()
	old := r.Head()
	if err := r.Pushing(read.Push{Pusher: "ann", Old: old, New: last.Commit}); err != nil {
		t.Fatal(err)
	}
	runGit(t, clone, "push", "-q", "--force", r.opt.Dir, "HEAD:refs/heads/tmp")
	runGit(t, r.opt.Dir, "update-ref", "refs/heads/main", last.Commit, old)
	kit.Until(t, "the push is followed and noted", func() bool {
		_ = r.Refresh(t.Context())
		r.flushNotes(t.Context(), true)
		p, err := r.notedPush(t.Context(), last.Commit)
		return err == nil && p != nil
	})
	mustWrite(t, r, id, "", 3)

	wantProven(t, r, "the last commit of a push", last)
	if err := prove(t, r, within, ""); !errors.Is(err, errJudged) {
		t.Errorf("one that came with it: %v", err)
	}
}

func TestARewrittenHistoryStillProvesWhatRan(t *testing.T) {
	t.Parallel()

	t.Run("local", func(t *testing.T) {
		t.Parallel()
		r := openRepo(t, Options{Key: []byte("key")})
		id := testID(1)
		first := mustWrite(t, r, id, shardDir(id), 1)
		ran := mustWrite(t, r, id, "", 2)
		draft, err := r.Propose(t.Context(), "draft", desired.Write{Instance: id, Subject: "A draft", Change: setLevel(id, 5)})
		if err != nil {
			t.Fatal(err)
		}
		runGit(t, r.opt.Dir, "update-ref", "refs/heads/main", first.Commit)
		kit.Until(t, "the branch is held", func() bool { return errors.Is(r.Health(), errHeld) })
		if _, err := r.Accept(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		runGit(t, r.opt.Dir, "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")

		if now, _ := r.Lookup(id); now.Tree != first.Tree {
			t.Fatal("the history wasn't accepted")
		}
		wantProven(t, r, "what ran before", ran)
		wantUnproven(t, r, "a draft", draft)
		runGit(t, r.opt.Dir, "update-ref", "-d", archive.FormerRefs+ran.Commit)
		r.proven.Clear()
		wantUnproven(t, r, "what a person has removed the pin of", ran)
		runGit(t, r.opt.Dir, "update-ref", archive.FormerRefs+ran.Commit, ran.Commit)
		wantProven(t, r, "what a person vouches for", ran)
	})
	t.Run("forge", func(t *testing.T) {
		t.Parallel()
		forge := bareRemote(t)
		r := openRepo(t, Options{Remote: forge, Key: []byte("key")})
		id := testID(1)
		first := mustWrite(t, r, id, shardDir(id), 1)
		ran := mustWrite(t, r, id, "", 2)
		runGit(t, forge, "update-ref", "refs/heads/main", first.Commit)
		r.Poke()
		kit.Until(t, "the process holds", func() bool { return errors.Is(r.Health(), errHeld) })
		if _, err := r.Accept(t.Context(), ""); err != nil {
			t.Fatal(err)
		}

		wantProven(t, r, "what ran before", ran)
	})
}

func TestADirectoryThatMovedIsProvedInBothPlaces(t *testing.T) {
	t.Parallel()
	r := openRepo(t, Options{Key: []byte("key")})
	id := testID(1)
	before := mustWrite(t, r, id, shardDir(id), 1)
	clone := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", r.opt.Dir, clone)
	if err := os.MkdirAll(filepath.Join(clone, "instances"), 0o755); err != nil {
		t.Fatal(err)
	}
	runGit(t, clone, "mv", shardDir(id), flatDir(id))
	commitPush(t, clone, "Move it")
	kit.Until(t, "the move is followed", func() bool {
		_ = r.Refresh(t.Context())
		now, _ := r.Lookup(id)
		return now.Dir == flatDir(id)
	})
	now, _ := r.Lookup(id)

	wantProven(t, r, "where it is", now)
	wantProven(t, r, "where it was", before)
}
