package gitrepo

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// clash is a folder that is spelled like others next to it but for case or the Unicode form. A clone on macOS or Windows
// has only one of them, and its next commit would remove the others.
type clash struct {
	path   string
	others []string // their paths
}

// problem returns the problem of an instance in or below the folder.
func (c clash) problem(dir, remedy string) *desired.Problem {
	return &desired.Problem{File: path.Join(dir, desired.InstanceFile),
		Message: fmt.Sprintf("%s and %s differ only in case or Unicode form: a clone on macOS or Windows has one of them", c.path, strings.Join(c.others, ", ")),
		Remedy:  remedy}
}

// checkSpelling refuses a new instance of which a folder clashes.
func (r *Reader) checkSpelling(ctx context.Context, oldRoot, root string, dirs []dirChange) ([]*desired.Problem, error) {
	old, now := r.spellingAt(oldRoot), r.spellingAt(root)
	top, err := now.clashes(ctx, instancesDir)
	if err != nil {
		return nil, err
	}

	var out []*desired.Problem
	for _, d := range dirs {
		if d.before != "" || d.after == "" || !d.clashes && len(top) == 0 {
			continue
		}
		all, err := now.clashes(ctx, d.dir)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			_, known, err := old.entry(ctx, c.path) // what was there before isn't this push's fault
			if err != nil {
				return nil, err
			}
			if !known {
				out = append(out, c.problem(d.dir, "rename the new one"))
				break
			}
		}
	}
	return out, nil
}

// holdClashes holds the new instances of a move in folders that clash and weren't there first: a forge has no hook that
// refuses them. What is in effect goes on, also where it is moved to such a folder.
func (r *Reader) holdClashes(ctx context.Context, x *index, m *headMove, head string, at *spelling) error {
	lost := map[string]bool{}
	for _, l := range m.losses {
		lost[l.now.Dir] = true
	}
	first := r.firstSpelling(ctx, head, nil)
	for i, s := range m.slots {
		if s == nil || !s.clashes || lost[s.rev.Dir] {
			continue
		}
		held, err := r.heldForClash(ctx, s, at, first)
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		if old := x.byDir.get(s.rev.Dir); old != nil && old.rev.Instance != "" || x.byID.get(s.rev.Instance) != nil {
			held = s.inEffectAlike(held)
		}
		m.slots[i] = held
	}
	return nil
}

// recoverClashes holds, after a start, what [Reader.holdClashes] held. What was operated on last goes on: an earlier version
// of Jibe let it begin. r.move is held.
func (r *Repo) recoverClashes(ctx context.Context, operated map[string]desired.Revision) error {
	r.mu.RLock()
	head, at, x := r.head, r.spellingAt(r.root), r.index.clone()
	r.mu.RUnlock()
	first := r.firstSpelling(ctx, head, operated)
	for dir, s := range x.alike.all() {
		owner := x.byID.get(s.rev.Instance)
		if owner == nil || owner.rev.Dir != dir {
			continue
		}
		held, err := r.heldForClash(ctx, s, at, first)
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		r.log.Warn("a folder is spelled like another one", "revision", head, "problem", held.problems[0].Error())
		if operated[s.rev.Instance].Tree != "" {
			held = s.inEffectAlike(held)
		}
		r.mu.Lock()
		r.index.put(held)
		r.listed = nil
		r.mu.Unlock()
	}
	return nil
}

// inEffectAlike returns the slot with the problem for which it would be held if it began now.
func (s *slot) inEffectAlike(held *slot) *slot {
	c := *s
	p := *held.problems[len(held.problems)-1]
	p.Remedy = "rename one of them; both are in effect, as they were before"
	c.alike = &p
	return &c
}

// heldForClash returns the slot of an instance that is held, nil if it may go on.
func (r *Reader) heldForClash(ctx context.Context, s *slot, at *spelling, first func(c clash) (bool, error)) (*slot, error) {
	if s.rev.Instance == "" {
		return nil, nil
	}
	all, err := at.clashesBelow(ctx, s.rev.Dir)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		there, err := first(c)
		if err != nil {
			return nil, err
		}
		if there {
			continue
		}
		held := &slot{rev: s.rev, clashes: true,
			problems: append(slices.Clone(s.problems), c.problem(s.rev.Dir, "rename one of them: until then the VNF in "+s.rev.Dir+", which wasn't there first, isn't in effect"))}
		held.rev.Instance = ""
		return held, nil
	}
	return nil, nil
}

// endClashes adds to the move the instances that have a problem for a clash that is gone: no directory differs for them.
func (r *Reader) endClashes(ctx context.Context, x *index, m *headMove, head string, at *spelling) error {
	moves := make(map[string]bool, len(m.changes))
	for _, c := range m.changes {
		moves[c.dir] = true
	}

	var ended []dirChange
	for dir, s := range x.alike.all() {
		if moves[dir] || s.rev.Instance != "" && s.alike == nil {
			continue
		}
		all, err := at.clashesBelow(ctx, dir)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			continue
		}
		c, err := r.changeTo(ctx, at, dir)
		if err != nil {
			return err
		}
		ended = append(ended, c)
	}
	if len(ended) == 0 {
		return nil
	}

	slots, err := r.readSlots(ctx, ended, head)
	m.changes, m.slots = append(m.changes, ended...), append(m.slots, slots...)
	return err
}

// changeTo returns the change to what stands in an instance's directory.
func (r *Reader) changeTo(ctx context.Context, at *spelling, dir string) (dirChange, error) {
	c := dirChange{dir: dir}
	e, ok, err := at.entry(ctx, dir)
	if err != nil || !ok || !e.IsDir() {
		return c, err
	}
	c.after = e.Hash
	if c.file, _, err = r.lookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
		return c, r.damaged(dir, err)
	}
	return c, nil
}
