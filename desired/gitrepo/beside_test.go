package gitrepo

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// healedBeside is a write that builds on from and leaves what waits at head.
func healedBeside(t *testing.T, r *Repo, id string, from desired.Revision, op string) desired.Write {
	t.Helper()
	base, err := r.read.Files(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	return desired.Write{
		Instance: id, Subject: "HEAL " + from.Dir, Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}}, By: "nfvo <nfvo@example.org>",
		Change: func(_ desired.Revision, now desired.Files) (desired.Files, error) {
			text, err := desired.Edit(from.Dir+"/vnf.yaml", now["vnf.yaml"], desired.KeyValue{Path: []string{"condemned"}, Value: map[string]string{"Pod/a/" + op: "uid"}})
			return desired.Files{"vnf.yaml": text}, err
		},
		Beside: &desired.Beside{From: from, Subject: "Put back what waits", By: "Ann <ann@example.org>",
			Change: func(waits, made desired.Files) (desired.Files, error) {
				return desired.Carry(from.Dir, base, made, waits)
			}},
	}
}

func TestAWriteBesideWhatWaitsIsTwoCommitsThatComeTogether(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	f := newHTTPForge(t)
	key := []byte("a key of 32 bytes for these tests")
	r := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, Key: key})
	id := testID(1)
	operated := mustWrite(t, r, id, shardDir(id), 1)
	waits := mustWrite(t, r, id, "", 2)
	before, _ := f.counts()
	var all sync.WaitGroup
	for n := 2; n < 6; n++ { // others are written with it
		all.Go(func() { mustWrite(t, r, testID(n), shardDir(testID(n)), 1) })
	}
	made, err := r.Write(t.Context(), healedBeside(t, r, id, operated, "op-1"))
	if err != nil {
		t.Fatal(err)
	}
	all.Wait()
	text := func(commit string) string { return runGit(t, f.dir, "show", commit+":"+shardDir(id)+"/vnf.yaml") }
	if got := text(made.Commit); !strings.Contains(got, "vdu1_aspect: 1") || !strings.Contains(got, "Pod/a/op-1: uid") {
		t.Errorf("the operation's commit has\n%s", got)
	}
	head, _ := r.Lookup(id)
	if got := text("main"); !strings.Contains(got, "vdu1_aspect: 2") || !strings.Contains(got, "Pod/a/op-1: uid") || head.Tree == waits.Tree || head.Tree == made.Tree {
		t.Errorf("head has\n%s", got)
	}
	if got := runGit(t, f.dir, "log", "-1", "--format=%an %s %P", head.Commit); got != "Ann Put back what waits "+made.Commit {
		t.Errorf("it is put back by %q", got)
	}
	if who, err := r.read.Author(t.Context(), head); err != nil || who != "Ann <ann@example.org>" {
		t.Errorf("what waits is by %q, %v", who, err)
	}
	if found, err := r.FindTrailer(t.Context(), operated.Commit, desired.TrailerOperation, "op-1"); err != nil || found != made.Commit {
		t.Errorf("the operation's commit is %s, %v", found, err)
	}
	if asked, err := r.Requested(t.Context(), head); err != nil || asked != nil {
		t.Errorf("what waits is a request's: %v, %v", asked, err)
	}
	e, err := r.Evidence(t.Context(), "jibe/op/")
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(e.Commits, func(c OwnCommit) bool { return c.After.Commit == made.Commit }); i < 0 || e.Commits[i].Before.Tree != operated.Tree || e.Commits[i].After.Tree != made.Tree {
		t.Errorf("git proves of it %+v", e.Commits)
	}
	if after, _ := f.counts(); after-before > 5 {
		t.Errorf("%d pushes", after-before)
	}
	// What was kept in memory is what stands in git.
	again := openRepo(t, Options{Remote: f.url, PollInterval: time.Hour, Key: key})
	if there, ok := again.Lookup(id); !ok || there.Tree != head.Tree {
		t.Errorf("another mirror has %+v, want %+v", there, head)
	}
}

func TestAWriteBesideWhatWaitsIsRefusedWholeAndIsAnyOtherWhereNothingWaits(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	id := testID(1)
	operated := mustWrite(t, r, id, shardDir(id), 1)
	waits := mustWrite(t, r, id, "", 2)
	no := errors.New("no")
	for name, spoil := range map[string]func(*desired.Write){
		"the first": func(w *desired.Write) {
			w.Change = func(desired.Revision, desired.Files) (desired.Files, error) { return nil, no }
		},
		"the second": func(w *desired.Write) {
			w.Beside.Change = func(desired.Files, desired.Files) (desired.Files, error) { return nil, no }
		},
		"a second that can't be read": func(w *desired.Write) {
			w.Beside.Change = func(desired.Files, desired.Files) (desired.Files, error) {
				return desired.Files{"vnf.yaml": []byte("flavour: [")}, nil
			}
		},
	} {
		w := healedBeside(t, r, id, operated, "op-1")
		spoil(&w)
		if _, err := r.Write(t.Context(), w); err == nil {
			t.Errorf("%s: no error", name)
		}
		if head, _ := r.Lookup(id); head != waits || r.Head() != waits.Commit {
			t.Errorf("%s: head is %+v", name, head)
		}
	}
	made, err := r.Write(t.Context(), healedBeside(t, r, id, waits, "op-1"))
	if head, _ := r.Lookup(id); err != nil || head != made || r.Head() != made.Commit {
		t.Errorf("beside nothing: %v, head is %+v and made was %+v", err, head, made)
	}
}
