package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// ErrConflict is returned for a branch that changes the same as the branch that it would be merged into.
var ErrConflict = errors.New("conflicts with the branch that it would be merged into")

// FindRoot finds the desired repository that dir stands in: the root of a clone, from any
// folder of it (clone is true), or dir itself where it is a plain folder with the files of
// one. The error says what such a repository looks like.
func FindRoot(ctx context.Context, dir string) (root string, clone bool, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", false, err
	}
	if st, err := os.Stat(dir); err != nil {
		return "", false, err
	} else if !st.IsDir() {
		return "", false, fmt.Errorf("%s is no folder", dir)
	}
	top, err := cloneAt(dir).Run(ctx, "rev-parse", "--show-toplevel")
	if top = strings.TrimSuffix(top, "\n"); err == nil && looksDesired(top) {
		return top, true, nil
	}
	if looksDesired(dir) {
		return dir, false, nil
	}
	looked := dir
	if err == nil && top != dir {
		looked += ", in the git repository " + top + ","
	}
	return "", false, fmt.Errorf("%s is no desired repository: that has %s/, with a folder for each instance, %s/ and %s. Give a folder of a clone of it (git clone <data directory>/desired.git)",
		looked, read.InstancesDir, desired.VIMDir, desired.RepositoriesFile)
}

// looksDesired says whether the folder has what a desired repository has at its root.
func looksDesired(dir string) bool {
	for _, name := range []string{read.InstancesDir, desired.VIMDir, desired.RepositoriesFile} {
		if st, err := os.Lstat(filepath.Join(dir, name)); err == nil && st.IsDir() == (name != desired.RepositoriesFile) {
			return true
		}
	}
	return false
}

// Draft is a push that nobody has made: a commit of the files of a clone as they stand, or of
// a branch as it would be once merged. It is in a folder of its own: the clone, its index and
// its objects stay as they are. It is read as any commit is.
type Draft struct {
	*read.Reader
	// Update is what the push would be. Its Old is "" where the clone doesn't know what it is
	// based on. Then all of New is new, and nobody can say what it would move or end.
	Update check.RefUpdate
	// Behind says that the branch has commits which the clone's files aren't based on: git
	// would refuse the push and ask to fetch first.
	Behind bool

	tmp string
	own func([]byte) bool
}

// NewDraft makes the draft of a clone at root ([FindRoot]). head is the commit at which the
// server stands, "" where it can't be asked. base is the branch or commit of the clone that the
// push would be made to; "" is that head, or what the clone last fetched. commit is a branch or
// commit of the clone; "" is its files, committed or not, but for those that git ignores.
// [Draft.Close] removes it.
func NewDraft(ctx context.Context, root, head, base, commit string) (*Draft, error) {
	return newDraft(ctx, root, head, base, commit, claimsSeal)
}

// newDraft is [NewDraft] where own says which commits are Jibe's, by their content.
func newDraft(ctx context.Context, root, head, base, commit string, own func([]byte) bool) (*Draft, error) {
	tmp, err := os.MkdirTemp("", "jibe-draft-")
	if err != nil {
		return nil, err
	}
	d := &Draft{tmp: tmp, own: own}
	if err := d.make(ctx, root, head, base, commit); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close ends the children of the reader and removes the draft.
func (d *Draft) Close() error {
	var err error
	if d.Reader != nil {
		err = d.Reader.Close()
	}
	return errors.Join(err, os.RemoveAll(d.tmp))
}

func (d *Draft) make(ctx context.Context, root, head, base, commit string) error {
	clone := cloneAt(root)
	objects, err := clone.Run(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return err
	}
	objects = strings.TrimSuffix(objects, "\n")
	repo := filepath.Join(d.tmp, "draft.git")
	if _, err := clone.Run(ctx, "init", "--quiet", "--bare", "--template=", "--initial-branch="+draftBranch, repo); err != nil {
		return err
	}
	own := filepath.Join(repo, "objects")
	if err := os.MkdirAll(filepath.Join(own, "info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "info", "alternates"), []byte(objects+"\n"), 0o600); err != nil {
		return err
	}
	clone.Env = append(clone.Env, "GIT_OBJECT_DIRECTORY="+own, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+objects, "GIT_INDEX_FILE="+filepath.Join(d.tmp, "index"))
	d.Reader = read.New(git.Runner{Dir: repo}, draftBranch, 16<<20)

	trunk, err := clone.trunk(ctx, head)
	if err == nil && base != "" {
		trunk, err = clone.named(ctx, base)
	}
	if err != nil {
		return err
	}
	d.Behind = head != "" && trunk != head
	var old, tree string
	if commit == "" {
		if old, tree, err = d.files(ctx, clone, trunk); err != nil {
			return err
		}
	} else if old, tree, err = d.merged(ctx, clone, commit, trunk); err != nil {
		return err
	}
	args := []string{"commit-tree", "-m", "Draft", tree}
	if old != "" {
		args = append(args, "-p", old)
	}
	made, err := clone.Run(ctx, args...)
	if err != nil {
		return err
	}
	d.Update = check.RefUpdate{Ref: d.Ref(), Old: old, New: strings.TrimSpace(made)}
	return nil
}

// draftBranch is the branch that stands for the desired one in a draft.
const draftBranch = "main"

// files returns the tree of the clone's files, and the commit that a push of them is compared
// with: the newest one of the branch that they are based on.
func (d *Draft) files(ctx context.Context, clone *draftClone, trunk string) (old, tree string, err error) {
	at, err := clone.commit(ctx, "HEAD")
	if err != nil {
		return "", "", err
	}
	if at != "" && trunk != "" {
		base, err := clone.mergeBase(ctx, trunk, at)
		if err != nil {
			return "", "", err
		}
		d.Behind = d.Behind || base != trunk
		old = base
	}
	// Git knows what stands in the clone's index by its size and times, and doesn't read it.
	index, err := clone.Run(ctx, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return "", "", err
	}
	if err := copyFile(strings.TrimSuffix(index, "\n"), filepath.Join(d.tmp, "index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if _, err := clone.Run(ctx, "-c", "core.splitIndex=false", "-c", "core.fsmonitor=false", "-c", "core.safecrlf=false",
		"-c", "advice.addEmbeddedRepo=false", "add", "--all", "--", ":/"); err != nil {
		return "", "", err
	}
	tree, err = clone.Run(ctx, "-c", "core.splitIndex=false", "write-tree")
	return old, strings.TrimSpace(tree), err
}

// draftClone is a clone of the desired repository that a person works in, and that stays as
// it is.
type draftClone struct{ git.Runner }

func cloneAt(root string) *draftClone {
	return &draftClone{git.Runner{Clone: root, Env: []string{
		"GIT_AUTHOR_NAME=jibe", "GIT_AUTHOR_EMAIL=jibe@localhost", "GIT_COMMITTER_NAME=jibe", "GIT_COMMITTER_EMAIL=jibe@localhost",
	}}}
}

// commit is the hash of a commit, "" where the clone has none of that name.
func (g *draftClone) commit(ctx context.Context, name string) (string, error) {
	out, err := g.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if _, said := errors.AsType[*git.Error](err); said && ctx.Err() == nil {
		return "", nil
	}
	return strings.TrimSpace(out), err
}

// named is the commit of a branch, tag or hash. A branch need not have been checked out: that of
// a pull request is known as the origin's.
func (g *draftClone) named(ctx context.Context, name string) (string, error) {
	at, err := g.commit(ctx, name)
	if err == nil && at == "" {
		at, err = g.commit(ctx, "refs/remotes/origin/"+name)
	}
	if err == nil && at == "" {
		err = fmt.Errorf("%s has no branch or commit %q (git fetch?)", g.Clone, name)
	}
	return at, err
}

// mergeBase is the commit from which two have parted, "" where they have nothing in common.
func (g *draftClone) mergeBase(ctx context.Context, a, b string) (string, error) {
	out, err := g.Run(ctx, "merge-base", a, b)
	if git.ExitCode(err) == 1 {
		return "", nil
	}
	return strings.TrimSpace(out), err
}

// trunk returns the desired branch as far as the clone knows it: the server's head, else where
// its origin stood when it was fetched; "" where it knows neither.
func (g *draftClone) trunk(ctx context.Context, head string) (string, error) {
	names := []string{"refs/remotes/origin/HEAD", "refs/remotes/origin/main"}
	if git.IsHash(head) {
		names = append([]string{head}, names...)
	}
	for _, name := range names {
		if c, err := g.commit(ctx, name); c != "" || err != nil {
			return c, err
		}
	}
	return "", nil
}

// merged returns the tree that a branch or commit would make if it were merged into the trunk,
// and the commit there that it is compared with. For a commit that is part of the trunk that
// is its own tree. Without a trunk, all of its tree counts. What it and the trunk change both is
// merged as a landing merges it, and else as git, and so a forge, does.
func (d *Draft) merged(ctx context.Context, clone *draftClone, name, trunk string) (old, tree string, err error) {
	at, err := clone.named(ctx, name)
	if err != nil {
		return "", "", err
	}
	tree = at + "^{tree}"
	if trunk == "" {
		return "", tree, nil
	}
	base, err := clone.mergeBase(ctx, trunk, at)
	if err != nil || base == trunk || base == at || base == "" {
		return trunk, tree, err
	}
	m := &merger{Reader: d.Reader, git: clone.Runner, own: d.own, onto: "the branch that it would be merged into"}
	by, err := m.merge(ctx, trunk, at)
	if err != nil {
		return "", "", err
	}
	switch {
	case len(by.conflicts) > 0:
	case by.pack.Empty():
		return trunk, by.tree, nil
	default:
		return trunk, by.tree, by.pack.Write(d.Git.Dir, d.tmp)
	}
	out, err := clone.Run(ctx, "merge-tree", "--write-tree", "--no-messages", trunk, at)
	if out = strings.TrimSpace(out); err == nil {
		return trunk, out, nil
	}
	if len(out) >= len(at) { // it names a tree with conflicts in it
		return "", "", fmt.Errorf("%s %w: rebase it first (%s: %s)", name, ErrConflict, by.conflicts[0].File, by.conflicts[0].Message)
	}
	return base, tree, nil // a git that can't merge without a work tree
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		return err
	}
	st, err := src.Stat()
	if err != nil {
		return err
	}
	return os.Chtimes(to, st.ModTime(), st.ModTime()) // git goes by them to find what it must read again
}
