package read

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
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// DirChange is an instance's directory that differs between two root trees.
type DirChange struct {
	Dir           string
	Before, After string    // tree hashes, "" where it is no instance
	File          git.Entry // vnf.yaml after
	stray         string    // tree hash after where it is no instance, and files in it differ
	Deep          bool      // whether it is a folder that is nested too deep to be read
	Clashes       bool      // whether a folder of its path is spelled like another one, see clash
	Links         []linked  // in it after, where it is an instance or they differ
}

// Pair is one folder in two trees; "" where it is absent or not looked into.
type Pair struct{ Before, After string }

// pairNode is what differs at and below a pair, wherever it stands.
type pairNode struct {
	before, after bool      // whether it is an instance's directory
	file          git.Entry // vnf.yaml after
	files         bool      // a file that could be meant as an instance's differs
	links         []linked  // after, where it is an instance or they differ
	unlinked      bool      // links differ, and it is no instance after
	loose         bool      // an entry that is no folder differs and is in no instance's directory
	subs          []NamedPair
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

// NamedPair is an entry of two trees with its name.
type NamedPair struct {
	Name string
	Pair
}

// MaxChanged bounds the instances' directories that may differ in what is about to be
// accepted. A few kilobytes of trees that name each other can unfold to billions.
const MaxChanged = 1_000_000

// MaxDeep bounds the folders nested too deep that may come with one change: each is named.
const MaxDeep = 100

// ErrUnfolds is returned for a change of more directories than a reader should walk.
var ErrUnfolds = errors.New("unfolds to too much")

// DiffDirs finds the instances' directories that differ between two root trees, in the order
// of their paths. It reads only trees that differ, each once, however often it stands there.
// It unfolds them into directories only where instances are, and only after it knows how many.
// limit bounds their number. 0 is no bound, for commits that the branch has already: the bound
// was applied when they came. A folder that is nested too deep is one of them, and isn't looked into.
func (r *Reader) DiffDirs(ctx context.Context, oldRoot, newRoot string, limit int) ([]DirChange, error) {
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
	top := Pair{oldTop, newTop}
	nodes, err := r.readPairs(ctx, top, limit)
	if err != nil {
		return nil, err
	}
	sum, err := nodes.count(top, InstancesDir, 0, limit)
	if err != nil {
		return nil, err
	}
	return nodes.unfold(top, DirChange{Dir: InstancesDir}, 0, make([]DirChange, 0, sum.many)), nil
}

// counts says whether the directory itself is one of those that differ.
func (n *pairNode) counts() bool { return n.before || n.after || n.files || n.unlinked }

type pairNodes map[Pair]*pairNode

// readPairs reads the pairs that differ at and below top, level by level, each once.
func (r *Reader) readPairs(ctx context.Context, top Pair, limit int) (pairNodes, error) {
	nodes := pairNodes{top: {}}
	for level, depth := []Pair{top}, 0; len(level) > 0 && depth <= objects.MaxDepth; depth++ {
		trees, err := r.LoadTrees(ctx, level)
		if err != nil {
			return nil, err
		}
		var next []Pair
		for _, p := range level {
			n, before, after := nodes[p], trees[p.Before], trees[p.After]
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
				n.unlinked = n.unlinked || IsLink(b) || IsLink(a)
				n.loose = n.loose || b.Name != "" && !b.IsDir() || a.Name != "" && !a.IsDir()
				var sub NamedPair
				if b.IsDir() {
					sub.Before, sub.Name = b.Hash, b.Name
				}
				if a.IsDir() {
					sub.After, sub.Name = a.Hash, a.Name
				}
				if sub.Before == sub.After {
					return
				}
				n.subs = append(n.subs, sub)
				if nodes[sub.Pair] == nil {
					nodes[sub.Pair] = &pairNode{}
					next = append(next, sub.Pair)
				}
			})
			if len(nodes) > limit {
				return nil, TooMany(InstancesDir, limit)
			}
		}
		level = next
	}
	return nodes, nil
}

// count adds up what is at and below a pair that stands in dir.
func (ns pairNodes) count(p Pair, dir string, depth, limit int) (pairSum, error) {
	n := ns[p]
	sum, counted := n.sum(depth)
	if counted {
		return sum, nil
	}
	if depth > objects.MaxDepth {
		sum.many = 1
		if p.After != "" {
			sum.deep = 1
		}
		n.sums = append(n.sums, sum)
		return sum, nil
	}

	if n.counts() {
		sum.many = 1
	}
	for _, s := range n.subs {
		below, err := ns.count(s.Pair, path.Join(dir, s.Name), depth+1, limit)
		if err != nil {
			return sum, err
		}
		if below.many > limit-sum.many {
			return sum, TooMany(dir, limit)
		}
		sum.many, sum.deep = sum.many+below.many, sum.deep+below.deep
		if sum.deep > MaxDeep && limit != math.MaxInt {
			return sum, TooDeep(dir)
		}
	}
	n.sums = append(n.sums, sum)
	return sum, nil
}

// unfold lists what is at and below a pair that stands in a folder, of which at has the path and its clashes.
func (ns pairNodes) unfold(p Pair, at DirChange, depth int, out []DirChange) []DirChange {
	n := ns[p]
	if depth > objects.MaxDepth {
		return append(out, DirChange{Dir: at.Dir, Deep: p.After != ""})
	}
	if n.counts() {
		c := at
		c.File, c.Links = n.file, n.links
		if n.before {
			c.Before = p.Before
		}
		if n.after {
			c.After = p.After
		} else {
			c.stray = p.After
		}
		out = append(out, c)
	}
	for _, s := range n.subs {
		if below, _ := ns[s.Pair].sum(depth + 1); below.many > 0 {
			out = ns.unfold(s.Pair, DirChange{Dir: path.Join(at.Dir, s.Name), Clashes: at.Clashes || n.clashes[s.Name] != nil}, depth+1, out)
		}
	}
	return out
}

// IsTooDeep reports whether the folder below instances/ is nested too deep to be read.
func IsTooDeep(dir string) bool { return strings.Count(dir, "/") > objects.MaxDepth }

// nestedTooDeep is the problem of a folder that isn't read.
func nestedTooDeep(dir string) *desired.Problem {
	return &desired.Problem{File: dir,
		Message: fmt.Sprintf("is nested more than %d deep: no instance in it or below is read", objects.MaxDepth),
		Remedy:  "move what is in it up, or remove the folder"}
}

// TooMany is the error of a difference in more directories of instances than the limit.
func TooMany(dir string, limit int) error {
	return fmt.Errorf("%s/ %w: more than %d directories of instances differ", dir, ErrUnfolds, limit)
}

// TooDeep is the error of directories that are nested deeper than [objects.MaxDepth].
func TooDeep(dir string) error {
	return fmt.Errorf("%s: %w: directories are nested more than %d deep", dir, ErrUnfolds, objects.MaxDepth)
}

func (r *Reader) instancesTree(ctx context.Context, root string) (string, error) {
	e, ok, err := r.LookupPath(ctx, root, InstancesDir)
	if err != nil {
		return "", r.Damaged("root tree "+root, err)
	}
	if !ok || !e.IsDir() {
		return "", nil
	}
	return e.Hash, nil
}

// manyTrees is how many trees of one level are read without keeping them, and by several
// children of git at once.
const manyTrees = 8192

// LoadTrees decodes the trees on both sides of a level in one exchange with git.
func (r *Reader) LoadTrees(ctx context.Context, level []Pair) (map[string]*git.Tree, error) {
	out := make(map[string]*git.Tree, len(level)+1)
	out[""] = &git.Tree{}
	var hashes []string
	for _, p := range level {
		for _, h := range []string{p.Before, p.After} {
			if _, ok := out[h]; !ok {
				out[h] = nil
				hashes = append(hashes, h)
			}
		}
	}
	trees, read, chunk := make([]*git.Tree, len(hashes)), r.Objects.Each, max(1, len(hashes))
	if len(hashes) > manyTrees {
		read, chunk = r.Objects.Scan, manyTrees/4
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
					return r.Damaged("tree "+hashes[from+i], err)
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
