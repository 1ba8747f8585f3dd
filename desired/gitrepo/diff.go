package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"github.com/jibe-vnfm/jibe/desired"
)

// dirChange is an instance's directory that differs between two root trees.
type dirChange struct {
	dir           string
	before, after string // tree hashes, "" where it is no instance
	file          entry  // vnf.yaml after
}

// pair is one folder in two trees; "" where it is absent or not looked into.
type pair struct{ dir, before, after string }

// diffDirs finds the instances' directories that differ between two root trees,
// reading only trees that differ, level by level.
func (r *Reader) diffDirs(ctx context.Context, oldRoot, newRoot string) ([]dirChange, error) {
	oldTop, err := r.instancesTree(ctx, oldRoot)
	if err != nil {
		return nil, err
	}
	newTop, err := r.instancesTree(ctx, newRoot)
	if err != nil {
		return nil, err
	}
	if oldTop == newTop {
		return nil, nil
	}
	var out []dirChange
	seen := 0
	for level, depth := []pair{{instancesDir, oldTop, newTop}}, 0; len(level) > 0; depth++ {
		if depth > maxDepth {
			return nil, fmt.Errorf("%s: directories are nested more than %d deep", level[0].dir, maxDepth)
		}
		trees, err := r.loadTrees(ctx, level)
		if err != nil {
			return nil, err
		}
		var next []pair
		for _, p := range level {
			before, after := trees[p.before], trees[p.after]
			if depth > 0 { // instances/ itself is never an instance
				c := dirChange{dir: p.dir}
				if _, ok := before.find(desired.InstanceFile); ok {
					c.before, before = p.before, &tree{}
				}
				if f, ok := after.find(desired.InstanceFile); ok {
					c.after, c.file, after = p.after, f, &tree{}
				}
				if c.before != "" || c.after != "" {
					out = append(out, c)
				}
			}
			diffTrees(before, after, func(b, a entry) {
				sub := pair{dir: p.dir + "/"}
				if b.isDir() {
					sub.before, sub.dir = b.hash, path.Join(p.dir, b.name)
				}
				if a.isDir() {
					sub.after, sub.dir = a.hash, path.Join(p.dir, a.name)
				}
				if sub.before != sub.after {
					next = append(next, sub)
				}
			})
			if seen += len(next); seen > maxEntries {
				return nil, fmt.Errorf("%s/ unfolds to more than %d directories", instancesDir, maxEntries)
			}
		}
		level = next
	}
	return out, nil
}

func (r *Reader) instancesTree(ctx context.Context, root string) (string, error) {
	e, ok, err := r.lookupPath(ctx, root, instancesDir)
	if err != nil {
		return "", r.damaged("root tree "+root, err)
	}
	if !ok || !e.isDir() {
		return "", nil
	}
	return e.hash, nil
}

// loadTrees decodes the trees on both sides of a level in one exchange with git.
func (r *Reader) loadTrees(ctx context.Context, level []pair) (map[string]*tree, error) {
	out := map[string]*tree{"": {}}
	var hashes []string
	for _, p := range level {
		for _, h := range []string{p.before, p.after} {
			if _, ok := out[h]; !ok {
				out[h] = nil
				hashes = append(hashes, h)
			}
		}
	}
	err := r.objects.each(ctx, kindTree, hashes, func(i int, data []byte, err error) error {
		if err == nil {
			out[hashes[i]], err = parseTree(data)
		}
		if err != nil {
			return r.damaged("tree "+hashes[i], err)
		}
		return nil
	})
	return out, err
}

// diffTrees calls fn for every entry that differs; an absent one is zero.
func diffTrees(a, b *tree, fn func(before, after entry)) {
	for i, j := 0, 0; i < a.len() || j < b.len(); {
		switch {
		case i == a.len():
			fn(entry{}, b.at(j))
			j++
		case j == b.len():
			fn(a.at(i), entry{})
			i++
		default:
			if bytes.Equal(a.raw[a.offs[i]:a.end(i)], b.raw[b.offs[j]:b.end(j)]) {
				i++
				j++
				continue
			}
			ea, eb := a.at(i), b.at(j)
			switch c := compareNames(ea.name, ea.isDir(), eb.name, eb.isDir()); {
			case c == 0:
				fn(ea, eb)
				i++
				j++
			case c < 0:
				fn(ea, entry{})
				i++
			default:
				fn(entry{}, eb)
				j++
			}
		}
	}
}
