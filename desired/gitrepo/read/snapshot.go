package read

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
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

// CommitSnapshot is a Snapshot of a commit.
type CommitSnapshot struct {
	*Reader
	Ctx    context.Context // of At, for the lazy settings; without its cancellation
	commit string
	root   string
	Index  *Index
}

// Commit implements [Snapshot].
func (s *CommitSnapshot) Commit() string { return s.commit }

// List implements [Snapshot].
func (s *CommitSnapshot) List() []desired.Revision { return s.Index.List() }

// Lookup implements [Snapshot].
func (s *CommitSnapshot) Lookup(id string) (desired.Revision, bool) {
	return s.Index.Lookup(id)
}

// Settings implements [Snapshot].
func (s *CommitSnapshot) Settings() (*desired.Settings, error) {
	return s.SettingsBelow(s.Ctx, s.root)
}

// File implements [Snapshot].
func (s *CommitSnapshot) File(ctx context.Context, p string) ([]byte, error) {
	return s.FileAt(ctx, s.root, p)
}

// Problems implements [Snapshot].
func (s *CommitSnapshot) Problems() []*desired.Problem { return s.Index.Problems() }

// Exposed implements [Snapshot].
func (s *CommitSnapshot) Exposed() []*desired.Problem { return s.Index.Exposed() }

// At reads the desired state at any commit, named as git names them. Every
// instance is read; that of the repository at head reads only what differs from it.
func (r *Reader) At(ctx context.Context, commit string) (Snapshot, error) {
	return r.AtFrom(ctx, commit, NewIndex(), "")
}

// AtFrom makes the snapshot by bringing an index from another root tree to commit's.
func (r *Reader) AtFrom(ctx context.Context, commit string, x *Index, root string) (Snapshot, error) {
	hash, err := r.Resolve(ctx, commit)
	if err != nil {
		return nil, err
	}
	newRoot, err := r.RootOf(ctx, hash)
	if err != nil {
		return nil, objects.NotFound(err)
	}
	m, err := r.PrepareMove(ctx, root, newRoot, hash, MaxChanged)
	if err != nil {
		return nil, fmt.Errorf("read desired state at %s: %w", hash, err)
	}
	x.Apply(m)
	return &CommitSnapshot{Reader: r, Ctx: context.WithoutCancel(ctx), commit: hash, root: newRoot, Index: x}, nil
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
	d, err := r.Difference(ctx, oldCommit, newCommit)
	if err == nil && len(d.Problems) > 0 {
		err = &desired.InvalidError{Problems: d.Problems}
	}
	return d.Changes, d.Effect(), d.Settings, err
}

// Difference is what differs between two commits.
type Difference struct {
	Changes  []Change
	Slots    map[desired.Revision]*Slot // of the instances before and after
	Dirs     []DirChange
	Losses   []loss
	Settings bool // vims/ or repositories.yaml
	Problems []*desired.Problem
}

// Difference reads what differs between two commits.
func (r *Reader) Difference(ctx context.Context, oldCommit, newCommit string) (d Difference, err error) {
	oldRoot, err := r.RootOf(ctx, oldCommit)
	if err != nil {
		return d, objects.NotFound(err)
	}
	newRoot, err := r.RootOf(ctx, newCommit)
	if err != nil {
		return d, objects.NotFound(err)
	}
	if d.Dirs, err = r.DiffDirs(ctx, oldRoot, newRoot, MaxChanged); err != nil {
		return d, err
	}
	after, err := r.ReadSlots(ctx, d.Dirs, newCommit)
	if err != nil {
		return d, err
	}
	before, err := r.oldSlots(ctx, oldRoot, oldCommit, d.Dirs)
	if err != nil {
		return d, err
	}
	if d.Losses, err = r.Losses(ctx, d.Dirs, before, after, func(string) bool { return false }, r.absenceAfter(ctx, oldRoot, newRoot)); err != nil {
		return d, err
	}
	d.Slots = make(map[desired.Revision]*Slot, len(before)+len(after))
	for _, s := range slices.Concat(before, after) {
		if s != nil && s.Rev.Instance != "" {
			d.Slots[s.Rev] = s
		}
	}
	d.compare(before, after, oldCommit, newCommit)
	slices.SortFunc(d.Changes, func(a, b Change) int { return cmp.Compare(a.After.Instance, b.After.Instance) })
	oldKey, err := r.SettingsKey(ctx, oldRoot)
	if err != nil {
		return d, err
	}
	newKey, err := r.SettingsKey(ctx, newRoot)
	d.Settings = oldKey != newKey
	return d, err
}

// compare fills in the changes and problems of what stood in the directories before, and stands there after.
func (d *Difference) compare(before, after []*Slot, oldCommit, newCommit string) {
	byID := map[string]*Change{}
	at := func(id string) *Change {
		c := byID[id]
		if c == nil {
			c = &Change{Before: desired.Revision{Instance: id, Commit: oldCommit}, After: desired.Revision{Instance: id, Commit: newCommit}}
			byID[id] = c
		}
		return c
	}
	for i, b := range before {
		if b == nil || b.Rev.Instance == "" || after[i] != nil && len(after[i].Problems) > 0 {
			continue // unreadable now, not gone: it is reported, not terminated
		}
		at(b.Rev.Instance).Before = b.Rev
	}
	kept := func(i int) bool { return before[i] != nil && before[i].Rev.Instance == after[i].Rev.Instance }
	for i, s := range after { // who had an id has it before those that are new to it
		if s != nil && s.Rev.Instance != "" && kept(i) {
			at(s.Rev.Instance).After = s.Rev
		}
	}
	for i, s := range after {
		if s == nil || s.Stray {
			continue
		}
		if d.Problems = append(d.Problems, s.Problems...); s.Rev.Instance == "" || kept(i) {
			continue
		}
		c := at(s.Rev.Instance)
		if c.After.Tree != "" {
			d.Problems = append(d.Problems, duplicate(s.Rev.Instance, s.Rev.Dir, c.After.Dir))
			continue
		}
		c.After = s.Rev
	}
	for _, c := range byID {
		c.Before.Dir = cmp.Or(c.Before.Dir, c.After.Dir)
		c.After.Dir = cmp.Or(c.After.Dir, c.Before.Dir)
		d.Changes = append(d.Changes, *c)
	}
}

// oldSlots reads the instances before a change. One that can't be parsed never
// was an instance.
func (r *Reader) oldSlots(ctx context.Context, root, commit string, dirs []DirChange) ([]*Slot, error) {
	flipped := make([]DirChange, len(dirs))
	for i, d := range dirs {
		flipped[i] = DirChange{Dir: d.Dir, After: d.Before}
		if d.Before == "" {
			continue
		}
		e, ok, err := r.LookupPath(ctx, d.Before, desired.InstanceFile)
		if err != nil {
			return nil, r.Damaged(path.Join(d.Dir, desired.InstanceFile), err)
		}
		if ok {
			flipped[i].File = e
		}
	}
	return r.ReadSlots(ctx, flipped, commit)
}
