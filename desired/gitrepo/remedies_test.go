package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

var remedyCommand = regexp.MustCompile(`(?:^|[ (])((?:git (?:-C|clone|mv)|rm|mv) [^,;()]+)`)

// followRemedy runs the commands that the error names in the folder, one after the other. In placeholders it puts what a person would.
func followRemedy(t *testing.T, dir string, err error, placeholders ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	found := remedyCommand.FindAllStringSubmatch(strings.NewReplacer(" names candidates", "").Replace(err.Error()), -1)
	if len(found) == 0 {
		t.Fatalf("no remedy in %v", err)
	}
	for _, m := range found {
		command := strings.NewReplacer(placeholders...).Replace(strings.TrimSpace(m[1]))
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(git.Runner{}.Environ(), "HOME="+t.TempDir())
		out, cerr := cmd.CombinedOutput()
		if cerr != nil {
			t.Fatalf("%v: its remedy %s fails: %v\n%s", err, command, cerr, out)
		}
	}
}

func TestABranchThatIsGoneIsSetAgainByItsRemedy(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	last := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	runGit(t, r.opt.Dir, "update-ref", "-d", "refs/heads/main")

	followRemedy(t, "", r.Refresh(t.Context()), "<commit>", last)

	kit.Until(t, "it is well again", func() bool { return r.Refresh(t.Context()) == nil && r.Health() == nil })
	if r.Head() != last {
		t.Errorf("head is %s, want %s", r.Head(), last)
	}
	runGit(t, r.opt.Dir, "update-ref", "-d", "refs/heads/main")
	if out := runGit(t, r.opt.Dir, "fsck", "--lost-found", "--no-reflogs"); !strings.Contains(out, last) {
		t.Errorf("the commit that the branch was at is no candidate: %s", out)
	}
}

func TestADamagedBranchIsSetAgainByItsRemedy(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	last := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
	if err := os.WriteFile(filepath.Join(r.opt.Dir, "refs", "heads", "main"), []byte("\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}

	followRemedy(t, "", r.Refresh(t.Context()), "<commit>", last)

	kit.Until(t, "it is well again", func() bool { return r.Refresh(t.Context()) == nil && r.Health() == nil })
	if r.Head() != last {
		t.Errorf("head is %s, want %s", r.Head(), last)
	}
}

func TestHalfARepositoryIsPutBackByItsRemedy(t *testing.T) {
	t.Parallel()

	for name, damage := range map[string]func(dir string) error{
		"a part is gone":   func(dir string) error { return os.Remove(filepath.Join(dir, "config")) },
		"it can't be read": func(dir string) error { return os.WriteFile(filepath.Join(dir, "config"), []byte("[core"), 0o600) },
	} {
		r := openRepo(t, Options{})
		last := mustWrite(t, r, testID(1), shardDir(testID(1)), 1).Commit
		clone := filepath.Join(t.TempDir(), "clone")
		runGit(t, t.TempDir(), "clone", "-q", r.opt.Dir, clone)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := damage(r.opt.Dir); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), r.opt)

		followRemedy(t, "", err, "<a clone>", clone)

		again := openRepo(t, Options{Dir: r.opt.Dir})
		if again.Head() != last || len(again.List()) != 1 {
			t.Errorf("%s: head is %s with %d instances, want %s", name, again.Head(), len(again.List()), last)
		}
		mustWrite(t, again, testID(1), "", 2)
	}
}

func TestAMisnamedFileIsRenamedByItsRemedy(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	file := filepath.Join(dir, "instances", "a", "vnf.yml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(running(testID(1))), 0o600); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "init", "-q")
	runGit(t, dir, "add", "-A")
	w, err := read.WorkingCopy(dir)
	if err != nil || len(w.Problems()) != 1 {
		t.Fatal(err, w.Problems())
	}

	followRemedy(t, dir, w.Problems()[0])

	if w, err = read.WorkingCopy(dir); err != nil || len(w.Problems()) > 0 || len(w.List()) != 1 {
		t.Error(err, w.Problems())
	}
}
