package gitrepo

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestCommitsSinceOneAreListedWithWhoMadeThem(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	remote := bareRemote(t)
	r := openRepo(t, Options{Remote: remote, Key: []byte("a key of the installation"), Now: tick()})
	own := mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	work := t.TempDir()
	runGit(t, work, "clone", "--quiet", remote, ".")
	put(t, work, flatDir(testID(2))+"/vnf.yaml", vnfFile(testID(2), 1))
	commitPush(t, work, "By a person")
	if err := r.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	person := r.Head()
	list, more, err := r.Since(t.Context(), "", person, 2)
	if err != nil || len(list) != 2 || list[0] != (Step{Commit: person, Parent: own.Commit}) || list[1].Commit != own.Commit || !list[1].Own {
		t.Errorf("all: %+v, more %t, %v", list, more, err)
	}
	if list, more, err = r.Since(t.Context(), own.Commit, person, 9); err != nil || len(list) != 1 || list[0].Commit != person || more {
		t.Errorf("since the first: %+v, more %t, %v", list, more, err)
	}
	nowhere := strings.Repeat("1", 40)
	if _, _, err = r.Since(t.Context(), nowhere, person, 9); !errors.Is(err, desired.ErrNotFound) {
		t.Errorf("since one that isn't there: %v", err)
	}
	for _, test := range []struct {
		tip, commit string
		want        bool
	}{{person, own.Commit, true}, {person, person, true}, {own.Commit, person, false}, {nowhere, person, false}} {
		if has, err := r.Reaches(t.Context(), test.tip, test.commit); err != nil || has != test.want {
			t.Errorf("%s reaches %s: %t, %v", test.tip, test.commit, has, err)
		}
	}
}

func TestACommitThatCompletesAnotherIsToldFromOneThatSomebodyAskedFor(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: []byte("a key of the installation"), Now: tick()})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	for i, test := range []struct {
		what    string
		says    []desired.Trailer
		fillsIn bool
	}{
		{"a pin", nil, true},
		{"what was granted", []desired.Trailer{{Key: desired.TrailerType, Value: "SCALE"}, {Key: desired.TrailerGrant, Value: "1"}}, true},
		{"what hooks found", []desired.Trailer{{Key: desired.TrailerType, Value: "SCALE"}, {Key: desired.TrailerOutcome, Value: keptOutcome}}, true},
		{"a request", []desired.Trailer{{Key: desired.TrailerType, Value: "SCALE"}, {Key: desired.TrailerRequestedBy, Value: "admin"}}, false},
		{"a request by nobody's name", []desired.Trailer{{Key: desired.TrailerType, Value: "SCALE"}}, false},
		{"a rollback", []desired.Trailer{{Key: desired.TrailerType, Value: "SCALE"}, {Key: desired.TrailerOutcome, Value: "ROLLED_BACK"}}, false},
		{"a wave", []desired.Trailer{{Key: desired.TrailerRollout, Value: "amf 1"}, {Key: desired.TrailerRequestedBy, Value: "rollout/amf"}}, false},
	} {
		jibeSets(t, r, 1, test.says, desired.KeyValue{Path: []string{"description"}, Value: strconv.Itoa(i)})
		list, _, err := r.Since(t.Context(), "", r.Head(), 1)
		if err != nil || len(list) != 1 || !list[0].Own || list[0].FillsIn != test.fillsIn || list[0].OfRollout != (test.what == "a wave") {
			t.Errorf("%s: %+v, %v", test.what, list, err)
		}
	}
}

func TestTheRolloutsThatACommitDefinesAreNamed(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	remote := bareRemote(t)
	r := openRepo(t, Options{Remote: remote, Key: []byte("a key of the installation"), Now: tick()})
	work := t.TempDir()
	runGit(t, work, "clone", "--quiet", remote, ".")
	rolls := func(state string) []byte {
		return []byte("select: {folders: [instances/**]}\nto: {levels: {web: 2}}\nstate: " + state + "\n")
	}
	before := ""
	for _, test := range []struct {
		name  string
		files map[string][]byte
		want  []string
	}{
		{"the first commit", map[string][]byte{"rollouts/b.yaml": rolls("running"), "rollouts/a.yaml": rolls("paused"), "rollouts/notes.txt": nil}, []string{"a", "b"}},
		{"another file", map[string][]byte{"README.md": []byte("x")}, nil},
		{"a change", map[string][]byte{"rollouts/a.yaml": rolls("running")}, []string{"a"}},
		{"what ends one", map[string][]byte{"rollouts/b.yaml": rolls("aborted")}, nil},
		{"what Jibe keeps of them", map[string][]byte{"rollouts/.state/x.yaml": []byte("x")}, nil},
	} {
		for file, data := range test.files {
			put(t, work, file, data)
		}
		commitPush(t, work, test.name)
		after := strings.TrimSpace(tipOf(t, work))
		if err := r.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := r.read.RolloutsChanged(t.Context(), before, after); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
		before = after
	}
	if _, err := r.read.RolloutsChanged(t.Context(), before, strings.Repeat("1", 40)); !errors.Is(err, desired.ErrNotFound) {
		t.Errorf("of a commit that isn't there: %v", err)
	}
}

func TestABranchOfTheRemoteIsFetchedWithoutMovingAnything(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	remote := bareRemote(t)
	r := openRepo(t, Options{Remote: remote, Now: tick()})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	head := r.Head()
	if _, err := r.FetchBranch(t.Context(), "upgrade"); !errors.Is(err, desired.ErrNotFound) {
		t.Errorf("of a branch that isn't there: %v", err)
	}
	if _, err := r.FetchBranch(t.Context(), "--upload-pack=x"); err == nil {
		t.Error("a name that is no branch's was taken")
	}
	work := t.TempDir()
	runGit(t, work, "clone", "--quiet", remote, ".")
	put(t, work, flatDir(testID(2))+"/vnf.yaml", vnfFile(testID(2), 1))
	runGit(t, work, "add", ".")
	runGit(t, work, "commit", "--quiet", "-m", "Propose")
	want := tipOf(t, work)
	runGit(t, work, "push", "--quiet", "origin", "HEAD:refs/heads/upgrade")
	r.move.Lock() // as a write under way has it
	got, err := r.FetchBranch(t.Context(), "upgrade")
	r.move.Unlock()
	if err != nil || got != want || r.Head() != head {
		t.Errorf("%s, %v; want %s, and head at %s, not %s", got, err, want, head, r.Head())
	}
	if draft, err := r.DraftOf(t.Context(), got); err != nil {
		t.Errorf("it can't be planned: %v", err)
	} else {
		_ = draft.Close()
	}
}

func TestABranchOfTheRemoteIsRemovedOnceAndTheOneThatRunsNever(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	remote := bareRemote(t)
	r := openRepo(t, Options{Remote: remote, Now: tick()})
	mustWrite(t, r, testID(0), shardDir(testID(0)), 1)
	if _, err := r.Propose(t.Context(), "jibe/op/1", proposal(0, 2)); err != nil {
		t.Fatal(err)
	}
	work := t.TempDir() // somebody reviews it, and adds to it
	runGit(t, work, "clone", "--quiet", "--branch", "jibe/op/1", remote, ".")
	runGit(t, work, "commit", "--quiet", "--allow-empty", "-m", "Review")
	runGit(t, work, "push", "--quiet", "origin", "HEAD")
	for range 2 {
		if err := r.RemoveBranch(t.Context(), "jibe/op/1"); err != nil {
			t.Fatal(err)
		}
		if got := runGit(t, remote, "for-each-ref", "--format=%(refname)", "refs/heads"); got != "refs/heads/main" {
			t.Errorf("branches of the remote: %s", got)
		}
	}
	for _, name := range []string{"main", "a b"} {
		if err := r.RemoveBranch(t.Context(), name); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	if err := os.Rename(remote, remote+".away"); err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveBranch(t.Context(), "jibe/op/1"); err == nil {
		t.Error("a branch was removed from a remote that is away")
	}
}
