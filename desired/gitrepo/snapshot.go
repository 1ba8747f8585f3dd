package gitrepo

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// Snapshot is the desired state at one commit, or in a working copy. It is
// immutable and safe for concurrent use.
type Snapshot interface {
	// Commit is "" for a working copy.
	Commit() string
	// List returns every instance, by id.
	List() []desired.Revision
	Lookup(instance string) (desired.Revision, bool)
	// Read parses an instance of this snapshot.
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
	// Files returns the directory of an instance of this snapshot.
	Files(ctx context.Context, rev desired.Revision) (desired.Files, error)
	// Settings reads vims/ and repositories.yaml.
	Settings() (*desired.Settings, error)
	// File returns any file, or desired.ErrNotFound.
	File(ctx context.Context, path string) ([]byte, error)
	// Problems returns what isn't obeyed in the instances' directories.
	Problems() []*desired.Problem
	// Exposed returns the secrets that stand in the instances' files in clear.
	Exposed() []*desired.Problem
}

// commitSnapshot is a Snapshot of a commit.
type commitSnapshot struct {
	*Reader
	ctx    context.Context // of At, for the lazy settings; without its cancellation
	commit string
	root   string
	index  *index
}

func (s *commitSnapshot) Commit() string           { return s.commit }
func (s *commitSnapshot) List() []desired.Revision { return s.index.list() }
func (s *commitSnapshot) Lookup(id string) (desired.Revision, bool) {
	return s.index.lookup(id)
}
func (s *commitSnapshot) Settings() (*desired.Settings, error) {
	return s.settings(s.ctx, s.root)
}
func (s *commitSnapshot) File(ctx context.Context, p string) ([]byte, error) {
	return s.fileAt(ctx, s.root, p)
}
func (s *commitSnapshot) Problems() []*desired.Problem { return s.index.problems() }
func (s *commitSnapshot) Exposed() []*desired.Problem  { return s.index.exposed() }

// At reads the desired state at any commit, named as git names them. Every
// instance is read; [Repo.At] reads only what differs from head.
func (r *Reader) At(ctx context.Context, commit string) (Snapshot, error) {
	return r.at(ctx, commit, newIndex(), "")
}

// at makes the snapshot by bringing an index from another root tree to commit's.
func (r *Reader) at(ctx context.Context, commit string, x *index, root string) (Snapshot, error) {
	hash, err := r.resolve(ctx, commit)
	if err != nil {
		return nil, err
	}
	newRoot, err := r.rootOf(ctx, hash)
	if err != nil {
		return nil, notFound(err)
	}
	m, err := r.prepareMove(ctx, root, newRoot, hash, maxChanged)
	if err != nil {
		return nil, fmt.Errorf("read desired state at %s: %w", hash, err)
	}
	x.apply(m)
	return &commitSnapshot{Reader: r, ctx: context.WithoutCancel(ctx), commit: hash, root: newRoot, index: x}, nil
}

// Change is one instance that differs between two commits. Before.Tree is ""
// for a new one, After.Tree for one that is gone. An instance that was moved
// keeps its id and has two directories.
type Change struct {
	Before, After desired.Revision
}

// Diff returns the instances that differ, by id, reading only what differs, and
// whether vims/ or repositories.yaml do. "" is the empty repository. Content
// that can't be parsed is an error, an *desired.InvalidError.
func (r *Reader) Diff(ctx context.Context, oldCommit, newCommit string) (changes []Change, settingsChanged bool, err error) {
	changes, _, settingsChanged, err = r.DiffEffect(ctx, oldCommit, newCommit)
	return changes, settingsChanged, err
}

// DiffEffect is [Reader.Diff], and returns what the difference does to VNFs.
func (r *Reader) DiffEffect(ctx context.Context, oldCommit, newCommit string) (changes []Change, effect Effect, settingsChanged bool, err error) {
	d, err := r.diff(ctx, oldCommit, newCommit)
	if err == nil && len(d.problems) > 0 {
		err = &desired.InvalidError{Problems: d.problems}
	}
	return d.changes, d.effect(), d.settings, err
}

// difference is what differs between two commits.
type difference struct {
	changes  []Change
	slots    map[desired.Revision]*slot // of the instances before and after
	dirs     []dirChange
	losses   []loss
	settings bool // vims/ or repositories.yaml
	problems []*desired.Problem
}

func (r *Reader) diff(ctx context.Context, oldCommit, newCommit string) (d difference, err error) {
	oldRoot, err := r.rootOf(ctx, oldCommit)
	if err != nil {
		return d, notFound(err)
	}
	newRoot, err := r.rootOf(ctx, newCommit)
	if err != nil {
		return d, notFound(err)
	}
	if d.dirs, err = r.diffDirs(ctx, oldRoot, newRoot, maxChanged); err != nil {
		return d, err
	}
	after, err := r.readSlots(ctx, d.dirs, newCommit)
	if err != nil {
		return d, err
	}
	before, err := r.oldSlots(ctx, oldRoot, oldCommit, d.dirs)
	if err != nil {
		return d, err
	}
	if d.losses, err = r.losses(ctx, d.dirs, before, after, func(string) bool { return false }, r.absenceAfter(ctx, oldRoot, newRoot)); err != nil {
		return d, err
	}
	d.slots = make(map[desired.Revision]*slot, len(before)+len(after))
	for _, s := range slices.Concat(before, after) {
		if s != nil && s.rev.Instance != "" {
			d.slots[s.rev] = s
		}
	}
	byID := map[string]*Change{}
	at := func(id string) *Change {
		c := byID[id]
		if c == nil {
			c = &Change{Before: desired.Revision{Instance: id, Commit: oldCommit}, After: desired.Revision{Instance: id, Commit: newCommit}}
			byID[id] = c
		}
		return c
	}
	for i := range d.dirs {
		if b := before[i]; b != nil && b.rev.Instance != "" {
			if after[i] != nil && len(after[i].problems) > 0 {
				continue // unreadable now, not gone: it is reported, not terminated
			}
			at(b.rev.Instance).Before = b.rev
		}
	}
	kept := func(i int) bool { return before[i] != nil && before[i].rev.Instance == after[i].rev.Instance }
	for i := range d.dirs { // who had an id has it before those that are new to it
		if s := after[i]; s != nil && s.rev.Instance != "" && kept(i) {
			at(s.rev.Instance).After = s.rev
		}
	}
	for i := range d.dirs {
		s := after[i]
		if s == nil || s.stray {
			continue
		}
		if d.problems = append(d.problems, s.problems...); s.rev.Instance == "" || kept(i) {
			continue
		}
		c := at(s.rev.Instance)
		if c.After.Tree != "" {
			d.problems = append(d.problems, duplicate(s.rev.Instance, s.rev.Dir, c.After.Dir))
			continue
		}
		c.After = s.rev
	}
	for _, c := range byID {
		if c.Before.Dir == "" {
			c.Before.Dir = c.After.Dir
		}
		if c.After.Dir == "" {
			c.After.Dir = c.Before.Dir
		}
		d.changes = append(d.changes, *c)
	}
	slices.SortFunc(d.changes, func(a, b Change) int { return cmp.Compare(a.After.Instance, b.After.Instance) })
	oldKey, err := r.settingsKey(ctx, oldRoot)
	if err != nil {
		return d, err
	}
	newKey, err := r.settingsKey(ctx, newRoot)
	d.settings = oldKey != newKey
	return d, err
}

// oldSlots reads the instances before a change. One that can't be parsed never
// was an instance.
func (r *Reader) oldSlots(ctx context.Context, root, commit string, dirs []dirChange) ([]*slot, error) {
	flipped := make([]dirChange, len(dirs))
	for i, d := range dirs {
		flipped[i] = dirChange{dir: d.dir, after: d.before}
		if d.before == "" {
			continue
		}
		e, ok, err := r.lookupPath(ctx, d.before, desired.InstanceFile)
		if err != nil {
			return nil, r.damaged(path.Join(d.dir, desired.InstanceFile), err)
		}
		if ok {
			flipped[i].file = e
		}
	}
	return r.readSlots(ctx, flipped, commit)
}
