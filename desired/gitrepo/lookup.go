package gitrepo

import (
	"context"
	"iter"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/changed"
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
	return r.index.Lookup(instance)
}

// LookupHead implements [desired.Repo].
func (r *Repo) LookupHead(instance string) (desired.Head, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.index.ByID.Find(instance)
	if !ok {
		return desired.Head{}, false
	}
	return s.Head(), true
}

// InDir implements [desired.Repo].
func (r *Repo) InDir(dir string) (desired.Head, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, ok := r.index.ByDir.Find(dir)
	if !ok || at.Rev.Instance == "" {
		return desired.Head{}, false
	}
	s, ok := r.index.ByID.Find(at.Rev.Instance)
	if !ok || s.Rev.Dir != dir {
		return desired.Head{}, false // another directory has its id
	}
	return s.Head(), true
}

// Heads implements [desired.Repo].
func (r *Repo) Heads(after string) iter.Seq[desired.Head] {
	return func(yield func(desired.Head) bool) {
		for _, s := range r.snapshot().ByID.After(after) {
			if !yield(s.Head()) {
				return
			}
		}
	}
}

// snapshot is the index as it is now, which nobody changes.
func (r *Repo) snapshot() *read.Index {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index.Clone()
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
		r.listed = r.index.List()
	}
	return r.listed
}

// Whose returns the id of the instance in whose directory at head the file stands, "" for
// none. It goes by the last content of the directory that could be read.
func (r *Repo) Whose(file string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for dir := path.Dir(file); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if s, ok := r.index.ByDir.Find(dir); ok {
			return s.Rev.Instance
		}
	}
	return ""
}

// Named returns the directories at head whose instances have the name, in order.
func (r *Repo) Named(name string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Named(name)
}

// Settings returns vims/ and repositories.yaml at head. A file that can't be parsed counts as
// it last was, and so does one that is gone although instances need it: see [Repo.Problems].
func (r *Repo) Settings() (*desired.Settings, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case r.settings.Good != nil:
		return r.settings.Good, nil
	case r.settings.Err != nil:
		return nil, r.settings.Err
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
	return slices.Concat(r.heldBranch(), r.refusedPushes(), r.index.Problems(), r.index.Exposed(), r.settings.Problems)
}

// At reads the desired state at any commit, as git names commits; only what
// differs from head is read.
func (r *Repo) At(ctx context.Context, commit string) (read.Snapshot, error) {
	r.mu.Lock()
	x, root, head := r.index.Clone(), r.root, r.head
	r.mu.Unlock()
	if commit == "" {
		commit = head
	}
	if commit == "" {
		return &read.CommitSnapshot{Reader: r.read, Ctx: context.WithoutCancel(ctx), Index: x}, nil
	}
	return r.read.AtFrom(ctx, commit, x, root)
}

// Maintenance returns the files at head that say when operations may begin on the instance in a
// directory, the outermost first. The error is a [*desired.InvalidError] where one can't be obeyed: nobody
// then knows what it would have allowed.
func (r *Repo) Maintenance(ctx context.Context, dir string) ([]*desired.Maintenance, error) {
	r.mu.RLock()
	root := r.root
	r.mu.RUnlock()
	return r.read.Maintenance(ctx, root, dir)
}

// WatchHeads implements [desired.Repo].
func (r *Repo) WatchHeads() changed.Take {
	r.move.Lock() // no other index is on its way to be the one that counts
	defer r.move.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index.ByID.Watched = true
	take := r.changes.Watch()
	return func() ([]string, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		x := &r.index.ByID
		if x.TooMany {
			r.changes.NoteAll()
		}
		r.changes.Note(x.Changed...)
		x.Changed, x.TooMany = nil, false
		return take()
	}
}
