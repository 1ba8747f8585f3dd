package gitrepo

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestManyInstancesAreProposedByOneCommitOnABranchThatIsMadeAnewAtHead(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, remote := range map[string]string{"in its own repository": "", "on a forge": bareRemote(t)} {
		t.Run(name, func(t *testing.T) {
			r := openRepo(t, Options{Now: tick(), Remote: remote})
			at := remote
			if at == "" {
				at = r.opt.Dir
			}
			var w desired.WriteMany
			for n := range 3 {
				rev := mustWrite(t, r, testID(n), shardDir(testID(n)), 1)
				w.Instances = append(w.Instances, toLevel(testID(n), rev.Tree, 2))
			}
			w.Subject, w.Trailers = "Roll on", []desired.Trailer{{Key: desired.TrailerRollout, Value: "a"}}
			moved := mustWrite(t, r, testID(2), "", 7)
			head := r.Head()
			out, err := r.ProposeMany(t.Context(), "jibe/rollout/a/1-1", w)
			if err != nil || len(out.Done) != 2 || len(out.Refused) != 1 {
				t.Fatalf("%+v, %v", out, err)
			}
			if r.Head() != head || tipOf(t, at) != head {
				t.Error("the branch that runs has moved")
			}
			if got := runGit(t, at, "log", "--format=%H %s", head+"..jibe/rollout/a/1-1"); got != out.Commit+" Roll on" {
				t.Errorf("the branch has %q", got)
			}
			for _, d := range out.Done {
				if got := runGit(t, at, "rev-parse", out.Commit+":"+d.After.Dir); got != d.After.Tree || d.Before.Tree == d.After.Tree {
					t.Errorf("%s is %s on the branch, and was to be %+v", d.After.Dir, got, d)
				}
			}
			// What stood there is given up, whoever it was of.
			mustWrite(t, r, testID(0), "", 9)
			w.Instances = []desired.InstanceChange{toLevel(testID(2), moved.Tree, 8)}
			if out, err = r.ProposeMany(t.Context(), "jibe/rollout/a/1-1", w); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, at, "log", "--format=%H", "main..jibe/rollout/a/1-1"); got != out.Commit {
				t.Errorf("the branch has %q beside head", got)
			}
			w.Instances = []desired.InstanceChange{toLevel(testID(2), "elsewhere", 8)}
			if out, err = r.ProposeMany(t.Context(), "jibe/rollout/a/1-2", w); err != nil || out.Commit != "" {
				t.Errorf("nothing was proposed as %+v, %v", out, err)
			}
			if _, err = tryGit(at, "rev-parse", "--verify", "--quiet", "refs/heads/jibe/rollout/a/1-2"); err == nil {
				t.Error("a branch was made for nothing")
			}
			for _, branch := range []string{"main", "", "a b", "../x"} {
				if _, err := r.ProposeMany(t.Context(), branch, w); err == nil {
					t.Errorf("it was proposed on %q", branch)
				}
			}
			w.Files = []string{ledgerName}
			if _, err := r.ProposeMany(t.Context(), "x", w); err == nil || !strings.Contains(err.Error(), "no other files") {
				t.Errorf("a ledger was proposed: %v", err)
			}
			fsck(t, r)
		})
	}
}
