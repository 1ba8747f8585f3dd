package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unique"

	"github.com/jibe-vnfm/jibe/desired"
)

// loss is an instance that would end only because its id was lost: the id stands in
// no directory any more, and what it was goes on under another one.
type loss struct {
	Was    desired.Revision // the last good revision of what would end
	before *Slot            // which has it
	Now    desired.Revision // what would take its place: a directory and the new id
	// Running says that the VNF was to run. One that wasn't loses only its identifier.
	Running bool
	// Absent is why the instance is missing, where no other takes its place; now is then its own directory.
	Absent *desired.Problem
	// Swapped is the directory that has the id instead, where two files have exchanged their ids.
	Swapped string
}

// Moved reports whether the directory has another name too.
func (l loss) Moved() bool { return l.Was.Dir != l.Now.Dir }

// Problem describes what is wrong with the directory that took the place.
func (l loss) Problem() *desired.Problem {
	if l.Absent != nil {
		return l.Absent
	}
	file := path.Join(l.Now.Dir, desired.InstanceFile)
	if l.Swapped != "" {
		return &desired.Problem{File: file, Instance: l.Was.Instance,
			Message: fmt.Sprintf("has exchanged its id with that of %s: each VNF would become the other", l.Swapped),
			Remedy:  "put it back: id: " + l.Was.Instance + "; to rename the folders, move them with git mv"}
	}
	const way = "; where another VNF is meant, end this one first (state: notInstantiated)"
	if l.Moved() {
		return &desired.Problem{File: file, Instance: l.Was.Instance,
			Message: fmt.Sprintf("moving %s without its id would terminate VNF instance %s, and begin another", l.Was.Dir, l.Was.Instance),
			Remedy:  "write its id into the moved file: id: " + l.Was.Instance + way}
	}
	return &desired.Problem{File: file, Instance: l.Was.Instance,
		Message: fmt.Sprintf("the id of a VNF that runs was changed: instance %s would be terminated, and %s begun", l.Was.Instance, l.Now.Instance),
		Remedy:  "put it back: id: " + l.Was.Instance + way}
}

// Losses finds the instances that a change of directories would end only because
// their ids were lost. before and after are what stands in each of dirs, nil for
// nothing; elsewhere reports whether a directory that doesn't change has an id, and absent why an instance is missing.
func (r *Reader) Losses(ctx context.Context, dirs []DirChange, before, after []*Slot, elsewhere func(id string) bool, absent absence) ([]loss, error) {
	had, has := map[string]bool{}, map[string]bool{}
	for i := range dirs {
		if before[i] != nil {
			had[before[i].Rev.Instance] = true
		}
		if after[i] != nil {
			has[after[i].Rev.Instance] = true
		}
	}
	lost := func(i int) bool { // not where it was, nor elsewhere, nor unreadable
		b, a := before[i], after[i]
		return b != nil && b.Rev.Instance != "" && !has[b.Rev.Instance] && !elsewhere(b.Rev.Instance) && (a == nil || a.Rev.Instance != "")
	}
	// A directory is looked at only where something may have moved there: most commits, and
	// those of very many new instances, lose nothing.
	var fresh map[string][]int
	var out []loss
	taken := map[int]bool{}
	for i := range dirs {
		if !lost(i) {
			continue
		}
		was, err := r.Described(ctx, before[i])
		if err != nil {
			return nil, err
		}
		l := loss{Was: was.Rev, before: was, Running: desired.IsInstantiated(was.state())}
		if a := after[i]; a != nil {
			l.Now = a.Rev
			out = append(out, l)
			continue
		}
		if fresh == nil {
			if fresh, err = r.fresh(ctx, before, after, func(id string) bool { return had[id] || elsewhere(id) }); err != nil {
				return nil, err
			}
		}
		j, err := r.successor(ctx, l, fresh, after, taken)
		if err != nil {
			return nil, err
		}
		if j >= 0 {
			l.Now, taken[j] = after[j].Rev, true
			out = append(out, l)
			continue
		}
		if !l.Running {
			continue
		}
		if l.Absent, err = absent(was); err != nil {
			return nil, err
		}
		if l.Absent != nil {
			l.Now = desired.Revision{Dir: was.Rev.Dir}
			out = append(out, l)
		}
	}
	swaps, err := r.swaps(ctx, before, after, has)
	return append(out, swaps...), err
}

// swaps finds the directories that keep what they mean, but have the id of another directory, which is there still: two
// ids were exchanged. Folders that were renamed take along what they mean. A directory whose new id belongs to one that is
// held so is held, too: else its own id would stand nowhere.
func (r *Reader) swaps(ctx context.Context, before, after []*Slot, has map[string]bool) ([]loss, error) {
	moved := map[string]int{} // by the id that a directory had, its place in the lists
	for i, a := range after {
		if b := before[i]; a != nil && b != nil && a.Rev.Instance != "" && b.Rev.Instance != "" && a.Rev.Instance != b.Rev.Instance {
			moved[b.Rev.Instance] = i
		}
	}
	if len(moved) == 0 {
		return nil, nil
	}

	var out []loss
	held := map[int]bool{}
	hold := func(i int) error {
		was, err := r.Described(ctx, before[i])
		if err != nil {
			return err
		}
		held[i] = true
		out = append(out, loss{Was: was.Rev, before: was, Now: after[i].Rev, Running: desired.IsInstantiated(was.state()), Swapped: before[moved[after[i].Rev.Instance]].Rev.Dir})
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(moved)) {
		i := moved[id]
		other, known := moved[after[i].Rev.Instance]
		if !known || !has[id] {
			continue
		}
		var meant [3]string
		for n, s := range []*Slot{before[i], after[i], before[other]} {
			described, err := r.Described(ctx, s)
			if err != nil {
				return nil, err
			}
			if meant[n], err = r.meaning(ctx, described); err != nil {
				return nil, err
			}
		}
		if meant[0] == meant[1] && meant[1] != meant[2] {
			if err := hold(i); err != nil {
				return nil, err
			}
		}
	}
	for n := 0; n < len(out); n++ {
		for _, i := range moved {
			_, known := moved[after[i].Rev.Instance]
			if known && !held[i] && after[i].Rev.Instance == out[n].Was.Instance {
				if err := hold(i); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// successor returns which of the new directories is the instance that was lost, -1 for none.
func (r *Reader) successor(ctx context.Context, l loss, fresh map[string][]int, after []*Slot, taken map[int]bool) (int, error) {
	if len(fresh) == 0 {
		return -1, nil
	}
	meant, err := r.meaning(ctx, l.before)
	if err != nil {
		return -1, err
	}
	for _, j := range slices.Concat(fresh[l.Was.Tree], fresh[meant]) {
		derived := l.Was.Instance == desired.DeriveID(l.Was.Dir) && after[j].Rev.Instance == desired.DeriveID(after[j].Rev.Dir)
		if !taken[j] && (l.Running || derived) {
			return j, nil
		}
	}
	return -1, nil
}

// fresh are the directories that are new, with ids that are, by tree and by what they mean.
func (r *Reader) fresh(ctx context.Context, before, after []*Slot, known func(id string) bool) (map[string][]int, error) {
	out := map[string][]int{}
	for i, a := range after {
		if a == nil || before[i] != nil || a.Rev.Instance == "" || known(a.Rev.Instance) {
			continue
		}
		meant, err := r.meaning(ctx, a)
		if err != nil {
			return nil, err
		}
		out[a.Rev.Tree] = append(out[a.Rev.Tree], i)
		out[meant] = append(out[meant], i)
	}
	return out, nil
}

// Described returns the slot with what its instance is. One of which only the revision is
// known is read.
func (r *Reader) Described(ctx context.Context, s *Slot) (*Slot, error) {
	if s.traits != (unique.Handle[traits]{}) {
		return s, nil
	}
	in, err := r.Read(ctx, s.Rev)
	if err != nil {
		return nil, err
	}
	return SlotOf(s.Rev, in), nil
}

// Slipped reports whether one commit on the way to head made the loss, along the first parents:
// the VNF was running before it, and had another id after it. If one commit ended or removed
// the instance and a later one began another, both were meant, however fast they came.
func (r *Reader) Slipped(ctx context.Context, head string, l loss) (bool, error) {
	file := path.Join(l.Was.Dir, desired.InstanceFile)
	out, err := r.Git.Run(ctx, "--literal-pathspecs", "rev-list", "--first-parent", fmt.Sprintf("-n%d", maxHistory), head, "--", file)
	if err != nil {
		return false, err
	}
	for commit := range strings.Lines(out) {
		c, err := r.Commit(ctx, strings.TrimSpace(commit))
		if err != nil || len(c.Parents) == 0 {
			return false, err
		}
		root, err := r.RootOf(ctx, c.Parents[0])
		if err != nil {
			return false, err
		}
		was, err := r.instanceAt(ctx, root, l.Was.Dir)
		if err != nil {
			return false, err
		}
		if was == nil || was.ID != l.Was.Instance {
			continue
		}
		now, err := r.instanceAt(ctx, c.Tree, l.Now.Dir)
		if err != nil || now == nil || !desired.IsInstantiated(was.State) {
			return false, err
		}
		if !l.Moved() {
			return true, nil
		}
		there, err := r.instanceAt(ctx, root, l.Now.Dir)
		return there == nil, err
	}
	return false, nil
}

// instanceAt is the instance in a directory below a root tree, nil where none can be read.
func (r *Reader) instanceAt(ctx context.Context, root, dir string) (*desired.Instance, error) {
	file := path.Join(dir, desired.InstanceFile)
	data, err := r.FileAt(ctx, root, file)
	if errors.Is(err, desired.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	in, err := desired.ParseInstance(file, data)
	if err != nil {
		return nil, nil //nolint:nilerr // it is none that could be obeyed
	}
	return in, nil
}

// meaning returns the same text for two instances that are one VNF, whatever their ids: they
// have the same name, or they have no name and differ only in what Jibe fills in. Only those
// without a name are read.
func (r *Reader) meaning(ctx context.Context, s *Slot) (string, error) {
	if s.Name != "" {
		return "name " + s.Name, nil
	}
	in, err := r.Read(ctx, s.Rev)
	if err != nil {
		return "", err
	}
	bare := *in
	bare.ID, bare.Package, bare.Base, bare.Overlays, bare.VDUs, bare.Generation = "", "", "", nil, nil, ""
	bare.VIM, bare.Levels, bare.Condemned, bare.Held = "", nil, nil, ""
	text, err := json.Marshal(bare)
	if err != nil {
		return "id " + in.ID, nil //nolint:nilerr // what came out of YAML always encodes
	}
	return string(text), nil
}
