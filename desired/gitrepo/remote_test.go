package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// bareRemote is a forge's repository.
func bareRemote(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "forge.git")
	runGit(tb, "", "init", "-q", "--bare", "-b", "main", dir)
	return dir
}

func TestTwoProcessesShareARemoteWithoutLoss(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	var acked []string
	var mu sync.Mutex
	var all sync.WaitGroup
	for p := range 2 {
		r := openRepo(t, Options{Remote: forge})
		all.Go(func() {
			for i := range 8 {
				op := strings.Repeat("x", p+1) + string(rune('a'+i))
				id := testID(p*100 + i)
				rev, err := r.Write(t.Context(), desired.Write{
					Instance: id, Dir: shardDir(id), Subject: op,
					Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}},
					Change:   setLevel(id, i),
				})
				if err != nil {
					t.Errorf("%s: %v", op, err)
					return
				}
				if out, err := tryGit(forge, "merge-base", "--is-ancestor", rev.Commit, "main"); err != nil {
					t.Errorf("%s was acknowledged before it was pushed: %s", op, out)
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

func TestARemoteThatIsAwayIsUnavailableAndRecovers(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	head := r.Head()
	if err := os.Rename(forge, forge+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 2)})
	if !errors.Is(err, desired.ErrUnavailable) || r.Head() != head || r.Health() == nil {
		t.Errorf("write = %v, head %s, health %v", err, r.Head(), r.Health())
	}
	if err := os.Rename(forge+".away", forge); err != nil {
		t.Fatal(err)
	}
	rev := mustWrite(t, r, testID(1), "", 2)
	if got := tipOf(t, forge); got != rev.Commit {
		t.Errorf("remote is at %s, want %s", got, rev.Commit)
	}
	if err := r.Health(); err != nil {
		t.Errorf("health %v", err)
	}
}

func TestAPokeFetchesAndARewrittenRemoteHolds(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", forge, dir)
	put(t, dir, shardDir(testID(2))+"/vnf.yaml", vnfFile(testID(2), 1))
	commitPush(t, dir, "Add another")
	r.Poke()
	kit.Until(t, "the commit is followed", func() bool { _, ok := r.Lookup(testID(2)); return ok })
	r.Note(r.Head(), "COMPLETED")
	kit.Until(t, "the note is pushed", func() bool {
		r.Poke()
		out, err := tryGit(forge, "notes", "--ref=jibe", "show", "main")
		return err == nil && out == "COMPLETED"
	})
	head := r.Head()
	runGit(t, dir, "push", "-q", "-f", "origin", "HEAD~1:main")
	r.Poke()
	kit.Until(t, "the process holds", func() bool { return r.Health() != nil })
	if _, ok := r.Lookup(testID(2)); !ok || r.Head() != head {
		t.Error("a rewritten remote was followed")
	}
	if _, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 5)}); !errors.Is(err, desired.ErrUnavailable) {
		t.Errorf("a write on rewritten history: %v", err)
	}
	h, err := r.Held(t.Context())
	if err != nil || h.From != head || h.To != tipOf(t, forge) || len(h.Ends) != 1 || h.Ends[0] != shardDir(testID(2)) || !strings.Contains(h.Why, "1 ends") {
		t.Errorf("held is %+v, %v", h, err)
	}
	if _, err := r.Accept(t.Context(), head); err == nil || !strings.Contains(err.Error(), "run jibe accept again") {
		t.Errorf("another commit than was shown is accepted: %v", err)
	}
	if _, err := r.Accept(t.Context(), h.To); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup(testID(2)); ok || r.Health() != nil {
		t.Errorf("accepted history isn't followed: health %v", r.Health())
	}
	mustWrite(t, r, testID(1), "", 5)
}

func TestARemoteThatWouldEndManyInstancesIsHeldUntilAccepted(t *testing.T) {
	t.Parallel()

	forge := bareRemote(t)
	r := openRepo(t, Options{Remote: forge})
	for i := range check.MaxEnds + 1 {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	dir := filepath.Join(t.TempDir(), "clone")
	runGit(t, "", "clone", "-q", forge, dir)
	runGit(t, dir, "rm", "-rq", "instances")
	commitPush(t, dir, "End them all")
	r.Poke()
	kit.Until(t, "the process holds", func() bool { return r.Health() != nil })
	if n := len(r.List()); n != check.MaxEnds+1 {
		t.Fatalf("%d instances are left", n)
	}
	if !strings.Contains(r.Health().Error(), "jibe accept") {
		t.Errorf("health doesn't say how to go on: %v", r.Health())
	}
	h, err := r.Held(t.Context())
	if err != nil || h.To != tipOf(t, forge) || len(h.Ends) != check.MaxEnds+1 || len(h.Begins)+len(h.Changes) != 0 {
		t.Errorf("held is %+v, %v", h, err)
	}
	if _, err := r.Accept(t.Context(), h.To); err != nil {
		t.Fatal(err)
	}
	if n := len(r.List()); n != 0 || r.Health() != nil {
		t.Errorf("%d instances are left, health %v", n, r.Health())
	}
}

func TestAnotherMirrorOfTheRemoteHasThePinnedPackages(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := bareRemote(t)
	one := openRepo(t, Options{Remote: forge})
	rev := mustWrite(t, one, testID(1), shardDir(testID(1)), 1)
	ref := "refs/jibe/packages/" + rev.Tree // any tree will do
	runGit(t, one.opt.Dir, "update-ref", ref, rev.Tree)
	kit.Until(t, "the remote keeps the pin", func() bool {
		one.Poke()
		out, err := tryGit(forge, "rev-parse", "--verify", "--quiet", ref)
		return err == nil && out == rev.Tree
	})
	other := openRepo(t, Options{Remote: forge})
	if got := runGit(t, other.opt.Dir, "rev-parse", ref); got != rev.Tree {
		t.Errorf("the other mirror has %q, want %s", got, rev.Tree)
	}
}
