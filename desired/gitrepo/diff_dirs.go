package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// dirChange is an instance's directory that differs between two root trees.
type dirChange struct {
	dir           string
	before, after string    // tree hashes, "" where it is no instance
	file          git.Entry // vnf.yaml after
	stray         string    // tree hash after where it is no instance, and files in it differ
	deep          bool      // whether it is a folder that is nested too deep to be read
	clashes       bool      // whether a folder of its path is spelled like another one, see clash
	links         []linked  // in it after, where it is an instance or they differ
}

// pair is one folder in two trees; "" where it is absent or not looked into.
type pair struct{ before, after string }

// pairNode is what differs at and below a pair, wherever it stands.
type pairNode struct {
	before, after bool      // whether it is an instance's directory
	file          git.Entry // vnf.yaml after
	files         bool      // a file that could be meant as an instance's differs
	links         []linked  // after, where it is an instance or they differ
	unlinked      bool      // links differ, and it is no instance after
	loose         bool      // an entry that is no folder differs and is in no instance's directory
	subs          []namedPair
	clashes       map[string][]string // names after that are spelled like another one, see clash
	// sums count what differs, for each depth at which the pair stands: nearly always one.
	sums []pairSum
}

// pairSum counts what differs at and below a pair that stands at a depth.
type pairSum struct {
	depth int
	many  int // instances' directories, and folders that are nested too deep
	deep  int // the latter that come or change
}

// sum returns the sum of the pair at a depth, and whether it was counted.
func (n *pairNode) sum(depth int) (pairSum, bool) {
	for _, s := range n.sums {
		if s.depth == depth {
			return s, true
		}
	}
	return pairSum{depth: depth}, false
}

type namedPair struct {
	name string
	pair
}

// maxChanged bounds the instances' directories that may differ in what is about to be
// accepted. A few kilobytes of trees that name each other can unfold to billions.
const maxChanged = 1_000_000

// maxDeep bounds the folders nested too deep that may come with one change: each is named.
const maxDeep = 100

// errUnfolds is returned for a change of more directories than a reader should walk.
var errUnfolds = errors.New("unfolds to too much")

// diffDirs finds the instances' directories that differ between two root trees, in the order
// of their paths. It reads only trees that differ, each once, however often it stands there.
// It unfolds them into directories only where instances are, and only after it knows how many.
// limit bounds their number. 0 is no bound, for commits that the branch has already: the bound
// was applied when they came. A folder that is nested too deep is one of them, and isn't looked into.
func (r *Reader) diffDirs(ctx context.Context, oldRoot, newRoot string, limit int) ([]dirChange, error) {
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
	if limit <= 0 {
		limit = math.MaxInt
	}
	top := pair{oldTop, newTop}
	nodes, err := r.readPairs(ctx, top, limit)
	if err != nil {
		return nil, err
	}
	sum, err := nodes.count(top, instancesDir, 0, limit)
	if err != nil {
		return nil, err
	}
	return nodes.unfold(top, dirChange{dir: instancesDir}, 0, make([]dirChange, 0, sum.many)), nil
}

// counts says whether the directory itself is one of those that differ.
func (n *pairNode) counts() bool { return n.before || n.after || n.files || n.unlinked }

type pairNodes map[pair]*pairNode

// readPairs reads the pairs that differ at and below top, level by level, each once.
func (r *Reader) readPairs(ctx context.Context, top pair, limit int) (pairNodes, error) {
	nodes := pairNodes{top: {}}
	for level, depth := []pair{top}, 0; len(level) > 0 && depth <= maxDepth; depth++ {
		trees, err := r.loadTrees(ctx, level)
		if err != nil {
			return nil, err
		}
		var next []pair
		for _, p := range level {
			n, before, after := nodes[p], trees[p.before], trees[p.after]
			n.links = links(before, after)
			if depth > 0 { // instances/ itself is never an instance
				if _, ok := before.Find(desired.InstanceFile); ok {
					n.before, before = true, &git.Tree{}
				}
				if f, ok := after.Find(desired.InstanceFile); ok {
					n.after, n.file, after = true, f, &git.Tree{}
				}
			}
			n.clashes = spelledAlike(after)
			git.DiffTrees(before, after, func(b, a git.Entry) {
				n.files = n.files || depth > 0 && (readable(b) || readable(a))
				n.unlinked = n.unlinked || isLink(b) || isLink(a)
				n.loose = n.loose || b.Name != "" && !b.IsDir() || a.Name != "" && !a.IsDir()
				var sub namedPair
				if b.IsDir() {
					sub.before, sub.name = b.Hash, b.Name
				}
				if a.IsDir() {
					sub.after, sub.name = a.Hash, a.Name
				}
				if sub.before == sub.after {
					return
				}
				n.subs = append(n.subs, sub)
				if nodes[sub.pair] == nil {
					nodes[sub.pair] = &pairNode{}
					next = append(next, sub.pair)
				}
			})
			if len(nodes) > limit {
				return nil, tooMany(instancesDir, limit)
			}
		}
		level = next
	}
	return nodes, nil
}

// count adds up what is at and below a pair that stands in dir.
func (ns pairNodes) count(p pair, dir string, depth, limit int) (pairSum, error) {
	n := ns[p]
	sum, counted := n.sum(depth)
	if counted {
		return sum, nil
	}
	if depth > maxDepth {
		sum.many = 1
		if p.after != "" {
			sum.deep = 1
		}
		n.sums = append(n.sums, sum)
		return sum, nil
	}

	if n.counts() {
		sum.many = 1
	}
	for _, s := range n.subs {
		below, err := ns.count(s.pair, path.Join(dir, s.name), depth+1, limit)
		if err != nil {
			return sum, err
		}
		if below.many > limit-sum.many {
			return sum, tooMany(dir, limit)
		}
		sum.many, sum.deep = sum.many+below.many, sum.deep+below.deep
		if sum.deep > maxDeep && limit != math.MaxInt {
			return sum, tooDeep(dir)
		}
	}
	n.sums = append(n.sums, sum)
	return sum, nil
}

// unfold lists what is at and below a pair that stands in a folder, of which at has the path and its clashes.
func (ns pairNodes) unfold(p pair, at dirChange, depth int, out []dirChange) []dirChange {
	n := ns[p]
	if depth > maxDepth {
		return append(out, dirChange{dir: at.dir, deep: p.after != ""})
	}
	if n.counts() {
		c := at
		c.file, c.links = n.file, n.links
		if n.before {
			c.before = p.before
		}
		if n.after {
			c.after = p.after
		} else {
			c.stray = p.after
		}
		out = append(out, c)
	}
	for _, s := range n.subs {
		if below, _ := ns[s.pair].sum(depth + 1); below.many > 0 {
			out = ns.unfold(s.pair, dirChange{dir: path.Join(at.dir, s.name), clashes: at.clashes || n.clashes[s.name] != nil}, depth+1, out)
		}
	}
	return out
}

// isTooDeep reports whether the folder below instances/ is nested too deep to be read.
func isTooDeep(dir string) bool { return strings.Count(dir, "/") > maxDepth }

// nestedTooDeep is the problem of a folder that isn't read.
func nestedTooDeep(dir string) *desired.Problem {
	return &desired.Problem{File: dir,
		Message: fmt.Sprintf("is nested more than %d deep: no instance in it or below is read", maxDepth),
		Remedy:  "move what is in it up, or remove the folder"}
}

func tooMany(dir string, limit int) error {
	return fmt.Errorf("%s/ %w: more than %d directories of instances differ", dir, errUnfolds, limit)
}

func tooDeep(dir string) error {
	return fmt.Errorf("%s: %w: directories are nested more than %d deep", dir, errUnfolds, maxDepth)
}

func (r *Reader) instancesTree(ctx context.Context, root string) (string, error) {
	e, ok, err := r.lookupPath(ctx, root, instancesDir)
	if err != nil {
		return "", r.damaged("root tree "+root, err)
	}
	if !ok || !e.IsDir() {
		return "", nil
	}
	return e.Hash, nil
}

// manyTrees is how many trees of one level are read without keeping them, and by several
// children of git at once.
const manyTrees = 8192

// loadTrees decodes the trees on both sides of a level in one exchange with git.
func (r *Reader) loadTrees(ctx context.Context, level []pair) (map[string]*git.Tree, error) {
	out := make(map[string]*git.Tree, len(level)+1)
	out[""] = &git.Tree{}
	var hashes []string
	for _, p := range level {
		for _, h := range []string{p.before, p.after} {
			if _, ok := out[h]; !ok {
				out[h] = nil
				hashes = append(hashes, h)
			}
		}
	}
	trees, read, chunk := make([]*git.Tree, len(hashes)), r.objects.Each, max(1, len(hashes))
	if len(hashes) > manyTrees {
		read, chunk = r.objects.Scan, manyTrees/4
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(hashes); from += chunk {
		g.Go(func() error {
			return read(ctx, git.KindTree, hashes[from:min(from+chunk, len(hashes))], func(i int, data []byte, err error) error {
				if err == nil {
					trees[from+i], err = git.ParseTree(data)
				}
				if err != nil {
					return r.damaged("tree "+hashes[from+i], err)
				}
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, h := range hashes {
		out[h] = trees[i]
	}
	return out, nil
}
