package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// Git runs git in a folder and returns what it prints, without the last newline.
func Git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "maintenance.auto=false"}, args...)...) // which a test's clone doesn't need
	cmd.Env = Environment()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimRight(string(out), "\n"), err
}

// fsckWait bounds the wait for a repository to be whole while somebody writes to it.
const fsckWait = 30 * time.Second

// Fsck returns what git finds wrong with a repository, nil where that is nothing. What comes while git
// looks, as the note of an operation that has just ended, it calls missing: it looks again then.
func Fsck(ctx context.Context, repository string) error {
	return kit.Poll(ctx, fsckWait, func() error {
		out, err := Git(ctx, repository, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
		if err == nil && out != "" {
			err = errors.New(out)
		}
		if err != nil {
			return fmt.Errorf("fsck of %s: %w", repository, err)
		}
		return nil
	})
}

// Desired is the path of the desired repository; a push to it goes through its hook.
func (s *Server) Desired() string { return filepath.Join(s.Data, "desired.git") }

// DesiredURL is the URL of the desired repository, with the token in it.
func (s *Server) DesiredURL() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL // never: the process printed it
	}
	u.User = url.UserPassword("test", s.Token)
	return u.String() + "/git/desired.git"
}

// Clone is a person's clone of a repository. It isn't for use by several goroutines.
type Clone struct {
	Dir string
}

// NewClone clones a repository, by path or URL, into a folder that goes when the test ends.
func NewClone(t testing.TB, remote string) *Clone {
	t.Helper()
	c := &Clone{Dir: filepath.Join(t.TempDir(), "clone")}
	// Not by copying files, which may go meanwhile: the server may be writing.
	if _, err := Git(t.Context(), filepath.Dir(c.Dir), "clone", "--quiet", "--no-local", "--", remote, c.Dir); err != nil {
		t.Fatal(err)
	}
	// A package repository is empty at first, and so has no branch to follow.
	if _, err := Git(t.Context(), c.Dir, "symbolic-ref", "HEAD", "refs/heads/main"); err != nil {
		t.Fatal(err)
	}
	return c
}

// Write writes a file of the work tree, and the folders above it.
func (c *Clone) Write(name, content string) error {
	name = filepath.Join(c.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}

// Read reads a file of the work tree.
func (c *Clone) Read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, filepath.FromSlash(name)))
	return string(text), err
}

// Remove removes a file or folder of the work tree.
func (c *Clone) Remove(name string) error {
	return os.RemoveAll(filepath.Join(c.Dir, filepath.FromSlash(name)))
}

// Commit commits the whole work tree and returns the commit's hash.
func (c *Clone) Commit(ctx context.Context, message string) (string, error) {
	if _, err := Git(ctx, c.Dir, "add", "--all"); err != nil {
		return "", err
	}
	if _, err := Git(ctx, c.Dir, "commit", "--quiet", "-m", message); err != nil {
		return "", err
	}
	return c.head(ctx)
}

// head is the commit that is checked out.
func (c *Clone) head(ctx context.Context) (string, error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, ".git", "HEAD"))
	if err != nil {
		return "", err
	}
	if branch, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: "); ok {
		return git.ReadRef(filepath.Join(c.Dir, ".git"), branch)
	}
	return Git(ctx, c.Dir, "rev-parse", "HEAD")
}

// Push pushes the branch main. A nil error means that the push was accepted; another
// one that it was refused, or that no answer came.
func (c *Clone) Push(ctx context.Context) error {
	_, err := Git(ctx, c.Dir, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	return err
}

// Reset fetches and makes the clone what the repository's branch is; what was only
// here is forgotten.
func (c *Clone) Reset(ctx context.Context) error {
	if _, err := Git(ctx, c.Dir, "fetch", "--quiet", "origin", "+refs/heads/main:refs/remotes/origin/main"); err != nil {
		return err
	}
	_, err := Git(ctx, c.Dir, "reset", "--quiet", "--hard", "origin/main")
	return err
}

// Rebase fetches and puts the clone's own commits on top of the repository's branch.
// Where they conflict, it gives up and leaves the clone as it was.
func (c *Clone) Rebase(ctx context.Context) error {
	if _, err := Git(ctx, c.Dir, "fetch", "--quiet", "origin", "+refs/heads/main:refs/remotes/origin/main"); err != nil {
		return err
	}
	if _, err := Git(ctx, c.Dir, "rebase", "--quiet", "origin/main"); err != nil {
		_, aborted := Git(ctx, c.Dir, "rebase", "--abort")
		return errors.Join(err, aborted)
	}
	return nil
}

// PushFiles commits files, by name, to the desired repository and pushes them: VIMs,
// instances.
func (s *Server) PushFiles(t testing.TB, files map[string]string) {
	t.Helper()
	s.PushChange(t, NewClone(t, s.Desired()), func(*Clone) (map[string]string, error) { return files, nil })
}

// PushChange commits the files that change makes of the newest state of a clone of the
// desired repository, and pushes them. Where another push was faster, git refuses this
// one, and it begins again, as a person does. It returns how many files it has changed.
func (s *Server) PushChange(t testing.TB, c *Clone, change func(*Clone) (map[string]string, error)) int {
	t.Helper()
	for {
		if err := c.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		files, err := change(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			return 0
		}
		for name, content := range files {
			if err := c.Write(name, content); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Commit(t.Context(), "Add what the test needs"); err != nil {
			t.Fatal(err)
		}
		switch err := c.Push(t.Context()); {
		case err == nil:
			return len(files)
		case !Overtaken(err):
			t.Fatal(err)
		}
	}
}

// Ref is where a ref of the bare repository at dir is, "" for nowhere. It reads git's own files, as tests look often, and
// a process takes as long as all else that a look does.
func Ref(dir, ref string) (string, error) {
	loose, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(ref)))
	if err == nil {
		return strings.TrimSpace(string(loose)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	packed, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(packed)) {
		if hash, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
			return hash, nil
		}
	}

	return "", nil
}
