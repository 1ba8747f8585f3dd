package gitrepo

import (
	"context"
	"iter"
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

// LookupHead implements [desired.Repo].
func (r *Repo) LookupHead(instance string) (desired.Head, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.index.byID.find(instance)
	if !ok {
		return desired.Head{}, false
	}
	return s.head(), true
}

// InDir implements [desired.Repo].
func (r *Repo) InDir(dir string) (desired.Head, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, ok := r.index.byDir.find(dir)
	if !ok || at.rev.Instance == "" {
		return desired.Head{}, false
	}
	s, ok := r.index.byID.find(at.rev.Instance)
	if !ok || s.rev.Dir != dir {
		return desired.Head{}, false // another directory has its id
	}
	return s.head(), true
}

// Heads implements [desired.Repo].
func (r *Repo) Heads(after string) iter.Seq[desired.Head] {
	return func(yield func(desired.Head) bool) {
		for _, s := range r.snapshot().byID.after(after) {
			if !yield(s.head()) {
				return
			}
		}
	}
}

// snapshot is the index as it is now, which nobody changes.
func (r *Repo) snapshot() *index {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index.clone()
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

// Whose returns the id of the instance in whose directory at head the file stands, "" for
// none. It goes by the last content of the directory that could be read.
func (r *Repo) Whose(file string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for dir := path.Dir(file); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if s, ok := r.index.byDir.find(dir); ok {
			return s.rev.Instance
		}
	}
	return ""
}

// Named returns the directories at head whose instances have the name, in order.
func (r *Repo) Named(name string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.named(name)
}

// Settings returns vims/ and repositories.yaml at head. A file that can't be parsed counts as
// it last was, and so does one that is gone although instances need it: see [Repo.Problems].
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

// Problems returns what at head isn't obeyed: files that can't be parsed, and lost ids of VNFs
// that run (the last good revision stands), ids that several directories claim (the one that
// had it stands), and settings that are gone although instances need them (the last good ones
// count). It includes secrets that stand there in clear, though these files are obeyed: a
// forge has no hook that would have refused them.
func (r *Repo) Problems() []*desired.Problem {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Concat(r.heldBranch(), r.refusedPushes(), r.index.problems(), r.index.exposed(), r.settings.problems)
}

// At reads the desired state at any commit, as git names commits; only what
// differs from head is read.
func (r *Repo) At(ctx context.Context, commit string) (Snapshot, error) {
	r.mu.Lock()
	x, root, head := r.index.clone(), r.root, r.head
	r.mu.Unlock()
	if commit == "" {
		commit = head
	}
	if commit == "" {
		return &commitSnapshot{Reader: r.Reader, ctx: context.WithoutCancel(ctx), index: x}, nil
	}
	return r.Reader.at(ctx, commit, x, root)
}
