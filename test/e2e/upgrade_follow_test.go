package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// ownRepository makes a package repository of the test's own, whose tags are
// versions, and a work tree of it.
func (b *bench) ownRepository() *process.WorkTree {
	b.Helper()
	repository := filepath.Join(b.data, "packages", b.namespace+".git")
	process.InitBare(b, repository)
	return process.NewWorkTree(b, repository)
}

// tracking keeps tests that add to repositories.yaml from each other's way.
var tracking sync.Mutex

// tracked has the server take packages from the test's own repository.
func (b *bench) tracked() {
	b.Helper()
	tracking.Lock()
	defer tracking.Unlock()
	d := b.clone(b.T, "desired.git")
	d.Write("repositories.yaml", d.Read("repositories.yaml")+fmt.Sprintf("- name: %[1]s\n  url: %[1]s.git\n  tags: v*\n", b.namespace))
	d.Push("Take packages from one repository more")
}

// offer tags the release as a version of the package in the folder app.
func (b *bench) offer(p *process.WorkTree, tag string, r release) {
	b.Helper()
	b.lay(p.Dir(), r)
	p.Git("rm", "-r", "--quiet", "--ignore-unmatch", "app")
	if err := os.Rename(filepath.Join(p.Dir(), b.vnfdID(r.n)), filepath.Join(p.Dir(), "app")); err != nil {
		b.Fatal(err)
	}
	p.Commit("Release " + tag)
	p.Git("tag", tag)
	p.Git("push", "--quiet", "origin", "HEAD:main", tag)
}

func TestAnInstanceMayFollowOnABranchThatAPersonMerges(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	p := b.ownRepository()
	b.offer(p, "v1.4.0", standard(1))
	b.tracked()
	b.process.AwaitPackages(b, b.vnfdID(1))
	branch := "follow/" + b.namespace
	id, file, d := b.pushed(b.vnfdID(1), "follow: {versions: ~1.4, branch: "+branch+"}\n")
	b.offer(p, "v1.4.1", standard(2))
	kit.Eventually(t, func() error {
		_, err := process.Git(t.Context(), d.Dir(), "fetch", "--quiet", "origin", branch)
		return err
	})
	proposed := strings.TrimSpace(d.Git("rev-parse", "FETCH_HEAD"))
	if text := d.Git("show", proposed+":"+file); !strings.Contains(text, "vnfdId: "+b.vnfdID(2)) {
		t.Errorf("the branch proposes\n%s", text)
	}
	kit.Stays(t, quiet, func() error { return b.counted(id, 1) })
	d.Pull()
	d.Git("merge", "--quiet", "--no-edit", proposed)
	if out, err := d.TryPush(); err != nil {
		t.Fatalf("push: %v\n%s", err, out)
	}
	b.outcome(id, 1, "CHANGE_VNFPKG COMPLETED")
	b.awaitPods(3)
	b.versions(id, 2)
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
}
