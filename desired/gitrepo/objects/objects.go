// Package objects reads the commits, trees and files of one repository, within bounds, and says what to do where one
// cannot be read. What the files mean is for the rooms above it to know.
package objects

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/lru"
)

// ErrClosed is returned after Close.
var ErrClosed = fmt.Errorf("%w: the repository is closed", desired.ErrUnavailable)

// Bounds on what a push may make a reader read and walk: a desired repository holds
// text that people write, and a few kilobytes of trees that name each other can unfold
// to billions of paths.
const (
	MaxObject  = 16 << 20 // bytes of a file, of a directory's list, of a commit
	MaxDepth   = 24
	MaxFiles   = 1_000    // in one instance's directory
	maxDirSize = 32 << 20 // bytes in one instance's directory
)

// DB reads the objects of one repository, of which one branch is the desired state: within bounds, and with errors that
// say what to do. It is safe for concurrent use.
type DB struct {
	Git     git.Runner
	Branch  string
	Objects *git.Objects
	commits *lru.Cache[git.Commit]
	cut     cutHistory
}

// NewDB makes a DB that keeps up to cacheBytes of what it reads.
func NewDB(runner git.Runner, branch string, cacheBytes int) *DB {
	return &DB{
		Git:     runner,
		Branch:  branch,
		Objects: git.NewObjects(runner, git.Limits{Blob: MaxObject, Tree: MaxObject, Commit: MaxObject}, cacheBytes),
		commits: lru.New[git.Commit](1<<20, 1<<16),
	}
}

// Close ends the children of git that read.
func (db *DB) Close() error {
	db.Objects.Close()
	return nil
}

// FirstKept are the commits whose parents were archived; none where nothing was ever cut.
func (db *DB) FirstKept() (map[string]bool, error) { return db.cut.commits(db.Git.Dir) }

// Ref is the branch of the desired state, as git names it in full.
func (db *DB) Ref() string { return "refs/heads/" + db.Branch }

// Resolve returns the commit that a revision as git writes them ("v1", "main~2") names.
func (db *DB) Resolve(ctx context.Context, rev string) (string, error) {
	if git.IsHash(rev) {
		return rev, nil
	}
	if rev == "" || strings.HasPrefix(rev, "-") {
		return "", fmt.Errorf("%w: commit %q", desired.ErrNotFound, rev)
	}
	out, err := db.Git.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if git.ExitCode(err) == 1 {
		return "", fmt.Errorf("%w: commit %q", desired.ErrNotFound, rev)
	} else if err != nil {
		return "", fmt.Errorf("resolve %q: %w", rev, err)
	}
	return strings.TrimSpace(out), nil
}

// RootOf returns the root tree of a commit; the empty commit has none.
func (db *DB) RootOf(ctx context.Context, commit string) (string, error) {
	if commit == "" || commit == git.ZeroHash {
		return "", nil
	}
	c, err := db.Commit(ctx, commit)
	return c.Tree, err
}

// Commit reads a commit. The first that is left of a history that was cut has no parents.
func (db *DB) Commit(ctx context.Context, hash string) (git.Commit, error) {
	c, known := db.commits.Get(hash)
	if !known {
		data, err := db.Objects.Get(ctx, git.KindCommit, hash)
		if err != nil {
			return git.Commit{}, db.Damaged("commit "+hash, err)
		}
		if c, err = git.ParseCommit(data); err != nil {
			return git.Commit{}, db.Damaged("commit "+hash, err)
		}
		db.commits.Add(hash, c, len(data))
	}
	if len(c.Parents) > 0 {
		first, err := db.FirstKept()
		if err != nil {
			return git.Commit{}, err
		}
		if first[hash] {
			c.Parents = nil
		}
	}
	return c, nil
}

// Damaged adds to the error what couldn't be read, and what to do where that is the
// repository's fault.
func (db *DB) Damaged(what string, err error) error {
	if errors.Is(err, git.ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, git.ErrMissing) {
		return fmt.Errorf("read %s of %s: %w (see git -C %s fsck; restore the object by pushing it from a clone)", what, db.Git.Dir, err, db.Git.Dir)
	}
	return fmt.Errorf("read %s of %s: %w", what, db.Git.Dir, err)
}

// Tree decodes a tree; "" is an empty one.
func (db *DB) Tree(ctx context.Context, hash string) (*git.Tree, error) {
	if hash == "" {
		return &git.Tree{}, nil
	}
	data, err := db.Objects.Get(ctx, git.KindTree, hash)
	if err != nil {
		return nil, err
	}
	t, err := git.ParseTree(data)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", hash, err)
	}
	return t, nil
}

// LookupPath finds the entry at a path below a root tree.
func (db *DB) LookupPath(ctx context.Context, root, p string) (git.Entry, bool, error) {
	e := git.Entry{Mode: git.ModeDir, Hash: root}
	if root == "" {
		return git.Entry{}, false, nil
	}
	for name := range strings.SplitSeq(p, "/") {
		if !e.IsDir() {
			return git.Entry{}, false, nil
		}
		raw, err := db.Objects.Get(ctx, git.KindTree, e.Hash)
		if err != nil {
			return git.Entry{}, false, err
		}
		var ok bool
		if e, ok, err = git.FindEntry(raw, name); err != nil {
			return git.Entry{}, false, fmt.Errorf("tree %s: %w", e.Hash, err)
		} else if !ok {
			return git.Entry{}, false, nil
		}
	}
	return e, true, nil
}

// File is one file below a directory.
type File struct {
	Path string
	git.Entry
}

// ListFiles walks a directory's tree; symbolic links and submodules are listed too.
func (db *DB) ListFiles(ctx context.Context, hash string) ([]File, error) {
	var out []File
	type folder struct{ prefix, hash string }
	for level, depth := []folder{{"", hash}}, 0; len(level) > 0; depth++ {
		if depth > MaxDepth {
			return nil, fmt.Errorf("directories are nested more than %d deep", MaxDepth)
		}
		hashes := make([]string, len(level))
		for i, f := range level {
			hashes[i] = f.hash
		}
		raws, err := db.Objects.GetMany(ctx, git.KindTree, hashes)
		if err != nil {
			return nil, err
		}
		var next []folder
		for i, raw := range raws {
			t, err := git.ParseTree(raw)
			if err != nil {
				return nil, fmt.Errorf("tree %s: %w", hashes[i], err)
			}
			for j := range t.Len() {
				e := t.At(j)
				p := path.Join(level[i].prefix, e.Name)
				if e.IsDir() {
					next = append(next, folder{p, e.Hash})
				} else {
					out = append(out, File{p, e})
				}
				if len(out)+len(next) > MaxFiles {
					return nil, fmt.Errorf("more than %d files in one instance's directory", MaxFiles)
				}
			}
		}
		level = next
	}
	return out, nil
}

// ReadFiles returns the regular files below a directory's tree.
func (db *DB) ReadFiles(ctx context.Context, hash string) (desired.Files, []File, error) {
	if hash == "" {
		return desired.Files{}, nil, nil
	}
	all, err := db.ListFiles(ctx, hash)
	if err != nil {
		return nil, nil, err
	}
	var paths, hashes []string
	for _, e := range all {
		if e.IsFile() {
			paths, hashes = append(paths, e.Path), append(hashes, e.Hash)
		}
	}
	files, size := make(desired.Files, len(paths)), 0
	err = db.Objects.Each(ctx, git.KindBlob, hashes, func(i int, data []byte, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
		if size += len(data); size > maxDirSize {
			return fmt.Errorf("the directory is larger than %d bytes", maxDirSize)
		}
		files[paths[i]] = data
		return nil
	})
	return files, all, err
}

// NotFound makes a missing object desired.ErrNotFound for callers that ask for a
// revision by name: it may simply be one that this repository never had.
func NotFound(err error) error {
	if errors.Is(err, git.ErrMissing) {
		return fmt.Errorf("%w: %w", desired.ErrNotFound, err)
	}
	return err
}

// FileAt returns a file of a commit's root tree.
func (db *DB) FileAt(ctx context.Context, root, p string) ([]byte, error) {
	e, ok, err := db.LookupPath(ctx, root, path.Clean(p))
	if err != nil {
		return nil, db.Damaged(p, err)
	}
	if !ok || !e.IsFile() {
		return nil, fmt.Errorf("%w: %s", desired.ErrNotFound, p)
	}
	data, err := db.Objects.Get(ctx, git.KindBlob, e.Hash)
	if err != nil {
		return nil, db.Damaged(p, err)
	}
	return data, nil
}

// IsAncestor reports whether a commit is, or is in the history of, another one.
func (db *DB) IsAncestor(ctx context.Context, old, now string) (bool, error) {
	_, err := db.Git.Run(ctx, "merge-base", "--is-ancestor", old, now)
	if git.ExitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// OwnDir is Jibe's folder in the repository.
func OwnDir(gitDir string) string { return filepath.Join(gitDir, "jibe") }
