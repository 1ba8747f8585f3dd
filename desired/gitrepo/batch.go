package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// batch turns writes into commits on top of one head, without moving the ref. If the ref
// doesn't move in the end, only the folders that it has loaded are kept, by content.
type batch struct {
	*git.TreeEditor
	r      *Repo
	ctx    context.Context // of the batch
	parent string
	slots  map[string]*read.Slot // by directory; nil is removed
	ids    map[string]string     // id -> directory, "" is removed
	order  []string              // directories in the order of their writes
	fresh  []freshObject         // new objects that readers will ask for next
	made   map[string]madeDir    // directories of instances that this batch has written, by tree
	// commits counts the commits on the branch; the pack holds more objects.
	commits int
}

// madeDir is the content of a directory that no reader can read yet.
type madeDir struct {
	files   desired.Files
	entries []objects.File
}

type freshObject struct {
	hash string
	git.Object
}

func (r *Repo) newBatch(ctx context.Context, reuse git.Folders) *batch {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return &batch{
		TreeEditor: r.read.EditTrees(ctx, r.root, reuse, git.NewPack()),
		r:          r, ctx: ctx, parent: r.head,
		slots: map[string]*read.Slot{}, ids: map[string]string{},
	}
}

// lookup finds an instance as the batch leaves it so far.
func (b *batch) lookup(id string) (*read.Slot, bool) {
	if dir, ok := b.ids[id]; ok {
		s := b.slots[dir]
		return s, s != nil
	}
	b.r.mu.RLock()
	defer b.r.mu.RUnlock()
	s, ok := b.r.index.ByID.Find(id)
	return s, ok
}

// heldBack returns the problem for which nothing is written to an instance: at head its
// directory isn't its own. nil where there is none.
func (b *batch) heldBack(id string) *desired.Problem {
	b.r.mu.RLock()
	defer b.r.mu.RUnlock()
	x := b.r.index
	if h := x.Held.Get(id); h != nil {
		if s := x.ByDir.Get(h.By); s != nil && len(s.Problems) > 0 {
			return s.Problems[0]
		}
		if dirs := x.Claimants(id); len(dirs) > 0 {
			return read.Disputed(id, dirs[0], dirs, h.Rev)
		}
		return &desired.Problem{File: path.Join(h.Rev.Dir, desired.InstanceFile), Instance: id,
			Message: "no directory has it any more, and a person has to say what is meant", Remedy: "see jibe get problems"}
	}
	if s := x.ByID.Get(id); s != nil && s.Lost {
		return s.Problems[0]
	}
	return nil
}

func (b *batch) slotAt(dir string) *read.Slot {
	if s, ok := b.slots[dir]; ok {
		return s
	}
	b.r.mu.RLock()
	defer b.r.mu.RUnlock()
	if s := b.r.index.ByDir.Get(dir); s != nil && !s.Stray {
		return s
	}
	return nil
}

// prepared is a write of which nothing stands in the batch yet.
type prepared struct {
	at, next desired.Revision
	slot     *read.Slot
}

// prepare runs one write's Change. An error refuses that write alone, unless it is
// desired.ErrUnavailable.
func (b *batch) prepare(w desired.Write) (p prepared, err error) {
	at, err := b.locate(w)
	if err != nil {
		return p, err
	}
	old, entries, err := b.readDir(at.Tree)
	if err != nil {
		return p, fmt.Errorf("%w: %w", desired.ErrUnavailable, b.r.read.Damaged(at.Dir, err))
	}
	files, err := w.Change(at, old)
	if err != nil {
		return p, err
	}
	return b.content(at, files, old, entries)
}

// content is what leads an instance's directory from at to these files. old and entries are what they
// were made of: what didn't change keeps its entry.
func (b *batch) content(at desired.Revision, files, old desired.Files, entries []objects.File) (p prepared, err error) {
	next, s := at, &read.Slot{}
	if len(files) == 0 {
		next.Tree = ""
	} else {
		if err := checkFiles(at.Dir, files); err != nil {
			return p, err
		}
		next.Tree = b.addDir(files, old, entries)
	}
	if next.Tree != "" && next.Tree != at.Tree {
		file := path.Join(at.Dir, desired.InstanceFile)
		in, err := b.r.read.Parse(at.Dir, next.Tree, files[desired.InstanceFile])
		if err != nil {
			return p, fmt.Errorf("write instance %s: %w", at.Instance, err)
		}
		if in.ID != at.Instance {
			return p, fmt.Errorf("write instance %s: %s would have the id %s (an instance keeps its id: write it into the file)", at.Instance, file, in.ID)
		}
		s.Holds(in)
		s.Exposed = read.SecretsIn(file, files[desired.InstanceFile], in)
	}
	return prepared{at, next, s}, nil
}

// readDir is the content of an instance's directory, also of one that this batch has written.
func (b *batch) readDir(tree string) (desired.Files, []objects.File, error) {
	if d, made := b.made[tree]; made {
		return maps.Clone(d.files), d.entries, nil
	}
	return b.r.read.ReadFiles(b.ctx, tree)
}

// apply runs one write and adds its commit. An error refuses that write alone,
// unless it is desired.ErrUnavailable.
func (b *batch) apply(w desired.Write) (desired.Revision, error) {
	if w.Beside != nil {
		return b.applyBeside(w)
	}
	p, err := b.prepare(w)
	if err != nil {
		return desired.Revision{}, err
	}
	if p.next.Tree == p.at.Tree {
		return p.at, nil
	}
	if err := b.Set(p.at.Dir, git.Entry{Mode: git.ModeDir, Hash: p.next.Tree}); err != nil {
		return desired.Revision{}, err
	}
	if asks(w) && len(b.r.opt.Key) > 0 {
		w.Trailers = append(slices.Clip(w.Trailers), revisionOf(p.at, p.next))
	}
	p.next.Commit = b.commit(b.r.encode(b.Root(), b.parent, w))
	p.slot.Rev = p.next
	b.record(w.Instance, p.slot)
	return p.next, nil
}

func (b *batch) commit(data []byte) string {
	data = b.r.opt.Verify.Sign(data)
	b.parent = b.Pack.Add(git.KindCommit, data)
	b.fresh = append(b.fresh, freshObject{b.parent, git.Object{Kind: git.KindCommit, Data: data}})
	b.commits++
	return b.parent
}

// record notes what a write leaves in its directory; a slot without a tree is gone.
func (b *batch) record(id string, s *read.Slot) {
	b.order = append(b.order, s.Rev.Dir)
	if s.Rev.Tree == "" {
		b.slots[s.Rev.Dir], b.ids[id] = nil, ""
		return
	}
	b.slots[s.Rev.Dir], b.ids[id] = s, s.Rev.Dir
}

// locate finds the directory that a write is about, as it stands now.
func (b *batch) locate(w desired.Write) (at desired.Revision, err error) {
	s, known := b.lookup(w.Instance)
	if p := b.heldBack(w.Instance); p != nil {
		return at, &desired.HeldError{Instance: w.Instance, Problem: p}
	}
	dir := w.Dir
	if known {
		dir = s.Rev.Dir
	}
	if dir == "" {
		return at, fmt.Errorf("%w: instance %s", desired.ErrNotFound, w.Instance)
	}
	if err := check.CheckDir(dir); err != nil {
		return at, fmt.Errorf("write instance %s: %w", w.Instance, err)
	}
	if !known {
		if err := b.checkFree(w.Instance, dir); err != nil {
			return at, err
		}
	}
	at = desired.Revision{Instance: w.Instance, Dir: dir, Commit: b.parent}
	e, found, err := b.EntryAt(dir)
	if err != nil {
		return at, err
	}
	if found && !e.IsDir() {
		return at, fmt.Errorf("write instance %s: %s is a file", w.Instance, dir)
	}
	at.Tree = e.Hash
	if known {
		if at.Tree == s.Rev.Tree {
			at.Commit = s.Rev.Commit
		}
		return at, nil
	}
	b.Forget(dir)
	return at, b.checkHolds(w.Instance, dir, at.Tree)
}

// checkFree refuses a new instance in a directory that is, or is in, another's.
func (b *batch) checkFree(id, dir string) error {
	for d := dir; d != "." && d != read.InstancesDir; d = path.Dir(d) {
		if s := b.slotAt(d); s != nil {
			owner := s.Rev.Instance
			if owner == "" {
				owner = "one whose vnf.yaml can't be parsed"
			}
			return fmt.Errorf("write instance %s: %s belongs to another instance (%s)", id, d, owner)
		}
	}
	return nil
}

// checkHolds refuses a new instance in a directory that holds others.
func (b *batch) checkHolds(id, dir, tree string) error {
	if tree == "" {
		return nil
	}
	files, err := b.r.read.ListFiles(b.ctx, tree)
	if err != nil {
		return fmt.Errorf("write instance %s: %s: %w", id, dir, err)
	}
	for _, f := range files {
		if path.Base(f.Path) == desired.InstanceFile {
			return fmt.Errorf("write instance %s: %s holds another instance in %s", id, dir, path.Dir(f.Path))
		}
	}
	return nil
}

func checkFiles(dir string, files desired.Files) error {
	if len(files[desired.InstanceFile]) == 0 {
		return fmt.Errorf("write %s: no %s is left (remove every file to remove the instance)", dir, desired.InstanceFile)
	}
	if len(files) > objects.MaxFiles {
		return fmt.Errorf("write %s: more than %d files", dir, objects.MaxFiles)
	}
	for p, data := range files {
		if err := check.CheckPath(p); err != nil {
			return fmt.Errorf("write %s: %w", dir, err)
		}
		if len(data) > objects.MaxObject {
			return fmt.Errorf("write %s/%s: %w: %d bytes", dir, p, git.ErrTooLarge, len(data))
		}
		for up := path.Dir(p); up != "."; up = path.Dir(up) {
			if _, ok := files[up]; ok {
				return fmt.Errorf("write %s: %s is both a file and a folder", dir, up)
			}
		}
	}
	return nil
}

// addDir adds the trees and blobs of a directory and returns its tree. A file
// that didn't change keeps its entry, and every file its mode; symbolic links and
// submodules, which a Change can't see, stay.
func (b *batch) addDir(files, old desired.Files, entries []objects.File) string {
	folders := map[string][]git.Entry{"": nil}
	var left []objects.File
	put := func(p string, e git.Entry) {
		for up := path.Dir(p); up != "."; up = path.Dir(up) {
			if _, ok := folders[up]; !ok {
				folders[up] = nil
			}
		}
		up := path.Dir(p)
		if up == "." {
			up = ""
		}
		folders[up] = append(folders[up], git.Entry{Mode: e.Mode, Name: path.Base(p), Hash: e.Hash})
		left = append(left, objects.File{Path: p, Entry: git.Entry{Mode: e.Mode, Name: path.Base(p), Hash: e.Hash}})
	}
	was := map[string]git.Entry{}
	for _, e := range entries {
		was[e.Path] = e.Entry
		if _, replaced := files[e.Path]; !e.IsFile() && !replaced {
			put(e.Path, e.Entry)
		}
	}
	for p, data := range files {
		e, known := was[p]
		if content, ok := old[p]; !known || !ok || !bytes.Equal(content, data) {
			hash := b.Pack.Add(git.KindBlob, data)
			b.fresh = append(b.fresh, freshObject{hash, git.Object{Kind: git.KindBlob, Data: bytes.Clone(data)}})
			e.Hash = hash
			if !e.IsFile() {
				e.Mode = git.ModeFile
			}
		}
		put(p, e)
	}
	tree := b.addFolder(folders, "")
	if b.made == nil {
		b.made = map[string]madeDir{}
	}
	b.made[tree] = madeDir{maps.Clone(files), left}
	return tree
}

func (b *batch) addFolder(folders map[string][]git.Entry, at string) string {
	list := folders[at]
	for sub := range folders {
		if sub != "" && (path.Dir(sub) == at || at == "" && path.Dir(sub) == ".") {
			list = append(list, git.Entry{Mode: git.ModeDir, Name: path.Base(sub), Hash: b.addFolder(folders, sub)})
		}
	}
	data := git.EncodeTree(list)
	hash := b.Pack.Add(git.KindTree, data)
	b.fresh = append(b.fresh, freshObject{hash, git.Object{Kind: git.KindTree, Data: data}})
	return hash
}

// keep puts what the batch made into the readers' cache: what was just written is read next.
func (b *batch) keep() {
	for _, o := range b.fresh {
		b.r.read.Objects.Keep(o.hash, o.Object)
	}
	touched := map[string]bool{"": true}
	for _, dir := range b.order {
		for up := git.Parent(dir); up != ""; up = git.Parent(up) {
			touched[up] = true
		}
	}
	for up := range touched {
		if hash, data := b.Tree(up); hash != "" {
			b.r.read.Objects.Keep(hash, git.Object{Kind: git.KindTree, Data: data})
		}
	}
}
