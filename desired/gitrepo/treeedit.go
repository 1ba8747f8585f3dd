package gitrepo

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// workTree is a folder that is being edited.
type workTree struct {
	*tree
	hash string // of raw; "" while it has no entries
}

// treeEditor changes entries below one root tree and puts the trees that this
// makes into a pack.
type treeEditor struct {
	reader *Reader
	ctx    context.Context // of the batch
	root   string
	folder map[string]*workTree // by path; "" is the root
	pack   *packBuilder
}

// newTreeEditor starts at a root tree. Folders that an earlier editor left at
// the same root are used again; it mustn't be used any more.
func newTreeEditor(ctx context.Context, reader *Reader, root string, folder map[string]*workTree, pack *packBuilder) *treeEditor {
	if top := folder[""]; top == nil || top.hash != root || len(folder) > 4096 {
		folder = map[string]*workTree{}
	}
	return &treeEditor{reader: reader, ctx: ctx, root: root, folder: folder, pack: pack}
}

// forget drops the folders at and below a directory, which is about to be
// replaced as a whole.
func (b *treeEditor) forget(dir string) {
	for p := range b.folder {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			delete(b.folder, p)
		}
	}
}

// entryAt finds what stands at a path now.
func (b *treeEditor) entryAt(dir string) (entry, bool, error) {
	up, err := b.load(parentOf(dir))
	if err != nil || up == nil {
		return entry{}, false, err
	}
	e, ok := up.find(path.Base(dir))
	return e, ok, nil
}

func parentOf(dir string) string {
	if up := path.Dir(dir); up != "." {
		return up
	}
	return ""
}

// load returns a folder that may be altered; one that doesn't exist is empty.
func (b *treeEditor) load(dir string) (*workTree, error) {
	if t := b.folder[dir]; t != nil {
		return t, nil
	}
	hash := b.root
	if dir != "" {
		e, ok, err := b.entryAt(dir)
		if err != nil {
			return nil, err
		}
		if ok && !e.isDir() {
			return nil, fmt.Errorf("%s is a file", dir)
		}
		hash = e.hash
	}
	t, err := b.reader.tree(b.ctx, hash)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, b.reader.damaged(dir+" (tree "+hash+")", err))
	}
	w := &workTree{tree: t.clone(), hash: hash}
	b.folder[dir] = w
	return w, nil
}

// splice puts an entry (without a hash it is removed) into all folders above it.
func (b *treeEditor) splice(p string, child entry) error {
	child.name = path.Base(p)
	for up := parentOf(p); ; up = parentOf(up) {
		t, err := b.load(up)
		if err != nil {
			return err
		}
		oldHash, oldSize := t.hash, len(t.raw)
		var s splice
		if child.hash != "" {
			s = t.set(child)
		} else if i, ok := t.index(child.name, child.isDir()); ok {
			s = t.remove(i)
		}
		if t.len() == 0 && up != "" {
			t.hash = "" // git has no empty folders
		} else {
			t.hash = b.pack.addSpliced(t.raw, oldHash, oldSize, s)
		}
		if up == "" {
			b.root = t.hash
			return nil
		}
		child = entry{mode: modeDir, name: path.Base(up), hash: t.hash}
	}
}
