package gitrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestOneCommitOfVeryManyNewInstancesIsFollowed(t *testing.T) {
	t.Parallel()

	kit.Long(t)

	for name, tt := range map[string]struct {
		n      int
		remote string
	}{"by itself": {100_000, ""}, "from a remote": {20_000, bareRemote(t)}} {
		t.Run(name, func(t *testing.T) {
			n, remote := tt.n, tt.remote
			r := openRepo(t, Options{Remote: remote, PollInterval: 100 * time.Millisecond})
			mustWrite(t, r, testID(n), "instances/there", 1)
			parent, err := git.ReadRef(r.opt.Dir, r.read.Ref())
			if err != nil {
				t.Fatal(err)
			}
			into := r.opt.Dir
			if remote != "" {
				into = remote
			}
			runGit(t, into, "update-ref", "refs/heads/main", packMany(t, into, n, parent, func(i int) string { return desired.APIDir(testID(i)) }))
			kit.Eventually(t, func() error {
				if got := len(r.List()); got != n && got != n+1 {
					return fmt.Errorf("%d instances are known, health %w", got, r.Health())
				}
				return nil
			})
			if err := r.Health(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestABranchThatCantBeFollowedIsTriedAgainByItselfAndHealthSaysSoUntilItIs(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{PollInterval: time.Hour})
	mustWrite(t, r, testID(1), "instances/a", 1)
	c := clone(t, r)
	put(t, c, "instances/a/vnf.yaml", vnfFile(testID(1), 7))
	runGit(t, c, "add", "-A")
	runGit(t, c, "commit", "-qm", "Change it")
	commit := strings.TrimSpace(tipOf(t, c))

	runGit(t, c, "push", "-q", "origin", "HEAD:refs/heads/other")

	// Objects are away, as on a disk that can't be read for a moment.
	objects := filepath.Join(r.opt.Dir, "objects")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(filepath.Join(objects, "pack"), filepath.Join(objects, "away"))
	ref := filepath.Join(r.opt.Dir, "refs", "heads", "main")
	if err := os.WriteFile(ref, []byte(commit+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		if r.Health() == nil {
			return fmt.Errorf("it is well")
		}
		return nil
	})
	if err := r.Refresh(t.Context()); err == nil || r.Health() == nil {
		t.Errorf("it is well though the branch can't be read: %v", err)
	}
	move(filepath.Join(objects, "away"), filepath.Join(objects, "pack"))
	kit.Eventually(t, func() error {
		if r.Head() != commit || r.Health() != nil {
			return fmt.Errorf("it is at %s, want %s, health %w", r.Head(), commit, r.Health())
		}
		return nil
	})
}

func TestABranchThatIsBackWhereItWasIsWell(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{PollInterval: time.Hour})
	was := mustWrite(t, r, testID(1), "instances/a", 1).Commit
	ref := filepath.Join(r.opt.Dir, "refs", "heads", "main")
	for _, commit := range []string{strings.Repeat("1", 40), was} {
		if err := os.WriteFile(ref, []byte(commit+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		kit.Eventually(t, func() error {
			if well := r.Health() == nil; well != (commit == was) {
				return fmt.Errorf("at %s it is %w", commit, r.Health())
			}
			return nil
		})
	}
}
