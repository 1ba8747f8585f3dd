package read

import (
	"context"
	"fmt"
	"path"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/lru"
)

// InstancesDir is the folder below which instances stand.
const InstancesDir = "instances"

// Reader reads any commit of a repository. It is safe for concurrent use. In a
// hook it sees the objects in quarantine, see [OpenQuarantine].
type Reader struct {
	*objects.DB
	parsed  *lru.Cache[*desired.Instance] // by tree, and by directory where the id depends on it
	granted *lru.Cache[*desired.Granted]  // by tree; nil where a directory has no granted.yaml
	forms   *desired.Forms
	firsts  *lru.Cache[firstSpelled] // by the paths of the folders
	authors authors
	// Pushed says who pushed up to a commit, nil where no pusher is known; nil knows none.
	Pushed func(ctx context.Context, commit string) (*Push, error)
}

// New makes a reader that keeps up to cacheBytes of what it reads. Most is for parsed
// instances: a network is looked at in turn, and a cache that doesn't hold all of it holds
// nothing when its turn comes again.
func New(runner git.Runner, branch string, cacheBytes int) *Reader {
	return &Reader{
		DB:      objects.NewDB(runner, branch, cacheBytes/4),
		parsed:  lru.New[*desired.Instance](cacheBytes/2, cacheBytes/8),
		granted: lru.New[*desired.Granted](cacheBytes/8, cacheBytes/16),
		forms:   desired.NewForms(cacheBytes / 8),
		firsts:  lru.New[firstSpelled](1<<20, 1<<16),
	}
}

// Files returns the content of the directory at rev.
func (r *Reader) Files(ctx context.Context, rev desired.Revision) (desired.Files, error) {
	if rev.Tree == "" {
		return nil, fmt.Errorf("%w: instance %s has no directory at %s", desired.ErrNotFound, rev.Instance, rev.Commit)
	}
	files, _, err := r.ReadFiles(ctx, rev.Tree)
	if err != nil {
		return nil, objects.NotFound(r.Damaged(fmt.Sprintf("%s at %s", rev.Dir, rev.Commit), err))
	}
	return files, nil
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
	granted, err := r.ReadGranted(ctx, rev)
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

// ReadGranted parses what was granted to the instance at rev; nil is nothing.
func (r *Reader) ReadGranted(ctx context.Context, rev desired.Revision) (*desired.Granted, error) {
	if known, ok := r.granted.Get(rev.Tree); ok {
		return known, nil
	}
	file := path.Join(rev.Dir, desired.GrantedFile)
	e, ok, err := r.LookupPath(ctx, rev.Tree, desired.GrantedFile)
	if err != nil {
		return nil, objects.NotFound(r.Damaged(file+" at "+rev.Commit, err))
	}
	if !ok || !e.IsFile() {
		r.granted.Add(rev.Tree, nil, 0)
		return nil, nil
	}
	data, err := r.Objects.Get(ctx, git.KindBlob, e.Hash)
	if err != nil {
		return nil, objects.NotFound(r.Damaged(file+" at "+rev.Commit, err))
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
	e, ok, err := r.LookupPath(ctx, rev.Tree, desired.InstanceFile)
	if err != nil {
		return nil, objects.NotFound(r.Damaged(file+" at "+rev.Commit, err))
	}
	if !ok || !e.IsFile() {
		return nil, fmt.Errorf("%w: %s at %s", desired.ErrNotFound, file, rev.Commit)
	}
	data, err := r.Objects.Get(ctx, git.KindBlob, e.Hash)
	if err != nil {
		return nil, objects.NotFound(r.Damaged(file+" at "+rev.Commit, err))
	}
	return r.Parse(rev.Dir, rev.Tree, data)
}

// Parse parses an instance's file and remembers the result.
func (r *Reader) Parse(dir, tree string, data []byte) (*desired.Instance, error) {
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
