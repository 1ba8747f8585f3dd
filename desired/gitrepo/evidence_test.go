package gitrepo

import (
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestOnlyWhatTheKeyProvesIsEvidence(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	id := testID(1)
	trailers := []desired.Trailer{{Key: desired.TrailerOperation, Value: "made"}, {Key: desired.TrailerParams, Value: `{"a":"b"}`}}
	w, err := r.Write(t.Context(), desired.Write{Instance: id, Dir: shardDir(id), Subject: "Scale", Change: setLevel(id, 1), Trailers: trailers,
		Body: desired.TrailerOperation + ": of a person's words"})
	if err != nil {
		t.Fatal(err)
	}
	facts := []byte(`{"id": "made", "why": "a of {\"b seal c"}`)
	r.Attest(w.Commit, "2026 made COMPLETED: it is of {\"x seal y", facts)
	r.flushNotes(t.Context(), true)
	seen, err := r.Show(t.Context(), w.Commit)
	if err != nil || len(seen.Outcomes) != 1 || seen.Outcomes[0] != "2026 made COMPLETED: it is of {\"x seal y" {
		t.Errorf("people see %+v (%v)", seen, err)
	}

	// Somebody pushes the same words, takes the line of one commit to another, and changes it.
	dir := clone(t, r)
	put(t, dir, shardDir(id)+"/vnf.yaml", vnfFile(id, 2))
	message := runGit(t, dir, "log", "-1", "--format=%B", w.Commit)
	commitPush(t, dir, message)
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	line := runGit(t, r.opt.Dir, "notes", "--ref=jibe", "show", w.Commit)
	r.Note(r.Head(), line)
	r.Note(w.Commit, "2026 made FAILED of {\"id\":\"made\"}")
	r.Note(w.Commit, "2026 made FAILED of {\"id\":\"made\"} seal "+r.seal("push", w.Commit, "2026 made FAILED of {\"id\":\"made\"}"))

	e, err := r.Evidence(t.Context(), "jibe/op/")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Commits) != 1 || e.Commits[0].After != w || e.Commits[0].Trailers[desired.TrailerOperation] != "made" || e.Commits[0].Trailers[desired.TrailerParams] != `{"a":"b"}` {
		t.Errorf("commits %+v, want that of %+v", e.Commits, w)
	}
	if len(e.Notes) != 1 || e.Notes[0].Commit != w.Commit || string(e.Notes[0].Facts) != desired.OneLine(facts) {
		t.Errorf("notes %+v", e.Notes)
	}

	other := openRepo(t, Options{Key: []byte("another key")})
	other.read = r.read
	other.opt.Dir = r.opt.Dir
	if e, err := other.Evidence(t.Context(), "jibe/op/"); err != nil || len(e.Commits)+len(e.Notes) > 0 {
		t.Errorf("with another key there is %+v (%v)", e, err)
	}
}

func TestTheRequestBehindARevisionIsFoundWhereJibeMadeItsCommit(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	id, other := testID(1), testID(2)
	write := func(instance string, level int, trailers ...desired.Trailer) desired.Revision {
		t.Helper()
		rev, err := r.Write(t.Context(), desired.Write{Instance: instance, Dir: shardDir(instance), Subject: "s", Change: setLevel(instance, level), Trailers: trailers})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	asked := func(rev desired.Revision) string {
		t.Helper()
		said, err := r.Requested(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return said[desired.TrailerOperation]
	}
	operation := desired.Trailer{Key: desired.TrailerOperation, Value: "made"}
	rev := write(id, 1, operation)
	if got := asked(rev); got != "made" {
		t.Errorf("the request is %q", got)
	}
	later := write(other, 1)
	if got := asked(desired.Revision{Instance: id, Dir: rev.Dir, Commit: later.Commit, Tree: rev.Tree}); got != "made" {
		t.Errorf("seen at a later commit the request is %q", got)
	}
	for name, rev := range map[string]desired.Revision{
		"of another instance":  later,
		"that settles":         write(id, 2, operation, desired.Trailer{Key: desired.TrailerOutcome, Value: "ROLLED_BACK"}),
		"that grants":          write(id, 3, operation, desired.Trailer{Key: desired.TrailerGrant, Value: "g"}),
		"without an operation": write(id, 4),
		"that isn't at head":   {Instance: id, Dir: rev.Dir, Commit: r.Head(), Tree: rev.Tree},
		"of a directory's end": {Instance: id, Dir: rev.Dir, Commit: rev.Commit},
	} {
		if got := asked(rev); got != "" {
			t.Errorf("a commit %s is taken for the request %q", name, got)
		}
	}

	// A person pushes the same words.
	dir := clone(t, r)
	put(t, dir, shardDir(id)+"/vnf.yaml", vnfFile(id, 5))
	commitPush(t, dir, runGit(t, dir, "log", "-1", "--format=%B", rev.Commit))
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	pushed, _ := r.Lookup(id)
	if got := asked(pushed); got != "" {
		t.Errorf("a pushed commit is taken for the request %q", got)
	}

	// A request's content comes back by a push, with another one's between them.
	again := write(id, 7, desired.Trailer{Key: desired.TrailerOperation, Value: "seven"})
	for _, level := range []int{8, 7} {
		runGit(t, dir, "pull", "-q", "--rebase", "origin", "main")
		put(t, dir, shardDir(id)+"/vnf.yaml", vnfFile(id, level))
		commitPush(t, dir, fmt.Sprintf("Level %d", level))
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	pushed, _ = r.Lookup(id)
	if pushed.Tree != again.Tree {
		t.Fatalf("the push made %+v, want the content of %+v", pushed, again)
	}
	if got := asked(pushed); got != "" {
		t.Errorf("a push of what a request has once asked for is taken for the request %q", got)
	}
}
