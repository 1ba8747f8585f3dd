package reconciler_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store/branch"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// mirror is a replica's mirror of a forge's repository. What the replicas have accepted of it
// stands in the fleet's store.
func (f *fleet) mirror(name, remote string) *gitrepo.Repo {
	f.t.Helper()
	r, err := gitrepo.Open(f.t.Context(), gitrepo.Options{
		Dir: filepath.Join(f.t.TempDir(), "desired.git"), Remote: remote, PollInterval: time.Hour,
		Turn: branch.NewTurns(f.puts, "main", name), Accepted: branch.NewAccepted(f.puts, "main", name),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return r
}

func TestAReplicaWhoseMirrorIsBehindLeavesWhatAnotherHasMadeAsItIs(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newFleet(t)
	forge := filepath.Join(t.TempDir(), "forge.git")
	if _, err := (git.Runner{Dir: t.TempDir()}).Run(t.Context(), "init", "--quiet", "--bare", "-b", "main", forge); err != nil {
		t.Fatal(err)
	}
	f.repo = f.mirror("one", forge)
	if err := f.repo.Seed(t.Context(), map[string][]byte{"vims/lab.yaml": []byte("type: sim\ndefault: true\n")}, "A VIM"); err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(t.TempDir(), "way.git") // by which the second replica gets to the forge
	if err := os.Symlink(forge, way); err != nil {
		t.Fatal(err)
	}
	late := f.mirror("two", way)
	if err := os.Remove(way); err != nil {
		t.Fatal(err)
	}

	one := f.start(func(c *reconciler.Config) { c.Repo = f.repo })
	ids := instances(12)
	for _, id := range ids {
		f.want(id, "", one)
	}
	f.settled(ids)
	if n := len(late.List()); n > 0 {
		t.Fatalf("the second mirror has %d instances already", n)
	}
	metrics := reconciler.NewMetrics(nil)
	two := f.start(func(c *reconciler.Config) { c.Repo, c.Metrics = late, metrics })
	mine := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !two.member.Mine(id) })
	if len(mine) == 0 {
		t.Fatal("none of the instances is dealt to the second replica")
	}
	kit.Until(t, "what is dealt to it is its own", func() bool {
		for _, id := range mine {
			if _, err := f.puts.Attach(t.Context(), "instance/"+id, two.member.Session().Lease()); err != nil {
				return false
			}
		}
		return true
	})
	f.want(mine[0], "levels: {web: 1}\n", one, two) // and this it hasn't got yet either
	from := passes(t, metrics)
	kit.Until(t, "it has looked at all of them", func() bool {
		for _, id := range mine {
			two.recon.Enqueue(id)
		}
		return passes(t, metrics) >= from+3*uint64(len(ids))
	})
	if n := f.log.Counts().Operations; n != len(ids) {
		t.Fatalf("%d operations, want one instantiation of each of %d instances", n, len(ids))
	}
	if n := len(late.List()); n > 0 {
		t.Fatalf("the second mirror has %d instances already", n)
	}

	if err := os.Symlink(forge, way); err != nil {
		t.Fatal(err)
	}
	f.settled(ids)
	if n := f.log.Counts().Operations; n != len(ids)+1 {
		t.Errorf("%d operations, want one instantiation of each of %d instances, and one scaling", n, len(ids))
	}
	f.inOrder()
}
