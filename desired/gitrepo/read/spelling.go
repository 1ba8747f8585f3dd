package read

import (
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// foldName returns the same text for names that differ only in case or Unicode form, which also makes a full-width letter or a
// ligature another one than the usual.
func foldName(name string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(name)))
}

// isFolded reports whether a name is its own folded one, as nearly all are.
func isFolded(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 || 'A' <= c && c <= 'Z' })
}

// spelledAlike returns the names in a tree that are spelled like another one, each with all of them; nil for none.
func spelledAlike(t *git.Tree) map[string][]string {
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
	var out map[string][]string
	for _, name := range odd {
		alike := by[foldName(name)]
		if len(alike) < 2 {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		for _, a := range alike {
			out[a] = alike
		}
	}
	return out
}

// Spelling finds the clashes below one root tree. It reads and compares each folder once, however many instances are in it:
// a site has thousands, and each of them asks about the same folders. It isn't safe for concurrent use.
type Spelling struct {
	Load    func(ctx context.Context, hash string) (*git.Tree, error)
	damaged func(what string, err error) error
	root    string
	folders map[string]*spelledFolder // by path, "." for the root
}

// spelledFolder is one folder, empty where there is none.
type spelledFolder struct {
	tree    *git.Tree
	alike   map[string][]string // see spelledAlike
	clashes []clash             // on the way to it and its own, the outermost first
}

// SpellingAt returns the spelling below a root tree.
func (r *Reader) SpellingAt(root string) *Spelling {
	return &Spelling{Load: r.Tree, damaged: r.Damaged, root: root, folders: map[string]*spelledFolder{}}
}

// folder returns the folder at a path.
func (s *Spelling) folder(ctx context.Context, p string) (*spelledFolder, error) {
	if f := s.folders[p]; f != nil {
		return f, nil
	}
	f, hash := &spelledFolder{tree: &git.Tree{}}, s.root
	if p != "." {
		up, err := s.folder(ctx, path.Dir(p))
		if err != nil {
			return nil, err
		}
		f.clashes, hash = up.clashesAt(p), ""
		if e, ok := up.tree.Find(path.Base(p)); ok && e.IsDir() {
			hash = e.Hash
		}
	}
	if hash != "" {
		t, err := s.Load(ctx, hash)
		if err != nil {
			return nil, s.damaged("folder "+p, err)
		}
		f.tree, f.alike = t, spelledAlike(t)
	}
	s.folders[p] = f
	return f, nil
}

// clashesAt returns the clashes on the way to what is in the folder, with its own.
func (f *spelledFolder) clashesAt(p string) []clash {
	dir, name := path.Dir(p), path.Base(p)
	alike := f.alike[name]
	if alike == nil {
		return f.clashes
	}
	c := clash{Path: p}
	for _, a := range alike {
		if a != name {
			c.others = append(c.others, path.Join(dir, a))
		}
	}
	return append(slices.Clip(f.clashes), c)
}

// Clashes returns the clashes on the way from the root to a directory, the outermost first. The caller does not change them.
func (s *Spelling) Clashes(ctx context.Context, dir string) ([]clash, error) {
	f, err := s.folder(ctx, path.Dir(dir))
	if err != nil {
		return nil, err
	}
	return f.clashesAt(dir), nil
}

// clashesBelow returns the clashes of a directory's path below instances/.
func (s *Spelling) clashesBelow(ctx context.Context, dir string) ([]clash, error) {
	all, err := s.Clashes(ctx, dir)
	if len(all) > 0 && all[0].Path == InstancesDir {
		all = all[1:]
	}
	return all, err
}

// Entry returns what stands at a path.
func (s *Spelling) Entry(ctx context.Context, p string) (git.Entry, bool, error) {
	f, err := s.folder(ctx, path.Dir(p))
	if err != nil {
		return git.Entry{}, false, err
	}
	e, ok := f.tree.Find(path.Base(p))
	return e, ok, nil
}
