package gitrepo

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/jibe-vnfm/jibe/desired"
)

// index knows every instance at one commit. It isn't safe for concurrent use
// while it is changed or copied.
type index struct {
	byDir ordered[*slot]
	// byID has the obeyed slot for each id.
	byID identified
	// rivals are the directories that claim one id, in order, where they are several or
	// the id is held. The lists are immutable.
	rivals ordered[[]string]
	bad    ordered[*slot] // those with problems, or secrets in clear, by directory
	absent ordered[*slot] // those of bad whose directory is missing, see absence
	alike  ordered[*slot] // those of which a folder is spelled like another one, see clash
	// held are the instances whose last good revision stands, by id, although no directory has
	// it any more. A person decides what becomes of them.
	held   ordered[*hold]
	byName *btree.BTreeG[*slot] // those with a name, by name and directory
}

// hold keeps an instance as it was.
type hold struct {
	slot
	// by is the directory to which it was moved without its id; "" where several
	// directories claim the id.
	by string
}

func newIndex() *index {
	return &index{byName: btree.NewBTreeGOptions(func(a, b *slot) bool {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.rev.Dir, b.rev.Dir)) < 0
	}, btree.Options{NoLocks: true})}
}

// clone returns a copy that may be changed without effect on x. It costs the same at any size.
func (x *index) clone() *index {
	return &index{
		byDir: x.byDir.copy(), byID: x.byID.copy(), rivals: x.rivals.copy(), bad: x.bad.copy(), absent: x.absent.copy(),
		alike: x.alike.copy(), held: x.held.copy(), byName: x.byName.IsoCopy(),
	}
}

// named are the directories whose instances have the name, in order.
func (x *index) named(name string) (dirs []string) {
	x.byName.Ascend(&slot{name: name}, func(s *slot) bool {
		if s.name == name {
			dirs = append(dirs, s.rev.Dir)
		}
		return s.name == name
	})
	return dirs
}

func (x *index) remove(dir string) {
	if s := x.byDir.get(dir); s != nil {
		was := x.byID.get(s.rev.Instance)
		x.take(dir)
		x.settle(s.rev.Instance, was)
	}
}

func (x *index) put(s *slot) {
	ids := []string{s.rev.Instance}
	if old := x.byDir.get(s.rev.Dir); old != nil && old.rev.Instance != s.rev.Instance {
		ids = append(ids, old.rev.Instance)
	}
	was := map[string]*slot{}
	for _, id := range ids {
		was[id] = x.byID.get(id)
	}
	x.take(s.rev.Dir)
	x.place(s)
	for _, id := range ids {
		x.settle(id, was[id])
	}
}

// claimants are the directories that have an id, in order.
func (x *index) claimants(id string) []string {
	if dirs, several := x.rivals.find(id); several {
		return dirs
	}
	if s := x.byID.get(id); s != nil {
		return []string{s.rev.Dir}
	}
	return nil
}

// take empties a directory. The caller calls settle afterwards, which decides who has its id
// now.
func (x *index) take(dir string) {
	s := x.byDir.get(dir)
	if s == nil {
		return
	}
	x.byDir.remove(dir)
	x.bad.remove(dir)
	x.absent.remove(dir)
	x.alike.remove(dir)
	if s.name != "" {
		x.byName.Delete(s)
	}
	id := s.rev.Instance
	if dirs, several := x.rivals.find(id); several {
		x.rivals.set(id, slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == dir }))
	} else if x.byID.get(id) == s {
		x.byID.remove(id)
	}
}

// place adds what stands in a directory that take has emptied.
func (x *index) place(s *slot) {
	dir := s.rev.Dir
	x.byDir.set(dir, s)
	if len(s.problems)+len(s.exposed)+len(s.links) > 0 {
		x.bad.set(dir, s)
	}
	if s.absent != nil {
		x.absent.set(dir, s)
	}
	if s.clashes {
		x.alike.set(dir, s)
	}
	if s.name != "" {
		x.byName.Set(s)
	}
	id := s.rev.Instance
	if id == "" {
		return
	}
	dirs, several := x.rivals.find(id)
	switch owner := x.byID.get(id); {
	case several:
		at, _ := slices.BinarySearch(dirs, dir)
		x.rivals.set(id, slices.Insert(slices.Clone(dirs), at, dir))
	case owner != nil:
		dirs = []string{owner.rev.Dir, dir}
		slices.Sort(dirs)
		x.rivals.set(id, dirs)
	default:
		x.byID.set(id, s)
	}
}

// settle decides which of the directories that claim an id is obeyed. was is the slot that was
// obeyed for it before, nil for none. The directory that had the id keeps it; if it is gone, a
// directory with exactly its content has moved and takes the id along; a directory without
// rivals has it. Everything else is held until a person decides. Alphabetical order decides
// nothing.
func (x *index) settle(id string, was *slot) {
	dirs, several := x.rivals.find(id)
	if id == "" || !several {
		return
	}
	h := x.held.get(id)
	switch {
	case len(dirs) == 0 && h != nil && h.by != "":
	case len(dirs) == 0:
		x.rivals.remove(id)
		x.held.remove(id)
		x.byID.remove(id)
	case len(dirs) == 1:
		x.own(id, dirs[0])
		x.rivals.remove(id)
	case was != nil && slices.Contains(dirs, was.rev.Dir):
		x.own(id, was.rev.Dir)
	case h != nil:
	case was == nil:
		x.hold(id, &hold{})
	default:
		same := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return x.byDir.get(d).rev.Tree != was.rev.Tree })
		if len(same) == 1 {
			x.own(id, same[0])
			return
		}
		x.hold(id, &hold{slot: *was.obeyed()})
	}
}

// own makes a directory that claims an id the one that is obeyed for it.
func (x *index) own(id, dir string) {
	x.byID.set(id, x.byDir.get(dir))
	x.held.remove(id)
}

// hold makes an instance stand as it was. If no former revision is known, h has none, and
// nothing is obeyed.
func (x *index) hold(id string, h *hold) {
	x.held.set(id, h)
	if _, several := x.rivals.find(id); !several {
		x.rivals.set(id, []string{})
	}
	x.byID.remove(id)
	if h.rev.Tree != "" {
		x.byID.set(id, &h.slot)
	}
}

// list returns the instances by id.
func (x *index) list() []desired.Revision {
	out := make([]desired.Revision, 0, x.byID.len())
	for _, s := range x.byID.all() {
		out = append(out, s.rev)
	}
	return out
}

func (x *index) lookup(id string) (desired.Revision, bool) {
	s, ok := x.byID.find(id)
	if !ok {
		return desired.Revision{}, false
	}
	return s.rev, true
}

// problems returns what isn't obeyed in the instances' directories, by file.
func (x *index) problems() []*desired.Problem {
	var out, links []*desired.Problem
	for _, s := range x.bad.all() {
		links = append(links, s.links...)
		if !s.stray {
			out = append(out, s.problems...)
		}
	}
	for _, s := range x.alike.all() {
		if s.alike != nil {
			out = append(out, s.alike)
		}
	}
	for id, dirs := range x.rivals.all() {
		if x.held.get(id) != nil {
			for _, d := range dirs {
				out = append(out, disputed(id, d, dirs, x.held.get(id).rev))
			}
			continue
		}
		for _, d := range dirs {
			if first := x.byID.get(id).rev.Dir; d != first {
				out = append(out, duplicate(id, d, first))
			}
		}
	}
	return sorted(addUnnamed(out, links))
}

// exposed returns the secrets that stand in the instances' files in clear, by file.
func (x *index) exposed() []*desired.Problem {
	var out []*desired.Problem
	for _, s := range x.bad.all() {
		out = append(out, s.exposed...)
	}
	return sorted(out)
}

func sorted(problems []*desired.Problem) []*desired.Problem {
	slices.SortFunc(problems, func(a, b *desired.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return problems
}

// secretsIn are the secrets that a file has in clear.
func secretsIn(file string, data []byte, in *desired.Instance) []*desired.Problem {
	// The instance is compared with itself: what stands at a commit has been seen already.
	_, exposed := desired.Exposed(file, data, in, in, desired.SecretNames{})
	return exposed
}

func duplicate(id, dir, first string) *desired.Problem {
	return &desired.Problem{
		File:    path.Join(dir, desired.InstanceFile),
		Message: fmt.Sprintf("id %s is already that of %s", id, path.Join(first, desired.InstanceFile)),
		Remedy:  "give it another id, or none; until then only the other file is obeyed",
	}
}

// disputed is the problem of a directory that claims an id which may be another's.
func disputed(id, dir string, all []string, stands desired.Revision) *desired.Problem {
	others := slices.DeleteFunc(slices.Clone(all), func(d string) bool { return d == dir })
	p := &desired.Problem{
		File:     path.Join(dir, desired.InstanceFile),
		Instance: id,
		Message:  fmt.Sprintf("id %s is also that of %s, and neither had it before", id, strings.Join(others, ", ")),
		Remedy:   "leave it in the file of the VNF that runs, and give the others another id, or none; until then none of them is obeyed",
	}
	if stands.Tree != "" {
		p.Remedy += ", and " + stands.Dir + " stands as it was"
	}
	return p
}

// headMove is what differs between two root trees, read and parsed, ready to be
// applied to an index without further I/O.
type headMove struct {
	changes []dirChange
	slots   []*slot // nil where an instance is gone
	losses  []loss  // of instances that run
}

// prepareMove reads what differs between two root trees, and nothing else. limit is
// that of diffDirs.
func (r *Reader) prepareMove(ctx context.Context, oldRoot, newRoot, commit string, limit int) (headMove, error) {
	changes, err := r.diffDirs(ctx, oldRoot, newRoot, limit)
	if err != nil {
		return headMove{}, err
	}
	slots, err := r.readSlots(ctx, changes, commit)
	for i, c := range changes {
		if c.clashes && slots[i] != nil {
			slots[i].clashes = true
		}
	}
	return headMove{changes: changes, slots: slots}, err
}

// isLost says whether a directory is held as it was because it has lost its id.
func (x *index) isLost(was desired.Revision) bool {
	s := x.byDir.get(was.Dir)
	return s != nil && s.lost && s.rev == was
}

// judge finds the instances that the move to a commit would end by a slip; see
// [Reader.losses]. An instance that is held for that already stays held until the slip is
// repaired. oldRoot and root are the root trees before and after the move.
func (r *Reader) judge(ctx context.Context, x *index, m *headMove, head, oldRoot, root string) error {
	if err := r.endAbsences(ctx, x, m, root); err != nil {
		return err
	}
	if err := r.endClashes(ctx, x, m, head, r.spellingAt(root)); err != nil {
		return err
	}
	before := make([]*slot, len(m.changes))
	changed := make(map[string]int, len(m.changes))
	for i, c := range m.changes {
		before[i], changed[c.dir] = x.byDir.get(c.dir), i
	}
	for _, h := range x.held.all() {
		if i, ok := changed[h.by]; ok {
			before[i] = &h.slot
		}
	}
	losses, err := r.losses(ctx, m.changes, before, m.slots, func(id string) bool {
		return slices.ContainsFunc(x.claimants(id), func(dir string) bool { _, moves := changed[dir]; return !moves && x.byDir.get(dir) != nil })
	}, r.absenceAfter(ctx, oldRoot, root))
	if err != nil {
		return err
	}
	for _, l := range losses {
		if again := l.absent != nil || x.held.get(l.was.Instance) != nil || x.isLost(l.was); !again && l.running {
			if again, err = r.slipped(ctx, head, l); err != nil {
				return err
			}
			l.running = again
		}
		if l.running {
			m.losses = append(m.losses, l)
		}
	}
	return nil
}

// endAbsences adds to the move the instances that were absent ([absence]) and are removed now: no directory differs for
// them.
func (r *Reader) endAbsences(ctx context.Context, x *index, m *headMove, root string) error {
	moves := make(map[string]bool, len(m.changes))
	for _, c := range m.changes {
		moves[c.dir] = true
	}
	for dir, s := range x.absent.all() {
		if moves[dir] {
			continue
		}
		absent, err := r.isAbsent(ctx, root, s.rev, s.absent)
		if err != nil {
			return err
		}
		if !absent {
			m.changes, m.slots = append(m.changes, dirChange{dir: dir}), append(m.slots, nil)
		}
	}
	return nil
}

// apply makes the move and returns the ids whose revision changed or that are
// gone, in order.
func (x *index) apply(m headMove) []string {
	was := map[string]*slot{}
	touched := map[string]desired.Revision{}
	note := func(id string) {
		if _, ok := touched[id]; !ok && id != "" {
			was[id] = x.byID.get(id)
			touched[id], _ = x.lookup(id)
		}
	}
	held := map[string]string{} // by directory, the id that is held because of it
	for id, h := range x.held.all() {
		if h.by != "" {
			held[h.by] = id
		}
	}
	lost := map[string]loss{} // by the directory that took the place
	for _, l := range m.losses {
		lost[l.now.Dir] = l
	}
	stands := make([]*slot, len(m.changes)) // what is placed, nil where nothing is
	for i, c := range m.changes {
		old, s := x.byDir.get(c.dir), m.slots[i]
		if old != nil {
			note(old.rev.Instance)
		}
		l, slip := lost[c.dir]
		switch {
		case slip && l.moved():
			stands[i] = &slot{rev: desired.Revision{Dir: c.dir, Commit: s.rev.Commit, Tree: s.rev.Tree}, problems: []*desired.Problem{l.problem()}, lost: true}
		case slip:
			stands[i] = l.before.obeyed()
			stands[i].problems, stands[i].lost, stands[i].absent = []*desired.Problem{l.problem()}, true, l.absent
		case s == nil:
		case len(s.problems) > 0 && old != nil:
			// The last good revision stands until the file is repaired.
			stands[i] = old.obeyed()
			stands[i].problems, stands[i].links = s.problems, s.links
			if old.rev.Instance == "" {
				stands[i].rev, stands[i].stray, stands[i].clashes = s.rev, s.stray, s.clashes
			}
			delete(held, c.dir)
		default:
			stands[i] = s
		}
		if stands[i] != nil {
			note(stands[i].rev.Instance)
		}
		x.take(c.dir)
		if id := held[c.dir]; id != "" {
			note(id)
			x.held.remove(id)
			x.byID.remove(id)
		}
	}
	for _, s := range stands {
		if s != nil {
			x.place(s)
		}
	}
	for _, l := range m.losses {
		if l.moved() {
			note(l.was.Instance)
			x.hold(l.was.Instance, &hold{slot: *l.before.obeyed(), by: l.now.Dir})
		}
	}
	for _, l := range m.losses {
		// What moved into the place of a directory that is held stands as it was, too.
		if s := was[l.now.Instance]; !l.moved() && s != nil && s.rev.Dir != l.now.Dir && x.byID.get(l.now.Instance) == nil && len(x.claimants(l.now.Instance)) == 0 {
			x.hold(l.now.Instance, &hold{slot: *s.obeyed(), by: l.now.Dir})
		}
	}
	var ids []string
	for id, before := range touched {
		x.settle(id, was[id])
		if now, _ := x.lookup(id); now != before {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
