package read

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

// Index knows every instance at one commit. It isn't safe for concurrent use
// while it is changed or copied.
type Index struct {
	ByDir ordered[*Slot]
	// ByID has the obeyed slot for each id.
	ByID Identified
	// rivals are the directories that claim one id, in order, where they are several or
	// the id is held. The lists are immutable.
	rivals ordered[[]string]
	Bad    ordered[*Slot] // those with problems, or secrets in clear, by directory
	absent ordered[*Slot] // those of bad whose directory is missing, see absence
	Alike  ordered[*Slot] // those of which a folder is spelled like another one, see clash
	// Held are the instances whose last good revision stands, by id, although no directory has
	// it any more. A person decides what becomes of them.
	Held   ordered[*Hold]
	byName *btree.BTreeG[*Slot] // those with a name, by name and directory
}

// Hold keeps an instance as it was.
type Hold struct {
	Slot
	// By is the directory to which it was moved without its id; "" where several
	// directories claim the id.
	By string
}

// NewIndex makes an index of no instances.
func NewIndex() *Index {
	return &Index{byName: btree.NewBTreeGOptions(func(a, b *Slot) bool {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Rev.Dir, b.Rev.Dir)) < 0
	}, btree.Options{NoLocks: true})}
}

// Clone returns a copy that may be changed without effect on x. It costs the same at any size.
func (x *Index) Clone() *Index {
	return &Index{
		ByDir: x.ByDir.copy(), ByID: x.ByID.Copy(), rivals: x.rivals.copy(), Bad: x.Bad.copy(), absent: x.absent.copy(),
		Alike: x.Alike.copy(), Held: x.Held.copy(), byName: x.byName.IsoCopy(),
	}
}

// Named are the directories whose instances have the name, in order.
func (x *Index) Named(name string) (dirs []string) {
	x.byName.Ascend(&Slot{Name: name}, func(s *Slot) bool {
		if s.Name == name {
			dirs = append(dirs, s.Rev.Dir)
		}
		return s.Name == name
	})
	return dirs
}

// Remove removes the instance of a directory.
func (x *Index) Remove(dir string) {
	if s := x.ByDir.Get(dir); s != nil {
		was := x.ByID.Get(s.Rev.Instance)
		x.take(dir)
		x.settle(s.Rev.Instance, was)
	}
}

// Put adds the instance of a directory, or replaces it.
func (x *Index) Put(s *Slot) {
	ids := []string{s.Rev.Instance}
	if old := x.ByDir.Get(s.Rev.Dir); old != nil && old.Rev.Instance != s.Rev.Instance {
		ids = append(ids, old.Rev.Instance)
	}
	was := map[string]*Slot{}
	for _, id := range ids {
		was[id] = x.ByID.Get(id)
	}
	x.take(s.Rev.Dir)
	x.place(s)
	for _, id := range ids {
		x.settle(id, was[id])
	}
}

// Claimants are the directories that have an id, in order.
func (x *Index) Claimants(id string) []string {
	if dirs, several := x.rivals.Find(id); several {
		return dirs
	}
	if s := x.ByID.Get(id); s != nil {
		return []string{s.Rev.Dir}
	}
	return nil
}

// take empties a directory. The caller calls settle afterwards, which decides who has its id
// now.
func (x *Index) take(dir string) {
	s := x.ByDir.Get(dir)
	if s == nil {
		return
	}
	x.ByDir.remove(dir)
	x.Bad.remove(dir)
	x.absent.remove(dir)
	x.Alike.remove(dir)
	if s.Name != "" {
		x.byName.Delete(s)
	}
	id := s.Rev.Instance
	if dirs, several := x.rivals.Find(id); several {
		x.rivals.set(id, slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == dir }))
	} else if x.ByID.Get(id) == s {
		x.ByID.Remove(id)
	}
}

// place adds what stands in a directory that take has emptied.
func (x *Index) place(s *Slot) {
	dir := s.Rev.Dir
	x.ByDir.set(dir, s)
	if len(s.Problems)+len(s.Exposed)+len(s.Links) > 0 {
		x.Bad.set(dir, s)
	}
	if s.Absent != nil {
		x.absent.set(dir, s)
	}
	if s.Clashes {
		x.Alike.set(dir, s)
	}
	if s.Name != "" {
		x.byName.Set(s)
	}
	id := s.Rev.Instance
	if id == "" {
		return
	}
	dirs, several := x.rivals.Find(id)
	switch owner := x.ByID.Get(id); {
	case several:
		at, _ := slices.BinarySearch(dirs, dir)
		x.rivals.set(id, slices.Insert(slices.Clone(dirs), at, dir))
	case owner != nil:
		dirs = []string{owner.Rev.Dir, dir}
		slices.Sort(dirs)
		x.rivals.set(id, dirs)
	default:
		x.ByID.Set(id, s)
	}
}

// settle decides which of the directories that claim an id is obeyed. was is the slot that was
// obeyed for it before, nil for none. The directory that had the id keeps it; if it is gone, a
// directory with exactly its content has moved and takes the id along; a directory without
// rivals has it. Everything else is held until a person decides. Alphabetical order decides
// nothing.
func (x *Index) settle(id string, was *Slot) {
	dirs, several := x.rivals.Find(id)
	if id == "" || !several {
		return
	}
	h := x.Held.Get(id)
	switch {
	case len(dirs) == 0 && h != nil && h.By != "":
	case len(dirs) == 0:
		x.rivals.remove(id)
		x.Held.remove(id)
		x.ByID.Remove(id)
	case len(dirs) == 1:
		x.Own(id, dirs[0])
		x.rivals.remove(id)
	case was != nil && slices.Contains(dirs, was.Rev.Dir):
		x.Own(id, was.Rev.Dir)
	case h != nil:
	case was == nil:
		x.Hold(id, &Hold{})
	default:
		same := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return x.ByDir.Get(d).Rev.Tree != was.Rev.Tree })
		if len(same) == 1 {
			x.Own(id, same[0])
			return
		}
		x.Hold(id, &Hold{Slot: *was.obeyed()})
	}
}

// Own makes a directory that claims an id the one that is obeyed for it.
func (x *Index) Own(id, dir string) {
	x.ByID.Set(id, x.ByDir.Get(dir))
	x.Held.remove(id)
}

// Hold makes an instance stand as it was. If no former revision is known, h has none, and
// nothing is obeyed.
func (x *Index) Hold(id string, h *Hold) {
	x.Held.set(id, h)
	if _, several := x.rivals.Find(id); !several {
		x.rivals.set(id, []string{})
	}
	x.ByID.Remove(id)
	if h.Rev.Tree != "" {
		x.ByID.Set(id, &h.Slot)
	}
}

// List returns the instances by id.
func (x *Index) List() []desired.Revision {
	out := make([]desired.Revision, 0, x.ByID.Len())
	for _, s := range x.ByID.All() {
		out = append(out, s.Rev)
	}
	return out
}

// Lookup returns the revision of the instance with the id.
func (x *Index) Lookup(id string) (desired.Revision, bool) {
	s, ok := x.ByID.Find(id)
	if !ok {
		return desired.Revision{}, false
	}
	return s.Rev, true
}

// Problems returns what is not in effect in the instances' directories, by file.
func (x *Index) Problems() []*desired.Problem {
	var out, links []*desired.Problem
	for _, s := range x.Bad.All() {
		links = append(links, s.Links...)
		if !s.Stray {
			out = append(out, s.Problems...)
		}
	}
	for _, s := range x.Alike.All() {
		if s.alike != nil {
			out = append(out, s.alike)
		}
	}
	for id, dirs := range x.rivals.All() {
		if x.Held.Get(id) != nil {
			for _, d := range dirs {
				out = append(out, Disputed(id, d, dirs, x.Held.Get(id).Rev))
			}
			continue
		}
		for _, d := range dirs {
			if first := x.ByID.Get(id).Rev.Dir; d != first {
				out = append(out, duplicate(id, d, first))
			}
		}
	}
	return sorted(AddUnnamed(out, links))
}

// Exposed returns the secrets that stand in the instances' files in clear, by file.
func (x *Index) Exposed() []*desired.Problem {
	var out []*desired.Problem
	for _, s := range x.Bad.All() {
		out = append(out, s.Exposed...)
	}
	return sorted(out)
}

func sorted(problems []*desired.Problem) []*desired.Problem {
	slices.SortFunc(problems, func(a, b *desired.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return problems
}

// SecretsIn are the secrets that a file has in clear.
func SecretsIn(file string, data []byte, in *desired.Instance) []*desired.Problem {
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

// Disputed is the problem of a directory that claims an id which may be another's.
func Disputed(id, dir string, all []string, stands desired.Revision) *desired.Problem {
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

// HeadMove is what differs between two root trees, read and parsed, ready to be
// applied to an index without further I/O.
type HeadMove struct {
	Changes []DirChange
	Slots   []*Slot // nil where an instance is gone
	Losses  []loss  // of instances that run
}

// PrepareMove reads what differs between two root trees, and nothing else. limit is
// that of diffDirs.
func (r *Reader) PrepareMove(ctx context.Context, oldRoot, newRoot, commit string, limit int) (HeadMove, error) {
	changes, err := r.DiffDirs(ctx, oldRoot, newRoot, limit)
	if err != nil {
		return HeadMove{}, err
	}
	slots, err := r.ReadSlots(ctx, changes, commit)
	for i, c := range changes {
		if c.Clashes && slots[i] != nil {
			slots[i].Clashes = true
		}
	}
	return HeadMove{Changes: changes, Slots: slots}, err
}

// isLost says whether a directory is held as it was because it has lost its id.
func (x *Index) isLost(was desired.Revision) bool {
	s := x.ByDir.Get(was.Dir)
	return s != nil && s.Lost && s.Rev == was
}

// Judge finds the instances that the move to a commit would end by a slip; see
// [Reader.Losses]. An instance that is held for that already stays held until the slip is
// repaired. oldRoot and root are the root trees before and after the move.
func (r *Reader) Judge(ctx context.Context, x *Index, m *HeadMove, head, oldRoot, root string) error {
	if err := r.EndAbsences(ctx, x, m, root); err != nil {
		return err
	}
	if err := r.EndClashes(ctx, x, m, head, r.SpellingAt(root)); err != nil {
		return err
	}
	before := make([]*Slot, len(m.Changes))
	changed := make(map[string]int, len(m.Changes))
	for i, c := range m.Changes {
		before[i], changed[c.Dir] = x.ByDir.Get(c.Dir), i
	}
	for _, h := range x.Held.All() {
		if i, ok := changed[h.By]; ok {
			before[i] = &h.Slot
		}
	}
	losses, err := r.Losses(ctx, m.Changes, before, m.Slots, func(id string) bool {
		return slices.ContainsFunc(x.Claimants(id), func(dir string) bool { _, moves := changed[dir]; return !moves && x.ByDir.Get(dir) != nil })
	}, r.absenceAfter(ctx, oldRoot, root))
	if err != nil {
		return err
	}
	for _, l := range losses {
		if again := l.Absent != nil || x.Held.Get(l.Was.Instance) != nil || x.isLost(l.Was); !again && l.Running {
			if again, err = r.Slipped(ctx, head, l); err != nil {
				return err
			}
			l.Running = again
		}
		if l.Running {
			m.Losses = append(m.Losses, l)
		}
	}
	return nil
}

// EndAbsences adds to the move the instances that were absent ([absence]) and are removed now: no directory differs for
// them.
func (r *Reader) EndAbsences(ctx context.Context, x *Index, m *HeadMove, root string) error {
	moves := make(map[string]bool, len(m.Changes))
	for _, c := range m.Changes {
		moves[c.Dir] = true
	}
	for dir, s := range x.absent.All() {
		if moves[dir] {
			continue
		}
		absent, err := r.isAbsent(ctx, root, s.Rev, s.Absent)
		if err != nil {
			return err
		}
		if !absent {
			m.Changes, m.Slots = append(m.Changes, DirChange{Dir: dir}), append(m.Slots, nil)
		}
	}
	return nil
}

// Apply makes the move and returns the ids whose revision changed or that are
// gone, in order.
func (x *Index) Apply(m HeadMove) []string {
	was := map[string]*Slot{}
	touched := map[string]desired.Revision{}
	note := func(id string) {
		if _, ok := touched[id]; !ok && id != "" {
			was[id] = x.ByID.Get(id)
			touched[id], _ = x.Lookup(id)
		}
	}
	held := map[string]string{} // by directory, the id that is held because of it
	for id, h := range x.Held.All() {
		if h.By != "" {
			held[h.By] = id
		}
	}
	lost := map[string]loss{} // by the directory that took the place
	for _, l := range m.Losses {
		lost[l.Now.Dir] = l
	}
	stands := make([]*Slot, len(m.Changes)) // what is placed, nil where nothing is
	for i, c := range m.Changes {
		old, s := x.ByDir.Get(c.Dir), m.Slots[i]
		if old != nil {
			note(old.Rev.Instance)
		}
		l, slip := lost[c.Dir]
		switch {
		case slip && l.Moved():
			stands[i] = &Slot{Rev: desired.Revision{Dir: c.Dir, Commit: s.Rev.Commit, Tree: s.Rev.Tree}, Problems: []*desired.Problem{l.Problem()}, Lost: true}
		case slip:
			stands[i] = l.before.obeyed()
			stands[i].Problems, stands[i].Lost, stands[i].Absent = []*desired.Problem{l.Problem()}, true, l.Absent
		case s == nil:
		case len(s.Problems) > 0 && old != nil:
			// The last good revision stands until the file is repaired.
			stands[i] = old.obeyed()
			stands[i].Problems, stands[i].Links = s.Problems, s.Links
			if old.Rev.Instance == "" {
				stands[i].Rev, stands[i].Stray, stands[i].Clashes = s.Rev, s.Stray, s.Clashes
			}
			delete(held, c.Dir)
		default:
			stands[i] = s
		}
		if stands[i] != nil {
			note(stands[i].Rev.Instance)
		}
		x.take(c.Dir)
		if id := held[c.Dir]; id != "" {
			note(id)
			x.Held.remove(id)
			x.ByID.Remove(id)
		}
	}
	for _, s := range stands {
		if s != nil {
			x.place(s)
		}
	}
	for _, l := range m.Losses {
		if l.Moved() {
			note(l.Was.Instance)
			x.Hold(l.Was.Instance, &Hold{Slot: *l.before.obeyed(), By: l.Now.Dir})
		}
	}
	for _, l := range m.Losses {
		// What moved into the place of a directory that is held stands as it was, too.
		if s := was[l.Now.Instance]; !l.Moved() && s != nil && s.Rev.Dir != l.Now.Dir && x.ByID.Get(l.Now.Instance) == nil && len(x.Claimants(l.Now.Instance)) == 0 {
			x.Hold(l.Now.Instance, &Hold{Slot: *s.obeyed(), By: l.Now.Dir})
		}
	}
	var ids []string
	for id, before := range touched {
		x.settle(id, was[id])
		if now, _ := x.Lookup(id); now != before {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
