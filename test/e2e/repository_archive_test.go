package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAHistoryIsArchivedAndEverythingGoesOn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual) // for the namespace; the server is one of this test
	data := b.alone(t)
	at := strings.Replace(b.url, "http://", "http://jibe:"+b.token+"@", 1) + "/git/desired.git"
	for i, how := range []string{"--depth=1", "--filter=blob:none"} {
		d := process.WorkTreeAt(t, t.TempDir())
		d.Git("clone", "--quiet", how, at, d.Dir())
		d.Write("README.md", how)
		d.Push("Read me")
		if n := strings.Count(d.Git("log", "--format=%H"), "\n") + 1; n < 2+i {
			t.Errorf("a clone with %s has %d commits", how, n)
		}
	}
	id := b.runs(plain)
	b.quota("1")
	path := b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1))
	b.await(t, path, "FAILED_TEMP")
	d := b.clone(t, "desired.git")
	for i := range 5 {
		d.Write("README.md", fmt.Sprintln("release", i))
		d.Push("Read me")
	}

	archive := filepath.Join(t.TempDir(), "archive.git")
	run := func(want int, says string, args ...string) {
		t.Helper()
		args = append([]string{"repository", "archive", "--data", data, "--output", archive}, args...)
		if out, errs, code := b.cli(t, args...); code != want || !strings.Contains(out+errs, says) {
			t.Errorf("jibe %s: %d, want %q: %s%s", strings.Join(args, " "), code, says, out, errs)
		}
	}
	run(0, "is up to date; nothing was removed")
	run(1, "is in use by process", "--keep-commits", "2")
	if err := b.process.Stop(); err != nil {
		t.Fatal(err)
	}
	repository := filepath.Join(data, "desired.git")
	head, err := process.Git(t.Context(), repository, "rev-parse", "main")
	if err != nil {
		t.Fatal(err)
	}
	run(0, "an operation that hasn't ended", "--keep-commits", "2")
	run(0, "history begins at", "--keep-commits", "2")
	if now, err := process.Git(t.Context(), repository, "rev-parse", "main"); err != nil || now != head {
		t.Errorf("head is %s, and was %s (%v)", now, head, err)
	}
	if _, err := os.Stat(filepath.Join(repository, "shallow")); err != nil {
		t.Errorf("nothing was cut: %v", err)
	}

	b.server = serve(t, data)
	b.must(t, 202, "POST", path+"/rollback", nil)
	b.await(t, path, "ROLLED_BACK")
	b.awaitPods(1)
	b.quota("5")
	b.await(t, b.begin(t, id, "scale", scale("SCALE_OUT", "web_aspect", 1)), "COMPLETED")
	b.awaitPods(2)
	d.Pull()
	d.Write("README.md", "from a clone that was there before\n")
	d.Push("Read me")
	if n := strings.Count(d.Git("log", "--format=%H"), "\n"); n < 8 {
		t.Errorf("the clone has only %d commits", n)
	}

	if err := b.process.Stop(); err != nil {
		t.Fatal(err)
	}
	run(0, "history begins at", "--keep-commits", "1")
	if err := os.RemoveAll(repository); err != nil {
		t.Fatal(err)
	}
	if out, err := process.Git(t.Context(), data, "clone", "--quiet", "--mirror", archive, repository); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	b.server = serve(t, data)
	b.awaitPods(2)
	b.await(t, b.begin(t, id, "scale", scale("SCALE_IN", "web_aspect", 1)), "COMPLETED")
	b.awaitPods(1)
}
