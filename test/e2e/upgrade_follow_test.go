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

func TestAnInstanceFollowsTheVersionsOfItsPackageOneStepAtATime(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	p := b.ownRepository()
	b.offer(p, "v1.4.0", standard(1))
	b.tracked()
	b.process.AwaitPackages(b, b.vnfdID(1))
	id, file, d := b.pushed(b.vnfdID(1), "follow: ~1.4\n")
	b.offer(p, "v1.4.1", stuck(2))
	// The step that it is at holds the next ones up.
	b.unplaced()
	b.offer(p, "v1.5.0", standard(5)) // which it doesn't follow
	b.offer(p, "v1.4.2", standard(3))
	b.offer(p, "v1.4.3", standard(4))
	b.process.AwaitPackages(b, b.vnfdID(4))
	kit.Stays(t, quiet, func() error { return b.counted(id, 2) })
	b.placing(func() error {
		if now := b.show(t, id).text("vnfdId"); now != b.vnfdID(4) {
			return fmt.Errorf("it runs %s", now)
		}
		return nil
	})
	b.awaitPods(3)
	b.versions(id, 4)
	for _, op := range b.history(t, id)[1:] {
		if op.text("operation") != "CHANGE_VNFPKG" || op.text("operationState") != "COMPLETED" {
			t.Errorf("%s is %s", op.text("operation"), op.text("operationState"))
		}
	}
	d.Pull()
	if text := d.Read(file); !strings.Contains(text, "vnfdId: "+b.vnfdID(4)) || !strings.Contains(text, "follow: ~1.4") {
		t.Errorf("the file doesn't tell what runs:\n%s", text)
	}
	kit.Stays(t, quiet, func() error {
		if n := len(b.history(t, id)); n > 4 {
			return fmt.Errorf("%d operations", n)
		}
		return nil
	})
}

func TestAPackageThatIsGoneFromItsRepositoryCanStillBeRolledBackTo(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newStage(t)
	p := b.ownRepository()
	b.offer(p, "v1.0.0", standard(1))
	b.tracked()
	b.process.AwaitPackages(b, b.vnfdID(1))
	id, file, d := b.pushed(b.vnfdID(1), greenly)
	b.offer(p, "v2.0.0", stuck(2))
	b.process.AwaitPackages(b, b.vnfdID(2))
	text, before := d.Read(file), b.snapshot(true)
	b.upgraded(d, file, 1, 2)
	b.unpullable(2)
	op := b.outcome(id, 1, "CHANGE_VNFPKG FAILED_TEMP")

	// All of it goes: tags, branch and commits.
	p.Git("push", "--quiet", "origin", "--delete", "v1.0.0", "v2.0.0")
	p.Git("checkout", "--quiet", "--orphan", "empty")
	p.Git("rm", "-r", "--quiet", "--cached", ".")
	p.Git("commit", "--quiet", "--allow-empty", "--message", "Begin anew")
	p.Git("push", "--quiet", "--force", "origin", "HEAD:main")
	bare := filepath.Join(b.data, "packages", b.namespace+".git")
	for _, args := range [][]string{{"reflog", "expire", "--expire=now", "--all"}, {"gc", "--quiet", "--prune=now"}} {
		if out, err := process.Git(t.Context(), bare, args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	kit.Eventually(t, func() error {
		if body := string(b.must(t, 200, "GET", "/jibe/v1/packages", nil).Body); strings.Contains(body, b.vnfdID(1)) || strings.Contains(body, b.vnfdID(2)) {
			return fmt.Errorf("the packages are still known: %s", body)
		}
		return nil
	})
	b.must(t, 202, "POST", pathOf(op)+"/rollback", nil)
	b.await(t, pathOf(op), "ROLLED_BACK")
	b.restored(id, file, text, before, true)
	b.server.run(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.awaitPods(4)
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
