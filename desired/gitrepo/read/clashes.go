package read

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
	Path   string
	others []string // their paths
}

// Problem returns the problem of an instance in or below the folder.
func (c clash) Problem(dir, remedy string) *desired.Problem {
	return &desired.Problem{File: path.Join(dir, desired.InstanceFile),
		Message: fmt.Sprintf("%s and %s differ only in case or Unicode form: readers take one for the other, and a clone on macOS or Windows may have one of them", c.Path, strings.Join(c.others, ", ")),
		Remedy:  remedy}
}

// HoldClashes holds the new instances of a move in folders that clash and weren't there first: a forge has no hook that
// refuses them. What is in effect goes on, also where it is moved to such a folder.
func (r *Reader) HoldClashes(ctx context.Context, x *Index, m *HeadMove, head string, at *Spelling) error {
	lost := map[string]bool{}
	for _, l := range m.Losses {
		lost[l.Now.Dir] = true
	}
	first := r.FirstSpelling(ctx, head, nil)
	for i, s := range m.Slots {
		if s == nil || !s.Clashes || lost[s.Rev.Dir] {
			continue
		}
		held, err := r.HeldForClash(ctx, s, at, first)
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		if old := x.ByDir.Get(s.Rev.Dir); old != nil && old.Rev.Instance != "" || x.ByID.Get(s.Rev.Instance) != nil {
			held = s.InEffectAlike(held)
		}
		m.Slots[i] = held
	}
	return nil
}

// InEffectAlike returns the slot with the problem for which it would be held if it began now.
func (s *Slot) InEffectAlike(held *Slot) *Slot {
	c := *s
	p := *held.Problems[len(held.Problems)-1]
	p.Remedy = "rename one of them; both are in effect, as they were before"
	c.alike = &p
	return &c
}

// HeldForClash returns the slot of an instance that is held, nil if it may go on.
func (r *Reader) HeldForClash(ctx context.Context, s *Slot, at *Spelling, first func(c clash) (bool, error)) (*Slot, error) {
	if s.Rev.Instance == "" {
		return nil, nil
	}
	all, err := at.clashesBelow(ctx, s.Rev.Dir)
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
		held := &Slot{Rev: s.Rev, Clashes: true,
			Problems: append(slices.Clone(s.Problems), c.Problem(s.Rev.Dir, "rename one of them: until then the VNF in "+s.Rev.Dir+", which wasn't there first, isn't in effect"))}
		held.Rev.Instance = ""
		return held, nil
	}
	return nil, nil
}

// EndClashes adds to the move the instances that have a problem for a clash that is gone: no directory differs for them.
func (r *Reader) EndClashes(ctx context.Context, x *Index, m *HeadMove, head string, at *Spelling) error {
	moves := make(map[string]bool, len(m.Changes))
	for _, c := range m.Changes {
		moves[c.Dir] = true
	}

	var ended []DirChange
	for dir, s := range x.Alike.All() {
		if moves[dir] || s.Rev.Instance != "" && s.alike == nil {
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

	slots, err := r.ReadSlots(ctx, ended, head)
	m.Changes, m.Slots = append(m.Changes, ended...), append(m.Slots, slots...)
	return err
}

// changeTo returns the change to what stands in an instance's directory.
func (r *Reader) changeTo(ctx context.Context, at *Spelling, dir string) (DirChange, error) {
	c := DirChange{Dir: dir}
	e, ok, err := at.Entry(ctx, dir)
	if err != nil || !ok || !e.IsDir() {
		return c, err
	}
	c.After = e.Hash
	if c.File, _, err = r.LookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
		return c, r.Damaged(dir, err)
	}
	return c, nil
}
