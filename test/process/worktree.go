package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// WorkTree is a [Clone] in which a test works: git's failures fail the test.
type WorkTree struct {
	clone *Clone
	t     testing.TB
}

// NewWorkTree clones a repository, by path or URL, into a folder that goes when the test ends.
func NewWorkTree(t testing.TB, remote string) *WorkTree {
	t.Helper()
	return &WorkTree{clone: NewClone(t, remote), t: t}
}

// WorkTreeAt is a work tree at a folder that exists, for its files or because it is a clone.
func WorkTreeAt(t testing.TB, dir string) *WorkTree { return &WorkTree{clone: &Clone{Dir: dir}, t: t} }

// For is the same work tree for another test, such as a subtest.
func (w *WorkTree) For(t testing.TB) *WorkTree { return &WorkTree{clone: w.clone, t: t} }

// Dir is the work tree.
func (w *WorkTree) Dir() string { return w.clone.Dir }

// Git runs git in the work tree and returns what it prints, without the last newline.
func (w *WorkTree) Git(args ...string) string {
	w.t.Helper()
	out, err := Git(w.t.Context(), w.clone.Dir, args...)
	w.must(err)
	return out
}

// Write writes a file of the work tree, and the folders above it.
func (w *WorkTree) Write(name, text string) {
	w.t.Helper()
	w.must(w.clone.Write(name, text))
}

// Read reads a file of the work tree.
func (w *WorkTree) Read(name string) string {
	w.t.Helper()
	text, err := w.clone.Read(name)
	w.must(err)
	return text
}

// Replace edits a file, which has to contain old.
func (w *WorkTree) Replace(name, old, by string) {
	w.t.Helper()
	text := w.Read(name)
	if !strings.Contains(text, old) {
		w.t.Fatalf("%s has no %q:\n%s", name, old, text)
	}
	w.Write(name, strings.Replace(text, old, by, 1))
}

// Remove removes a file or folder of the work tree.
func (w *WorkTree) Remove(name string) {
	w.t.Helper()
	w.must(w.clone.Remove(name))
}

// Commit commits the whole work tree.
func (w *WorkTree) Commit(subject string) {
	w.t.Helper()
	_, err := w.clone.Commit(w.t.Context(), subject)
	w.must(err)
}

// Reset makes the clone what the repository's branch is; what was only here is forgotten.
func (w *WorkTree) Reset() {
	w.t.Helper()
	w.must(w.clone.Reset(w.t.Context()))
}

// Pull puts the clone's own commits on top of the repository's branch.
func (w *WorkTree) Pull() {
	w.t.Helper()
	w.Git("pull", "--quiet", "--rebase", "origin", "main")
}

// Push commits and pushes, and pushes again where somebody was quicker.
func (w *WorkTree) Push(subject string) {
	w.t.Helper()
	w.Commit(subject)
	if out, err := w.TryPush(); err != nil {
		w.t.Fatalf("push: %v\n%s", err, out)
	}
}

// pushing keeps tests that push to one repository from each other's way: git would refuse
// the slower, who would pull and push again.
var pushing sync.Mutex

// TryPush pushes what is committed, and again where somebody was quicker. It returns what
// the repository says, and an error where it refuses the push.
func (w *WorkTree) TryPush(options ...string) (string, error) {
	w.t.Helper()
	out, err := w.tryPush(options...)
	if errors.Is(err, errConflict) {
		w.t.Fatal(err)
	}
	return out, err
}

// errConflict is returned where who was quicker has changed the same lines.
var errConflict = errors.New("what somebody else has pushed is in the way")

// tryPush is [WorkTree.TryPush] that returns [errConflict], and leaves the clone as it was then.
func (w *WorkTree) tryPush(options ...string) (string, error) {
	w.t.Helper()
	pushing.Lock()
	defer pushing.Unlock()
	args := []string{"-C", w.clone.Dir, "push", "--quiet"}
	for _, o := range options {
		args = append(args, "--push-option", o)
	}
	for {
		cmd := exec.CommandContext(w.t.Context(), "git", append(args, "origin", "HEAD:main")...)
		cmd.Env = Environment()
		out, err := cmd.CombinedOutput()
		if err == nil || !Overtaken(errors.New(string(out))) {
			return string(out), err
		}
		if err := w.clone.Rebase(w.t.Context()); err != nil {
			return string(out), fmt.Errorf("%w: %w", errConflict, err)
		}
	}
}

// PushFiles commits files on top of what is in the repository now, and pushes them, again
// where somebody was quicker; "" removes a file. Where that was Jibe, which fills in one of the
// files just then, it begins again with what is there.
func (w *WorkTree) PushFiles(files map[string]string) {
	w.t.Helper()
	for {
		w.Reset()
		w.WriteFiles(files)
		w.Commit("Change what the test needs")
		out, err := w.tryPush()
		if err == nil {
			return
		}
		if !errors.Is(err, errConflict) {
			w.t.Fatalf("push: %v\n%s", err, out)
		}
	}
}

// WriteFiles writes files of the work tree; "" removes one.
func (w *WorkTree) WriteFiles(files map[string]string) {
	w.t.Helper()
	for name, text := range files {
		if text == "" {
			w.Remove(name)
		} else {
			w.Write(name, text)
		}
	}
}

func (w *WorkTree) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// NewForge is the path of a bare repository as a forge has one, on which no hook of Jibe
// runs, with a first commit of the files if there are any.
func NewForge(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "forge.git")
	InitBare(t, dir)
	if len(files) > 0 {
		BareAt(t, dir).Change("Begin", files)
	}
	return dir
}

// InitBare makes an empty bare repository, whose branch is main: what "git init" would make, but for its examples.
func InitBare(t testing.TB, dir string) {
	t.Helper()
	for _, sub := range []string{"hooks", "objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: " + mainRef + "\n", "config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// WorkTree is one of a repository of the server's: "desired.git", "packages/packages.git".
func (s *Server) WorkTree(t testing.TB, repository string) *WorkTree {
	t.Helper()
	return NewWorkTree(t, filepath.Join(s.Data, repository))
}
