package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
)

// slot is what stands in one directory. It is immutable.
type slot struct {
	rev desired.Revision // Instance "" where no content could ever be parsed
	// problems say why the directory's content isn't rev's: rev is then the last
	// good revision.
	problems []*desired.Problem
}

// index knows every instance at one commit. It isn't safe for concurrent use
// while it is changed.
type index struct {
	byDir map[string]*slot
	byID  map[string]*slot
	// rivals are the directories that claim one id, where there are several, in
	// order: the first is in byID.
	rivals map[string][]string
	bad    map[string]*slot // those with problems
}

func newIndex() *index {
	return &index{byDir: map[string]*slot{}, byID: map[string]*slot{}, rivals: map[string][]string{}, bad: map[string]*slot{}}
}

func (x *index) clone() *index {
	c := &index{byDir: maps.Clone(x.byDir), byID: maps.Clone(x.byID), rivals: map[string][]string{}, bad: maps.Clone(x.bad)}
	for id, dirs := range x.rivals {
		c.rivals[id] = slices.Clone(dirs)
	}
	return c
}

func (x *index) remove(dir string) {
	s, ok := x.byDir[dir]
	if !ok {
		return
	}
	delete(x.byDir, dir)
	delete(x.bad, dir)
	id := s.rev.Instance
	if id == "" {
		return
	}
	dirs := slices.DeleteFunc(x.rivals[id], func(d string) bool { return d == dir })
	switch len(dirs) {
	case 0:
		delete(x.byID, id)
	case 1:
		delete(x.rivals, id)
		x.byID[id] = x.byDir[dirs[0]]
	default:
		x.rivals[id] = dirs
		x.byID[id] = x.byDir[dirs[0]]
	}
}

func (x *index) put(s *slot) {
	x.remove(s.rev.Dir)
	x.byDir[s.rev.Dir] = s
	if len(s.problems) > 0 {
		x.bad[s.rev.Dir] = s
	}
	id := s.rev.Instance
	if id == "" {
		return
	}
	first, taken := x.byID[id]
	if !taken {
		x.byID[id] = s
		return
	}
	dirs := x.rivals[id]
	if len(dirs) == 0 {
		dirs = []string{first.rev.Dir}
	}
	dirs = append(dirs, s.rev.Dir)
	slices.Sort(dirs)
	x.rivals[id] = dirs
	x.byID[id] = x.byDir[dirs[0]]
}

// list returns the instances by id.
func (x *index) list() []desired.Revision {
	out := make([]desired.Revision, 0, len(x.byID))
	for _, s := range x.byID {
		out = append(out, s.rev)
	}
	slices.SortFunc(out, func(a, b desired.Revision) int { return cmp.Compare(a.Instance, b.Instance) })
	return out
}

func (x *index) lookup(id string) (desired.Revision, bool) {
	s, ok := x.byID[id]
	if !ok {
		return desired.Revision{}, false
	}
	return s.rev, true
}

// problems says what in the instances' directories is not obeyed, by file.
func (x *index) problems() []*desired.Problem {
	var out []*desired.Problem
	for _, s := range x.bad {
		out = append(out, s.problems...)
	}
	for id, dirs := range x.rivals {
		for _, d := range dirs[1:] {
			out = append(out, duplicate(id, d, dirs[0]))
		}
	}
	slices.SortFunc(out, func(a, b *desired.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return out
}

func duplicate(id, dir, first string) *desired.Problem {
	return &desired.Problem{
		File:    path.Join(dir, desired.InstanceFile),
		Message: fmt.Sprintf("id %s is already that of %s", id, path.Join(first, desired.InstanceFile)),
		Remedy:  "give one of them another id; until then only the first is obeyed",
	}
}

// headMove is what differs between two root trees, read and parsed, ready to be
// applied to an index without further I/O.
type headMove struct {
	changes []dirChange
	slots   []*slot // nil where an instance is gone
}

// prepareMove reads what differs between two root trees, and nothing else.
func (r *Reader) prepareMove(ctx context.Context, oldRoot, newRoot, commit string) (headMove, error) {
	changes, err := r.diffDirs(ctx, oldRoot, newRoot)
	if err != nil {
		return headMove{}, err
	}
	slots, err := r.readSlots(ctx, changes, commit)
	return headMove{changes, slots}, err
}

// apply makes the move and returns the ids whose revision changed or that are
// gone, in order.
func (x *index) apply(m headMove) []string {
	touched := map[string]desired.Revision{}
	note := func(id string) {
		if _, ok := touched[id]; !ok && id != "" {
			touched[id], _ = x.lookup(id)
		}
	}
	for i, c := range m.changes {
		old := x.byDir[c.dir]
		if old != nil {
			note(old.rev.Instance)
		}
		switch s := m.slots[i]; {
		case s == nil:
			x.remove(c.dir)
		case len(s.problems) > 0 && old != nil && old.rev.Instance != "":
			// The last good revision stands until the file is mended.
			x.put(&slot{rev: old.rev, problems: s.problems})
		default:
			note(s.rev.Instance)
			x.put(s)
		}
	}
	var ids []string
	for id, before := range touched {
		if now, _ := x.lookup(id); now != before {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// readSlots reads and parses the instances after a change, nil where one is gone.
func (r *Reader) readSlots(ctx context.Context, changes []dirChange, commit string) ([]*slot, error) {
	slots := make([]*slot, len(changes))
	const chunk = 512
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(changes); from += chunk {
		g.Go(func() error {
			return r.readSlotChunk(ctx, changes[from:min(from+chunk, len(changes))], slots[from:], commit)
		})
	}
	return slots, g.Wait()
}

func (r *Reader) readSlotChunk(ctx context.Context, changes []dirChange, slots []*slot, commit string) error {
	var hashes []string
	var at []int
	for i, c := range changes {
		if c.after == "" {
			continue
		}
		slots[i] = &slot{rev: desired.Revision{Dir: c.dir, Commit: commit, Tree: c.after}}
		if !c.file.isFile() {
			slots[i].problems = []*desired.Problem{notAFile(path.Join(c.dir, desired.InstanceFile), c.file)}
			continue
		}
		if in, ok := r.parsed.get(parsedKey(c.dir, c.after)); ok {
			slots[i].rev.Instance = in.ID
			continue
		}
		hashes, at = append(hashes, c.file.hash), append(at, i)
	}
	return r.objects.each(ctx, kindBlob, hashes, func(j int, data []byte, err error) error {
		c, s := changes[at[j]], slots[at[j]]
		file := path.Join(c.dir, desired.InstanceFile)
		if errors.Is(err, errTooLarge) {
			s.problems = []*desired.Problem{{File: file, Message: err.Error(), Remedy: "keep large files elsewhere"}}
			return nil
		}
		if err != nil {
			return r.damaged(file+" at "+commit, err)
		}
		in, err := r.parse(c.dir, c.after, data)
		if err != nil {
			s.problems = problemsOf(file, err)
			return nil
		}
		s.rev.Instance = in.ID
		return nil
	})
}

// problemsOf takes a parse error apart.
func problemsOf(file string, err error) []*desired.Problem {
	if inv, ok := errors.AsType[*desired.InvalidError](err); ok && len(inv.Problems) > 0 {
		return inv.Problems
	}
	return []*desired.Problem{{File: file, Message: err.Error()}}
}

func notAFile(file string, e entry) *desired.Problem {
	what := "a folder"
	switch e.mode {
	case modeSymlink:
		what = "a symbolic link"
	case modeSubmodule:
		what = "a submodule"
	}
	return &desired.Problem{File: file, Message: "is " + what + ", not a file", Remedy: "commit a plain file"}
}
