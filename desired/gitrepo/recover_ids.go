package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// acceptedRef is the commit as of which a person has accepted that ids were lost.
const acceptedRef = "refs/jibe/accepted"

// recoverIDs decides, after a start, what head alone doesn't say: which directory has an id
// that several claim, and which instance that ran has lost its id by a slip. It goes by the
// revisions that were operated on last, else by the branch's first parents.
func (r *Repo) recoverIDs(ctx context.Context) error {
	operated := map[string]desired.Revision{}
	if r.opt.Operated != nil {
		list, err := r.opt.Operated(ctx)
		if err != nil {
			return fmt.Errorf("what was operated on last: %w", err)
		}
		for _, rev := range list {
			operated[rev.Instance] = rev
		}
	}
	r.move.Lock()
	defer r.move.Unlock()
	for id := range r.snapshot().Held.All() {
		if err := r.recoverOwner(ctx, id, operated[id]); err != nil {
			return fmt.Errorf("who has id %s: %w", id, err)
		}
	}
	m, err := r.recoverLost(ctx, operated)
	if err != nil {
		return fmt.Errorf("which ids were lost: %w", err)
	}
	for _, l := range m.Losses {
		r.log.Warn("not obeyed, the last good revision stands", "instance", l.Was.Instance, "problem", l.Problem().Error())
	}
	r.mu.Lock()
	r.index.Apply(m)
	r.listed = nil
	r.mu.Unlock()

	if err := r.recoverClashes(ctx, operated); err != nil {
		return fmt.Errorf("which of the folders that are spelled alike was in effect: %w", err)
	}
	r.recovered = true
	return nil
}

// recoverOwner finds who has an id that several directories claim. was is its last operated
// revision, if there is one.
func (r *Repo) recoverOwner(ctx context.Context, id string, was desired.Revision) error {
	dirs := r.index.Claimants(id)
	owner := ""
	if slices.Contains(dirs, was.Dir) {
		owner = was.Dir
	} else if was.Tree != "" {
		same := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return r.index.ByDir.Get(d).Rev.Tree != was.Tree })
		if len(same) == 1 {
			owner = same[0]
		}
	}
	if owner == "" {
		var err error
		if owner, err = r.firstWith(ctx, id, dirs); err != nil {
			return err
		}
	}
	h := &read.Hold{Slot: read.Slot{Rev: was}}
	if owner == "" && was.Tree != "" {
		if in, err := r.read.Read(ctx, was); err == nil {
			h.Describe(in)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case owner != "":
		r.index.Own(id, owner)
	case was.Tree != "":
		r.index.Hold(id, h)
	}
	r.listed = nil
	return nil
}

// firstWith returns the directory that had the id when no other had it, going back along the
// branch's first parents; "" where they got it together.
func (r *Repo) firstWith(ctx context.Context, id string, dirs []string) (string, error) {
	r.mu.RLock()
	head := r.head
	r.mu.RUnlock()
	var files []string
	for _, d := range dirs {
		files = append(files, path.Join(d, desired.InstanceFile))
	}
	first, _, err := r.read.FirstOf(ctx, head, "", files, func(root, file string) (bool, error) {
		data, err := r.read.FileAt(ctx, root, file)
		if errors.Is(err, desired.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		in, err := desired.ParseInstance(file, data)
		return err == nil && in.ID == id, nil
	})
	if first == "" || err != nil {
		return "", err
	}
	return path.Dir(first), nil
}

// recoverLost finds the instances that ran, and whose ids head has lost.
func (r *Repo) recoverLost(ctx context.Context, operated map[string]desired.Revision) (read.HeadMove, error) {
	var m read.HeadMove
	var before []*read.Slot
	looked := map[string]bool{}
	look := func(dir string, was *read.Slot) {
		now := r.index.ByDir.Get(dir)
		looked[dir] = true
		m.Changes = append(m.Changes, read.DirChange{Dir: dir})
		before, m.Slots = append(before, was), append(m.Slots, now)
	}
	for id, rev := range operated {
		if r.index.Held.Get(id) != nil {
			continue
		}
		if now := r.index.ByID.Get(id); now != nil && (now.Rev.Dir == rev.Dir || r.index.ByDir.Get(rev.Dir) == nil) {
			continue // where it was, or moved
		}
		if now := r.index.ByDir.Get(rev.Dir); now != nil && now.Rev.Instance == "" {
			continue // nothing of it could ever be read
		}
		was, err := r.read.Described(ctx, &read.Slot{Rev: rev})
		if err != nil {
			r.log.Warn("what an instance that is gone was can't be read", "instance", id, "revision", rev.Commit, "error", err)
			continue
		}
		look(rev.Dir, was)
	}
	if len(m.Changes) == 0 {
		return read.HeadMove{}, nil
	}
	for dir, s := range r.index.ByDir.All() {
		if _, known := operated[s.Rev.Instance]; !known && s.Rev.Instance != "" && !looked[dir] {
			look(dir, nil)
		}
	}
	elsewhere := func(id string) bool {
		s := r.index.ByID.Get(id)
		return s != nil && !looked[s.Rev.Dir]
	}
	decided, err := git.ReadRef(r.opt.Dir, acceptedRef)
	if err != nil {
		return read.HeadMove{}, err
	}
	accepted, err := r.acceptedTrees(ctx, decided)
	if err != nil {
		return read.HeadMove{}, err
	}
	head := r.Head()
	losses, err := r.read.Losses(ctx, m.Changes, before, m.Slots, elsewhere, r.read.AbsenceSince(ctx, head, decided))
	if err != nil {
		return read.HeadMove{}, err
	}
	lost := read.HeadMove{}
	for _, l := range losses {
		tree, err := accepted(l.Now.Dir)
		if err != nil {
			return read.HeadMove{}, err
		}
		slip := l.Absent != nil
		if !slip && l.Running && tree != l.Now.Tree {
			if slip, err = r.read.Slipped(ctx, head, l); err != nil {
				return read.HeadMove{}, err
			}
		}
		if slip {
			lost.Losses = append(lost.Losses, l)
			lost.Changes = append(lost.Changes, read.DirChange{Dir: l.Now.Dir})
			lost.Slots = append(lost.Slots, r.index.ByDir.Get(l.Now.Dir))
		}
	}
	return lost, nil
}

// acceptedTrees returns a function that finds the tree of a directory at the commit that a
// person last accepted, "" for none.
func (r *Repo) acceptedTrees(ctx context.Context, commit string) (func(dir string) (string, error), error) {
	root, err := r.read.RootOf(ctx, commit)
	if err != nil {
		return nil, err
	}
	return func(dir string) (string, error) {
		e, ok, err := r.read.LookupPath(ctx, root, dir)
		if err != nil || !ok {
			return "", err
		}
		return e.Hash, nil
	}, nil
}

// acceptLost obeys the directories that were held because their ids were lost, and returns
// their problems. It makes the decision durable first: a restart must not hold them again.
func (r *Repo) acceptLost(ctx context.Context) ([]*desired.Problem, error) {
	r.mu.RLock()
	var problems []*desired.Problem
	var changes []read.DirChange
	for dir, s := range r.index.Bad.All() {
		if s.Lost {
			problems = append(problems, s.Problems...)
			changes = append(changes, read.DirChange{Dir: dir})
		}
	}
	head, root := r.head, r.root
	r.mu.RUnlock()
	if len(changes) == 0 {
		return nil, nil
	}
	for i, c := range changes {
		e, _, err := r.read.LookupPath(ctx, root, c.Dir)
		if err != nil {
			return nil, err
		}
		if !e.IsDir() {
			continue // the instance is absent, and ends
		}
		changes[i].After = e.Hash
		if changes[i].File, _, err = r.read.LookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
			return nil, err
		}
	}
	slots, err := r.read.ReadSlots(ctx, changes, head)
	if err != nil {
		return nil, err
	}
	before, err := git.ReadRef(r.opt.Dir, acceptedRef)
	if err != nil {
		return nil, err
	}
	if err := r.refs.Move(ctx, acceptedRef, head, before); err != nil {
		return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
	}
	r.mu.Lock()
	ids := r.index.Apply(read.HeadMove{Changes: changes, Slots: slots})
	r.listed = nil
	r.mu.Unlock()
	r.notify(ids, false)
	return problems, nil
}

// recoverClashes holds, after a start, what [read.Reader.HoldClashes] held. What was operated on last goes on: an earlier version
// of Jibe let it begin. r.move is held.
func (r *Repo) recoverClashes(ctx context.Context, operated map[string]desired.Revision) error {
	r.mu.RLock()
	head, at, x := r.head, r.read.SpellingAt(r.root), r.index.Clone()
	r.mu.RUnlock()
	first := r.read.FirstSpelling(ctx, head, operated)
	for dir, s := range x.Alike.All() {
		owner := x.ByID.Get(s.Rev.Instance)
		if owner == nil || owner.Rev.Dir != dir {
			continue
		}
		held, err := r.read.HeldForClash(ctx, s, at, first)
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		r.log.Warn("a folder is spelled like another one", "revision", head, "problem", held.Problems[0].Error())
		if operated[s.Rev.Instance].Tree != "" {
			held = s.InEffectAlike(held)
		}
		r.mu.Lock()
		r.index.Put(held)
		r.listed = nil
		r.mu.Unlock()
	}
	return nil
}
