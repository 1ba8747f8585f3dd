package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/lru"
)

// errClosed is returned after Close.
var errClosed = fmt.Errorf("%w: the repository is closed", desired.ErrUnavailable)

// instancesDir is the folder below which instances stand.
const instancesDir = "instances"

// Bounds on what a push may make a reader read and walk: a desired repository holds
// text that people write, and a few kilobytes of trees that name each other can unfold
// to billions of paths.
const (
	maxObject  = 16 << 20 // bytes of a file, of a directory's list, of a commit
	maxDepth   = 24
	maxFiles   = 1_000    // in one instance's directory
	maxDirSize = 32 << 20 // bytes in one instance's directory
)

// Reader reads any commit of a repository. It is safe for concurrent use. In a
// hook it sees the objects in quarantine, see [OpenQuarantine].
type Reader struct {
	git     git.Runner
	branch  string
	objects *git.Objects
	commits *lru.Cache[git.Commit]
	parsed  *lru.Cache[*desired.Instance] // by tree, and by directory where the id depends on it
	granted *lru.Cache[*desired.Granted]  // by tree; nil where a directory has no granted.yaml
	forms   *desired.Forms
	firsts  *lru.Cache[firstSpelled] // by the paths of the folders
	authors authors
	cut     cutHistory
	// pushed says who pushed up to a commit, nil where nobody is known; nil knows none.
	pushed func(ctx context.Context, commit string) (*Push, error)
}

// newReader makes a reader that keeps up to cacheBytes of what it reads. Most is for parsed
// instances: a network is looked at in turn, and a cache that doesn't hold all of it holds
// nothing when its turn comes again.
func newReader(runner git.Runner, branch string, cacheBytes int) *Reader {
	return &Reader{
		git:     runner,
		branch:  branch,
		objects: git.NewObjects(runner, git.Limits{Blob: maxObject, Tree: maxObject, Commit: maxObject}, cacheBytes/4),
		commits: lru.New[git.Commit](1<<20, 1<<16),
		parsed:  lru.New[*desired.Instance](cacheBytes/2, cacheBytes/8),
		granted: lru.New[*desired.Granted](cacheBytes/8, cacheBytes/16),
		forms:   desired.NewForms(cacheBytes / 8),
		firsts:  lru.New[firstSpelled](1<<20, 1<<16),
	}
}

// Close ends the reader's children.
func (r *Reader) Close() error {
	r.objects.Close()
	return nil
}

func (r *Reader) ref() string { return "refs/heads/" + r.branch }

// resolve returns the commit that a revision as git writes them ("v1", "main~2") names.
func (r *Reader) resolve(ctx context.Context, rev string) (string, error) {
	if git.IsHash(rev) {
		return rev, nil
	}
	if rev == "" || strings.HasPrefix(rev, "-") {
		return "", fmt.Errorf("%w: commit %q", desired.ErrNotFound, rev)
	}
	out, err := r.git.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if git.ExitCode(err) == 1 {
		return "", fmt.Errorf("%w: commit %q", desired.ErrNotFound, rev)
	} else if err != nil {
		return "", fmt.Errorf("resolve %q: %w", rev, err)
	}
	return strings.TrimSpace(out), nil
}

// rootOf returns the root tree of a commit; the empty commit has none.
func (r *Reader) rootOf(ctx context.Context, commit string) (string, error) {
	if commit == "" || commit == git.ZeroHash {
		return "", nil
	}
	c, err := r.commit(ctx, commit)
	return c.Tree, err
}

func (r *Reader) commit(ctx context.Context, hash string) (git.Commit, error) {
	c, known := r.commits.Get(hash)
	if !known {
		data, err := r.objects.Get(ctx, git.KindCommit, hash)
		if err != nil {
			return git.Commit{}, r.damaged("commit "+hash, err)
		}
		if c, err = git.ParseCommit(data); err != nil {
			return git.Commit{}, r.damaged("commit "+hash, err)
		}
		r.commits.Add(hash, c, len(data))
	}
	if len(c.Parents) > 0 {
		first, err := r.cut.commits(r.git.Dir)
		if err != nil {
			return git.Commit{}, err
		}
		if first[hash] {
			c.Parents = nil
		}
	}
	return c, nil
}

// damaged adds to the error what couldn't be read, and what to do where that is the
// repository's fault.
func (r *Reader) damaged(what string, err error) error {
	if errors.Is(err, git.ErrClosed) {
		return errClosed
	}
	if errors.Is(err, git.ErrMissing) {
		return fmt.Errorf("read %s of %s: %w (see git -C %s fsck; restore the object by pushing it from a clone)", what, r.git.Dir, err, r.git.Dir)
	}
	return fmt.Errorf("read %s of %s: %w", what, r.git.Dir, err)
}

// tree decodes a tree; "" is an empty one.
func (r *Reader) tree(ctx context.Context, hash string) (*git.Tree, error) {
	if hash == "" {
		return &git.Tree{}, nil
	}
	data, err := r.objects.Get(ctx, git.KindTree, hash)
	if err != nil {
		return nil, err
	}
	t, err := git.ParseTree(data)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", hash, err)
	}
	return t, nil
}

// lookupPath finds the entry at a path below a root tree.
func (r *Reader) lookupPath(ctx context.Context, root, p string) (git.Entry, bool, error) {
	e := git.Entry{Mode: git.ModeDir, Hash: root}
	if root == "" {
		return git.Entry{}, false, nil
	}
	for name := range strings.SplitSeq(p, "/") {
		if !e.IsDir() {
			return git.Entry{}, false, nil
		}
		raw, err := r.objects.Get(ctx, git.KindTree, e.Hash)
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

// fileEntry is one file below a directory.
type fileEntry struct {
	path string
	git.Entry
}

// listFiles walks a directory's tree; symbolic links and submodules are listed too.
func (r *Reader) listFiles(ctx context.Context, hash string) ([]fileEntry, error) {
	var out []fileEntry
	type folder struct{ prefix, hash string }
	for level, depth := []folder{{"", hash}}, 0; len(level) > 0; depth++ {
		if depth > maxDepth {
			return nil, fmt.Errorf("directories are nested more than %d deep", maxDepth)
		}
		hashes := make([]string, len(level))
		for i, f := range level {
			hashes[i] = f.hash
		}
		raws, err := r.objects.GetMany(ctx, git.KindTree, hashes)
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
					out = append(out, fileEntry{p, e})
				}
				if len(out)+len(next) > maxFiles {
					return nil, fmt.Errorf("more than %d files in one instance's directory", maxFiles)
				}
			}
		}
		level = next
	}
	return out, nil
}

// readFiles returns the regular files below a directory's tree.
func (r *Reader) readFiles(ctx context.Context, hash string) (desired.Files, []fileEntry, error) {
	if hash == "" {
		return desired.Files{}, nil, nil
	}
	all, err := r.listFiles(ctx, hash)
	if err != nil {
		return nil, nil, err
	}
	var paths, hashes []string
	for _, e := range all {
		if e.IsFile() {
			paths, hashes = append(paths, e.path), append(hashes, e.Hash)
		}
	}
	files, size := make(desired.Files, len(paths)), 0
	err = r.objects.Each(ctx, git.KindBlob, hashes, func(i int, data []byte, err error) error {
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

// Files returns the content of the directory at rev.
func (r *Reader) Files(ctx context.Context, rev desired.Revision) (desired.Files, error) {
	if rev.Tree == "" {
		return nil, fmt.Errorf("%w: instance %s has no directory at %s", desired.ErrNotFound, rev.Instance, rev.Commit)
	}
	files, _, err := r.readFiles(ctx, rev.Tree)
	if err != nil {
		return nil, notFound(r.damaged(fmt.Sprintf("%s at %s", rev.Dir, rev.Commit), err))
	}
	return files, nil
}

// notFound makes a missing object desired.ErrNotFound for callers that ask for a
// revision by name: it may simply be one that this repository never had.
func notFound(err error) error {
	if errors.Is(err, git.ErrMissing) {
		return fmt.Errorf("%w: %w", desired.ErrNotFound, err)
	}
	return err
}

// Read parses the instance at rev, with what was granted to it.
func (r *Reader) Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	if rev.Tree == "" {
		return nil, fmt.Errorf("%w: instance %s has no directory at %s", desired.ErrNotFound, rev.Instance, rev.Commit)
	}
	in, err := r.readInstance(ctx, rev)
	if err != nil {
		return nil, err
	}
	granted, err := r.readGranted(ctx, rev)
	if err != nil {
		return nil, err
	}
	if granted == nil && in.Dir == rev.Dir {
		return in, nil
	}
	with := *in // the same text may stand in another directory
	with.Granted, with.Dir = granted, rev.Dir
	return &with, nil
}

// readGranted parses what was granted to the instance at rev; nil is nothing.
func (r *Reader) readGranted(ctx context.Context, rev desired.Revision) (*desired.Granted, error) {
	if known, ok := r.granted.Get(rev.Tree); ok {
		return known, nil
	}
	file := path.Join(rev.Dir, desired.GrantedFile)
	e, ok, err := r.lookupPath(ctx, rev.Tree, desired.GrantedFile)
	if err != nil {
		return nil, notFound(r.damaged(file+" at "+rev.Commit, err))
	}
	if !ok || !e.IsFile() {
		r.granted.Add(rev.Tree, nil, 0)
		return nil, nil
	}
	data, err := r.objects.Get(ctx, git.KindBlob, e.Hash)
	if err != nil {
		return nil, notFound(r.damaged(file+" at "+rev.Commit, err))
	}
	granted, err := desired.ParseGranted(file, data)
	if err != nil {
		return nil, err
	}
	r.granted.Add(rev.Tree, granted, 3*len(data))
	return granted, nil
}

// readInstance parses the instance's file at rev.
func (r *Reader) readInstance(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	if in, ok := r.wasParsed(rev.Dir, rev.Tree); ok {
		return in, nil
	}
	file := path.Join(rev.Dir, desired.InstanceFile)
	e, ok, err := r.lookupPath(ctx, rev.Tree, desired.InstanceFile)
	if err != nil {
		return nil, notFound(r.damaged(file+" at "+rev.Commit, err))
	}
	if !ok || !e.IsFile() {
		return nil, fmt.Errorf("%w: %s at %s", desired.ErrNotFound, file, rev.Commit)
	}
	data, err := r.objects.Get(ctx, git.KindBlob, e.Hash)
	if err != nil {
		return nil, notFound(r.damaged(file+" at "+rev.Commit, err))
	}
	return r.parse(rev.Dir, rev.Tree, data)
}

// parse parses an instance's file and remembers the result.
func (r *Reader) parse(dir, tree string, data []byte) (*desired.Instance, error) {
	in, held, err := r.forms.Parse(path.Join(dir, desired.InstanceFile), data)
	if err != nil {
		return nil, err
	}
	in.Dir = dir // the text that the index holds anyway, in place of another one
	key := tree
	if in.Derived {
		key = derivedKey(dir, tree)
	}
	r.parsed.Add(key, in, held)
	return in, nil
}

// wasParsed finds an instance that parse remembers.
func (r *Reader) wasParsed(dir, tree string) (*desired.Instance, bool) {
	if in, ok := r.parsed.Get(tree); ok {
		return in, true
	}
	return r.parsed.Get(derivedKey(dir, tree))
}

// derivedKey is the key of an instance whose id follows from its directory.
func derivedKey(dir, tree string) string { return tree + " " + dir }

// fileAt returns a file of a commit's root tree.
func (r *Reader) fileAt(ctx context.Context, root, p string) ([]byte, error) {
	e, ok, err := r.lookupPath(ctx, root, path.Clean(p))
	if err != nil {
		return nil, r.damaged(p, err)
	}
	if !ok || !e.IsFile() {
		return nil, fmt.Errorf("%w: %s", desired.ErrNotFound, p)
	}
	data, err := r.objects.Get(ctx, git.KindBlob, e.Hash)
	if err != nil {
		return nil, r.damaged(p, err)
	}
	return data, nil
}
