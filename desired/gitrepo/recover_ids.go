package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
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
	for id := range r.snapshot().held.all() {
		if err := r.recoverOwner(ctx, id, operated[id]); err != nil {
			return fmt.Errorf("who has id %s: %w", id, err)
		}
	}
	m, err := r.recoverLost(ctx, operated)
	if err != nil {
		return fmt.Errorf("which ids were lost: %w", err)
	}
	for _, l := range m.losses {
		r.log.Warn("not obeyed, the last good revision stands", "instance", l.was.Instance, "problem", l.problem().Error())
	}
	r.mu.Lock()
	r.index.apply(m)
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
	dirs := r.index.claimants(id)
	owner := ""
	if slices.Contains(dirs, was.Dir) {
		owner = was.Dir
	} else if was.Tree != "" {
		same := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return r.index.byDir.get(d).rev.Tree != was.Tree })
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
	h := &hold{slot: slot{rev: was}}
	if owner == "" && was.Tree != "" {
		if in, err := r.Read(ctx, was); err == nil {
			h.describe(in)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case owner != "":
		r.index.own(id, owner)
	case was.Tree != "":
		r.index.hold(id, h)
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
	first, _, err := r.firstOf(ctx, head, "", files, func(root, file string) (bool, error) {
		data, err := r.fileAt(ctx, root, file)
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

// standing says how a look along the branch's first parents ended.
type standing int

const (
	decided   standing = iota // where one path was there alone, or none was
	undecided                 // at the commit from which on the history was asked for: all were there
	cutShort                  // where the history was cut: all were there
)

// firstOf returns the path that was there when no other was, going back from a commit along its first parents; "" where they
// came together. It goes no further than since, "" for all of the history. is reports whether a path counts below a root tree.
func (r *Reader) firstOf(ctx context.Context, head, since string, paths []string, is func(root, p string) (bool, error)) (string, standing, error) {
	args := []string{"--literal-pathspecs", "rev-list", "--first-parent", head}
	if since != "" {
		args = append(args, "^"+since)
	}
	first, ended, failed := "", undecided, error(nil)
	err := r.git.Lines(ctx, func(commit string) bool {
		first, ended, failed = r.firstBefore(ctx, commit, paths, is)
		return failed == nil && ended == undecided
	}, append(append(args, "--"), paths...)...)
	return first, ended, cmp.Or(failed, err)
}

// firstBefore returns the one of the paths that was there before a commit, "" for none.
func (r *Reader) firstBefore(ctx context.Context, commit string, paths []string, is func(root, p string) (bool, error)) (string, standing, error) {
	c, err := r.commit(ctx, commit)
	if err != nil {
		return "", undecided, err
	}
	if len(c.Parents) == 0 {
		cut, err := r.cut.commits(r.git.Dir)
		if cut[commit] {
			return "", cutShort, err
		}
		return "", decided, err
	}
	root, err := r.rootOf(ctx, c.Parents[0])
	if err != nil {
		return "", undecided, err
	}

	var had []string
	for _, p := range paths {
		ok, err := is(root, p)
		if err != nil {
			return "", undecided, err
		}
		if ok {
			had = append(had, p)
		}
	}
	switch len(had) {
	case 0:
		return "", decided, nil
	case 1:
		return had[0], decided, nil
	}
	return "", undecided, nil
}

// recoverLost finds the instances that ran, and whose ids head has lost.
func (r *Repo) recoverLost(ctx context.Context, operated map[string]desired.Revision) (headMove, error) {
	var m headMove
	var before []*slot
	looked := map[string]bool{}
	look := func(dir string, was *slot) {
		now := r.index.byDir.get(dir)
		looked[dir] = true
		m.changes = append(m.changes, dirChange{dir: dir})
		before, m.slots = append(before, was), append(m.slots, now)
	}
	for id, rev := range operated {
		if r.index.held.get(id) != nil {
			continue
		}
		if now := r.index.byID.get(id); now != nil && (now.rev.Dir == rev.Dir || r.index.byDir.get(rev.Dir) == nil) {
			continue // where it was, or moved
		}
		if now := r.index.byDir.get(rev.Dir); now != nil && now.rev.Instance == "" {
			continue // nothing of it could ever be read
		}
		was, err := r.described(ctx, &slot{rev: rev})
		if err != nil {
			r.log.Warn("what an instance that is gone was can't be read", "instance", id, "revision", rev.Commit, "error", err)
			continue
		}
		look(rev.Dir, was)
	}
	if len(m.changes) == 0 {
		return headMove{}, nil
	}
	for dir, s := range r.index.byDir.all() {
		if _, known := operated[s.rev.Instance]; !known && s.rev.Instance != "" && !looked[dir] {
			look(dir, nil)
		}
	}
	elsewhere := func(id string) bool {
		s := r.index.byID.get(id)
		return s != nil && !looked[s.rev.Dir]
	}
	decided, err := git.ReadRef(r.opt.Dir, acceptedRef)
	if err != nil {
		return headMove{}, err
	}
	accepted, err := r.acceptedTrees(ctx, decided)
	if err != nil {
		return headMove{}, err
	}
	head := r.Head()
	losses, err := r.losses(ctx, m.changes, before, m.slots, elsewhere, r.absenceSince(ctx, head, decided))
	if err != nil {
		return headMove{}, err
	}
	lost := headMove{}
	for _, l := range losses {
		tree, err := accepted(l.now.Dir)
		if err != nil {
			return headMove{}, err
		}
		slip := l.absent != nil
		if !slip && l.running && tree != l.now.Tree {
			if slip, err = r.slipped(ctx, head, l); err != nil {
				return headMove{}, err
			}
		}
		if slip {
			lost.losses = append(lost.losses, l)
			lost.changes = append(lost.changes, dirChange{dir: l.now.Dir})
			lost.slots = append(lost.slots, r.index.byDir.get(l.now.Dir))
		}
	}
	return lost, nil
}

// acceptedTrees returns a function that finds the tree of a directory at the commit that a
// person last accepted, "" for none.
func (r *Repo) acceptedTrees(ctx context.Context, commit string) (func(dir string) (string, error), error) {
	root, err := r.rootOf(ctx, commit)
	if err != nil {
		return nil, err
	}
	return func(dir string) (string, error) {
		e, ok, err := r.lookupPath(ctx, root, dir)
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
	var changes []dirChange
	for dir, s := range r.index.bad.all() {
		if s.lost {
			problems = append(problems, s.problems...)
			changes = append(changes, dirChange{dir: dir})
		}
	}
	head, root := r.head, r.root
	r.mu.RUnlock()
	if len(changes) == 0 {
		return nil, nil
	}
	for i, c := range changes {
		e, _, err := r.lookupPath(ctx, root, c.dir)
		if err != nil {
			return nil, err
		}
		if !e.IsDir() {
			continue // the instance is absent, and ends
		}
		changes[i].after = e.Hash
		if changes[i].file, _, err = r.lookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
			return nil, err
		}
	}
	slots, err := r.readSlots(ctx, changes, head)
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
	ids := r.index.apply(headMove{changes: changes, slots: slots})
	r.listed = nil
	r.mu.Unlock()
	r.notify(ids, false)
	return problems, nil
}
