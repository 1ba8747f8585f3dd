package gitrepo

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// Head is the commit of the branch, "" in an empty repository.
func (r *Repo) Head() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.head
}

// Lookup finds an instance at head.
func (r *Repo) Lookup(instance string) (desired.Revision, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.lookup(instance)
}

// List returns every instance at head, by id. The caller mustn't alter it.
func (r *Repo) List() []desired.Revision {
	r.mu.RLock()
	out := r.listed
	r.mu.RUnlock()
	if out != nil {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listed == nil {
		r.listed = r.index.list()
	}
	return r.listed
}

// Whose is the id of the instance in whose directory the file is at head, by the last
// content of the directory that could be read; "" where there is none.
func (r *Repo) Whose(file string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for dir := path.Dir(file); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if s, ok := r.index.byDir[dir]; ok {
			return s.rev.Instance
		}
	}
	return ""
}

// Named are the directories at head whose instances have a name, in order.
func (r *Repo) Named(name string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.index.byName[name]))
}

// Settings returns vims/ and repositories.yaml at head. A file that can't be parsed, and
// one that is gone although instances need it, counts as it last was: Problems says why.
func (r *Repo) Settings() (*desired.Settings, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case r.settings.good != nil:
		return r.settings.good, nil
	case r.settings.err != nil:
		return nil, r.settings.err
	}
	return &desired.Settings{VIMs: map[string]*desired.VIM{}}, nil
}

// Problems says what at head can't be obeyed: files that can't be parsed, and ids of
// VNFs that run that were lost (the last good revision stands), ids that several
// directories claim (the one that had it stands), and settings that are gone and needed
// (the last good ones count). Secrets that stand there in clear are among it, though these
// files are obeyed: a forge has no hook that would have refused them.
func (r *Repo) Problems() []*desired.Problem {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Concat(r.index.problems(), r.index.exposed(), r.settings.problems)
}

// At reads the desired state at any commit, as git names commits; only what
// differs from head is read.
func (r *Repo) At(ctx context.Context, commit string) (Snapshot, error) {
	r.mu.RLock()
	x, root, head := r.index.clone(), r.root, r.head
	r.mu.RUnlock()
	if commit == "" {
		commit = head
	}
	if commit == "" {
		return &commitSnapshot{Reader: r.Reader, ctx: context.WithoutCancel(ctx), index: x}, nil
	}
	return r.Reader.at(ctx, commit, x, root)
}
