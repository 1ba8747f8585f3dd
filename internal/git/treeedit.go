package git

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// Folders are those that an editor has loaded, by path. A later editor that begins
// where it ended is spared to load them again.
type Folders map[string]*folder

// maxFolders is how many folders are handed on: more than the API makes for its instances,
// which are 256 with 16 in each.
const maxFolders = 16 << 10

// folder is one that is being edited.
type folder struct {
	*Tree
	hash string // of raw; "" while it has no entries
}

// TreeEditor changes entries below one root tree and puts the trees that this
// makes into a pack.
type TreeEditor struct {
	// Pack is where new trees are put; blobs that entries name belong there too.
	Pack *Pack

	load    LoadTree
	root    string
	folders Folders // "" is the root
}

// LoadTree returns the tree with the hash, "" for an empty one. dir is where it stands,
// for its error.
type LoadTree func(dir, hash string) (*Tree, error)

// NewTreeEditor starts at a root tree. Folders that an earlier editor left at
// the same root are used again; that one mustn't be used any more.
func NewTreeEditor(load LoadTree, root string, reuse Folders, pack *Pack) *TreeEditor {
	if top := reuse[""]; top == nil || top.hash != root || len(reuse) > maxFolders {
		reuse = Folders{}
	}
	return &TreeEditor{Pack: pack, load: load, root: root, folders: reuse}
}

// Root is the root tree as it is now.
func (b *TreeEditor) Root() string { return b.root }

// Folders are what has been loaded, for the next editor.
func (b *TreeEditor) Folders() Folders { return b.folders }

// Tree is the content of a folder that was loaded, "" where there is none.
func (b *TreeEditor) Tree(dir string) (hash string, data []byte) {
	if f := b.folders[dir]; f != nil && f.hash != "" {
		return f.hash, bytes.Clone(f.raw)
	}
	return "", nil
}

// Forget drops the folders at and below a directory, which is about to be
// replaced as a whole.
func (b *TreeEditor) Forget(dir string) {
	if b.folders[dir] == nil {
		return // a folder is loaded by way of the one above it, so that none below is either
	}
	below := dir + "/"
	for p := range b.folders {
		if p == dir || strings.HasPrefix(p, below) {
			delete(b.folders, p)
		}
	}
}

// EntryAt finds what stands at a path now.
func (b *TreeEditor) EntryAt(dir string) (Entry, bool, error) {
	up, err := b.open(Parent(dir))
	if err != nil {
		return Entry{}, false, err
	}
	e, ok := up.Find(path.Base(dir))
	return e, ok, nil
}

// Parent is the folder in which a path stands, "" for the root.
func Parent(dir string) string {
	if up := path.Dir(dir); up != "." {
		return up
	}
	return ""
}

// open returns a folder that may be altered; one that doesn't exist is empty.
func (b *TreeEditor) open(dir string) (*folder, error) {
	if t := b.folders[dir]; t != nil {
		return t, nil
	}
	hash := b.root
	if dir != "" {
		e, ok, err := b.EntryAt(dir)
		if err != nil {
			return nil, err
		}
		if ok && !e.IsDir() {
			return nil, fmt.Errorf("%s is a file", dir)
		}
		hash = e.Hash
	}
	t, err := b.load(dir, hash)
	if err != nil {
		return nil, err
	}
	w := &folder{Tree: t.clone(), hash: hash}
	b.folders[dir] = w
	return w, nil
}

// Set puts an entry at a path, and with it the folders above it. One without a hash is
// removed, and with it folders that it leaves empty.
func (b *TreeEditor) Set(p string, child Entry) error {
	child.Name = path.Base(p)
	for up := Parent(p); ; up = Parent(up) {
		t, err := b.open(up)
		if err != nil {
			return err
		}
		oldHash, oldSize := t.hash, len(t.raw)
		var s splice
		if child.Hash != "" {
			s = t.set(child)
		} else if i, ok := t.index(child.Name, child.IsDir()); ok {
			s = t.remove(i)
		}
		if t.Len() == 0 && up != "" {
			t.hash = "" // git has no empty folders
		} else {
			t.hash = b.Pack.addSpliced(t.raw, oldHash, oldSize, s)
		}
		if up == "" {
			b.root = t.hash
			return nil
		}
		child = Entry{Mode: ModeDir, Name: path.Base(up), Hash: t.hash}
	}
}
