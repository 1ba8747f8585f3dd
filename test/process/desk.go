package process

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Desk is a [Clone] at which a test works: what fails at it fails the test.
type Desk struct {
	clone *Clone
	t     testing.TB
}

// NewDesk clones a repository, by path or URL, into a folder that goes when the test ends.
func NewDesk(t testing.TB, remote string) *Desk {
	t.Helper()
	return &Desk{clone: NewClone(t, remote), t: t}
}

// DeskAt is a desk at a folder that exists, for its files or because it is a clone.
func DeskAt(t testing.TB, dir string) *Desk { return &Desk{clone: &Clone{Dir: dir}, t: t} }

// For is the same desk for another test, as a subtest.
func (d *Desk) For(t testing.TB) *Desk { return &Desk{clone: d.clone, t: t} }

// Dir is the work tree.
func (d *Desk) Dir() string { return d.clone.Dir }

// Git runs git in the work tree and returns what it prints, without the last newline.
func (d *Desk) Git(args ...string) string {
	d.t.Helper()
	out, err := Git(d.t.Context(), d.clone.Dir, args...)
	d.must(err)
	return out
}

// Write writes a file of the work tree, and the folders above it.
func (d *Desk) Write(name, text string) {
	d.t.Helper()
	d.must(d.clone.Write(name, text))
}

// Read reads a file of the work tree.
func (d *Desk) Read(name string) string {
	d.t.Helper()
	text, err := d.clone.Read(name)
	d.must(err)
	return text
}

// Replace edits a file, which has to contain old.
func (d *Desk) Replace(name, old, by string) {
	d.t.Helper()
	text := d.Read(name)
	if !strings.Contains(text, old) {
		d.t.Fatalf("%s has no %q:\n%s", name, old, text)
	}
	d.Write(name, strings.Replace(text, old, by, 1))
}

// Remove removes a file or folder of the work tree.
func (d *Desk) Remove(name string) {
	d.t.Helper()
	d.must(d.clone.Remove(name))
}

// Commit commits the whole work tree.
func (d *Desk) Commit(subject string) {
	d.t.Helper()
	_, err := d.clone.Commit(d.t.Context(), subject)
	d.must(err)
}

// Reset makes the clone what the repository's branch is; what was only here is forgotten.
func (d *Desk) Reset() {
	d.t.Helper()
	d.must(d.clone.Reset(d.t.Context()))
}

// Pull puts the desk's own commits on top of the repository's branch.
func (d *Desk) Pull() {
	d.t.Helper()
	d.Git("pull", "--quiet", "--rebase", "origin", "main")
}

// Push commits and pushes, and pushes again where somebody was quicker.
func (d *Desk) Push(subject string) {
	d.t.Helper()
	d.Commit(subject)
	if out, err := d.TryPush(); err != nil {
		d.t.Fatalf("push: %v\n%s", err, out)
	}
}

// pushing keeps tests that push to one repository from each other's way: git would refuse
// the slower, who would pull and push again.
var pushing sync.Mutex

// TryPush pushes what is committed, and again where somebody was quicker. It returns what
// the repository says, and an error where it refuses the push.
func (d *Desk) TryPush(options ...string) (string, error) {
	d.t.Helper()
	pushing.Lock()
	defer pushing.Unlock()
	args := []string{"-C", d.clone.Dir, "push", "--quiet"}
	for _, o := range options {
		args = append(args, "--push-option", o)
	}
	for {
		cmd := exec.CommandContext(d.t.Context(), "git", append(args, "origin", "HEAD:main")...)
		cmd.Env = Environment()
		out, err := cmd.CombinedOutput()
		if err == nil || !Overtaken(errors.New(string(out))) {
			return string(out), err
		}
		d.Pull()
	}
}

// PushFiles commits files on top of what is in the repository now, and pushes them, again
// where somebody was quicker; "" removes a file.
func (d *Desk) PushFiles(files map[string]string) {
	d.t.Helper()
	d.Reset()
	d.WriteFiles(files)
	d.Push("Change what the test needs")
}

// WriteFiles writes files of the work tree; "" removes one.
func (d *Desk) WriteFiles(files map[string]string) {
	d.t.Helper()
	for name, text := range files {
		if text == "" {
			d.Remove(name)
		} else {
			d.Write(name, text)
		}
	}
}

func (d *Desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// NewForge is the path of a bare repository as a forge has one, on which no hook of Jibe
// runs, with a first commit of the files if there are any.
func NewForge(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "forge.git")
	InitBare(t, dir)
	if len(files) > 0 {
		d := NewDesk(t, dir)
		d.WriteFiles(files)
		d.Push("Begin")
	}
	return dir
}

// InitBare makes an empty bare repository, whose branch is main.
func InitBare(t testing.TB, dir string) {
	t.Helper()
	if _, err := Git(t.Context(), filepath.Dir(dir), "init", "--quiet", "--bare", "--initial-branch=main", dir); err != nil {
		t.Fatal(err)
	}
}

// Desk is one at a repository of the server's: "desired.git", "packages/packages.git".
func (s *Server) Desk(t testing.TB, repository string) *Desk {
	t.Helper()
	return NewDesk(t, filepath.Join(s.Data, repository))
}
