package gitrepo

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
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

// foldName returns the same text for names that differ only in case or Unicode form.
func foldName(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}

// isFolded reports whether a name is its own folded one, as nearly all are.
func isFolded(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 || 'A' <= c && c <= 'Z' })
}

// spelledAlike returns the names in a tree that are spelled like another one, nil for none.
func spelledAlike(t *git.Tree) map[string]bool {
	var odd []string
	names := make([]string, t.Len())
	for i := range names {
		if names[i] = t.At(i).Name; !isFolded(names[i]) {
			odd = append(odd, names[i])
		}
	}
	if len(odd) == 0 {
		return nil
	}

	by := make(map[string][]string, len(names))
	for _, name := range names {
		key := foldName(name)
		by[key] = append(by[key], name)
	}
	var out map[string]bool
	for _, name := range odd {
		alike := by[foldName(name)]
		if len(alike) < 2 {
			continue
		}
		if out == nil {
			out = map[string]bool{}
		}
		for _, a := range alike {
			out[a] = true
		}
	}
	return out
}

// clashesBelow returns the clashes of a directory's path below instances/.
func (r *Reader) clashesBelow(ctx context.Context, root, dir string) ([]clash, error) {
	all, err := r.clashes(ctx, root, dir)
	return slices.DeleteFunc(all, func(c clash) bool { return c.path == instancesDir }), err
}

// clashes returns the clashes on the way from a root tree to a directory, the outermost first.
func (r *Reader) clashes(ctx context.Context, root, dir string) ([]clash, error) {
	var out []clash
	at, hash := "", root
	for name := range strings.SplitSeq(dir, "/") {
		t, err := r.tree(ctx, hash)
		if err != nil {
			return nil, r.damaged("folder "+at, err)
		}
		if spelledAlike(t)[name] {
			c := clash{path: path.Join(at, name)}
			for _, e := range t.Entries() {
				if e.Name != name && foldName(e.Name) == foldName(name) {
					c.others = append(c.others, path.Join(at, e.Name))
				}
			}
			out = append(out, c)
		}
		e, ok := t.Find(name)
		if !ok || !e.IsDir() {
			break
		}
		at, hash = path.Join(at, name), e.Hash
	}
	return out, nil
}

// checkSpelling refuses a new instance of which a folder clashes.
func (r *Reader) checkSpelling(ctx context.Context, oldRoot, root string, dirs []dirChange) ([]*desired.Problem, error) {
	top, err := r.clashes(ctx, root, instancesDir)
	if err != nil {
		return nil, err
	}

	var out []*desired.Problem
	for _, d := range dirs {
		if d.before != "" || d.after == "" || !d.clashes && len(top) == 0 {
			continue
		}
		all, err := r.clashes(ctx, root, d.dir)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			_, known, err := r.lookupPath(ctx, oldRoot, c.path) // what was there before isn't this push's fault
			if err != nil {
				return nil, r.damaged("folder "+c.path, err)
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
func (r *Reader) holdClashes(ctx context.Context, x *index, m *headMove, head, root string) error {
	lost := map[string]bool{}
	for _, l := range m.losses {
		lost[l.now.Dir] = true
	}
	first := r.firstSpelling(ctx, head)
	for i, s := range m.slots {
		if s == nil || !s.clashes || lost[s.rev.Dir] {
			continue
		}
		held, err := r.heldForClash(ctx, s, root, first)
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
	head, root, x := r.head, r.root, r.index.clone()
	r.mu.RUnlock()
	first := r.firstSpelling(ctx, head)
	for dir, s := range x.alike.all() {
		owner := x.byID.get(s.rev.Instance)
		if owner == nil || owner.rev.Dir != dir {
			continue
		}
		held, err := r.heldForClash(ctx, s, root, first)
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
func (r *Reader) heldForClash(ctx context.Context, s *slot, root string, first func(c clash) (bool, error)) (*slot, error) {
	if s.rev.Instance == "" {
		return nil, nil
	}
	all, err := r.clashesBelow(ctx, root, s.rev.Dir)
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

// firstSpelling returns a function that reports whether a folder that clashes was there before the others, going back from
// a commit along its first parents. Of those that came with one commit none was first.
func (r *Reader) firstSpelling(ctx context.Context, head string) func(c clash) (bool, error) {
	known := map[string]string{} // the one that was first, by any of them

	return func(c clash) (bool, error) {
		if first, ok := known[c.path]; ok {
			return first == c.path, nil
		}
		all := append([]string{c.path}, c.others...)
		first, err := r.firstOf(ctx, head, all, func(root, p string) (bool, error) {
			_, ok, err := r.lookupPath(ctx, root, p)
			return ok, err
		})
		if err != nil {
			return false, err
		}
		for _, p := range all {
			known[p] = first
		}
		return first == c.path, nil
	}
}

// endClashes adds to the move the instances that have a problem for a clash that is gone: no directory differs for them.
func (r *Reader) endClashes(ctx context.Context, x *index, m *headMove, head, root string) error {
	moves := make(map[string]bool, len(m.changes))
	for _, c := range m.changes {
		moves[c.dir] = true
	}
	for dir, s := range x.alike.all() {
		if moves[dir] || s.rev.Instance != "" && s.alike == nil {
			continue
		}
		all, err := r.clashesBelow(ctx, root, dir)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			continue
		}
		c, now, err := r.readSlot(ctx, root, dir, head)
		if err != nil {
			return err
		}
		m.changes, m.slots = append(m.changes, c), append(m.slots, now)
	}
	return nil
}

// readSlot reads the instance in one directory below a root tree.
func (r *Reader) readSlot(ctx context.Context, root, dir, commit string) (dirChange, *slot, error) {
	c := dirChange{dir: dir}
	e, ok, err := r.lookupPath(ctx, root, dir)
	if err != nil {
		return c, nil, r.damaged(dir, err)
	}
	if ok && e.IsDir() {
		c.after = e.Hash
		if c.file, _, err = r.lookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
			return c, nil, r.damaged(dir, err)
		}
	}
	slots, err := r.readSlots(ctx, []dirChange{c}, commit)
	if err != nil {
		return c, nil, err
	}
	return c, slots[0], nil
}
