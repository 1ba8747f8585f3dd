package process_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
)

func TestGitReadsWhatABareRepositoryWasGivenWithoutIt(t *testing.T) {
	t.Parallel()
	b := process.NewBare(t)
	first := b.Change("First", map[string]string{"a/b.txt": "one\n", "a/c/d.txt": "two\n", "a.txt": "three\n"})
	second := b.Edit("Second", "a/b.txt", func(text string) string { return text + "more\n" })
	third := b.Change("Third", map[string]string{"a/c": "", "e.txt": "four\n"})
	b.Move("refs/tags/v1", third)
	git := func(args ...string) string {
		t.Helper()
		out, err := process.Git(t.Context(), b.Dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	if got, want := git("log", "--format=%H %s", "main"), third+" Third\n"+second+" Second\n"+first+" First"; got != want {
		t.Errorf("the history is\n%s\nwant\n%s", got, want)
	}
	if got, want := git("ls-tree", "-r", "--name-only", "v1"), "a.txt\na/b.txt\ne.txt"; got != want {
		t.Errorf("the files are\n%s\nwant\n%s", got, want)
	}
	if got := git("show", "main:a/b.txt") + "\n"; got != "one\nmore\n" || b.Read("a/b.txt") != got || b.ObjectAt(third, "a") != git("rev-parse", "main:a") {
		t.Errorf("a/b.txt is %q, and read as %q", got, b.Read("a/b.txt"))
	}
	if err := process.Fsck(t.Context(), b.Dir); err != nil {
		t.Error(err)
	}

	fork := b.Fork()
	commit := fork.Commit("Of a fork", map[string]string{"f.txt": "five\n"}, b.Head())
	if said, err := fork.Push(b.Dir, commit+":refs/heads/main"); err != nil || b.Head() != commit || b.Read("f.txt") != "five\n" {
		t.Errorf("the push of a fork: %s, %v", said, err)
	}
	behind := fork.Commit("Of one who is behind", map[string]string{"f.txt": "six\n"}, third)
	if said, err := fork.Push(b.Dir, behind+":refs/heads/main"); err == nil || !strings.Contains(said, "non-fast-forward") || !process.Overtaken(err) {
		t.Errorf("a push of who is behind: %s, %v", said, err)
	}
}
