package gitrepo

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// merger puts what one commit has changed on top of another, without a work tree. A file that only
// one side has changed is that side's. One that both have changed is merged only where Jibe alone has
// changed it on the one side, and key by key; anything else is a conflict, however far apart the
// lines are: a vnf.yaml is one intent.
type merger struct {
	*read.Reader
	// git runs where the commits are: for a draft, in the clone.
	git git.Runner
	// own says whether Jibe made a commit, by its content.
	own func(commit []byte) bool
	// onto is what people call the commit that is merged onto.
	onto string
}

// merged is what a merge has come to: a tree, or conflicts.
type merged struct {
	tree      string
	pack      *git.Pack // the objects that the tree needs beside those of both sides
	conflicts []*desired.Problem
}

// changedTwice is a file that both sides have changed; an entry without a name is none.
type changedTwice struct {
	path               string
	base, ours, theirs git.Entry
}

// merge puts what theirs has changed since it parted from ours on top of ours, a commit each.
func (m *merger) merge(ctx context.Context, ours, theirs string) (*merged, error) {
	base, fork, why, err := m.base(ctx, ours, theirs)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return &merged{conflicts: []*desired.Problem{{File: message.Clip(theirs), Message: why, Remedy: m.rebase()}}}, nil
	}
	oursRoot, err := m.RootOf(ctx, ours)
	if err != nil {
		return nil, err
	}
	theirsRoot, err := m.RootOf(ctx, theirs)
	if err != nil {
		return nil, err
	}
	w := &treeMerge{merger: m, ctx: ctx, pack: git.NewPack()}
	tree, err := w.folder("", base, oursRoot, theirsRoot, 0)
	if err != nil {
		return nil, err
	}
	if len(w.twice) > 0 {
		w.folders = 0
		s := &settling{merger: m, ours: ours, theirs: theirs, fork: fork, theirsRoot: theirsRoot, pack: w.pack}
		if err := s.settle(ctx, w.twice); err != nil || len(s.conflicts) > 0 {
			return &merged{conflicts: s.conflicts}, err
		}
		w.settled, w.twice = s.entries, nil
		if tree, err = w.folder("", base, oursRoot, theirsRoot, 0); err != nil {
			return nil, err
		}
	}
	return &merged{tree: tree, pack: w.pack}, nil
}

func (m *merger) rebase() string {
	return "git pull --rebase origin refs/heads/" + m.onto + ", settle it there, then push again"
}

// base is the tree that two commits have in common, and a commit from which they have parted. Where
// they were merged crosswise there are two such commits, and what they have in common is their merge.
// why says why there is none.
func (m *merger) base(ctx context.Context, ours, theirs string) (tree, fork, why string, err error) {
	out, err := m.git.Run(ctx, "merge-base", "--all", ours, theirs)
	if git.ExitCode(err) == 1 {
		return "", "", "has no commit in common with " + m.onto, nil
	}
	if err != nil {
		return "", "", "", fmt.Errorf("%w: what %s and %s have in common: %w", desired.ErrUnavailable, ours, theirs, err)
	}
	bases := strings.Fields(out)
	switch len(bases) {
	case 1:
		tree, err = m.RootOf(ctx, bases[0])
		return tree, bases[0], "", err
	case 2:
		out, err := m.git.Run(ctx, "merge-tree", "--write-tree", "--no-messages", bases[0], bases[1])
		if err == nil {
			return strings.TrimSpace(out), bases[0], "", nil
		}
		if ctx.Err() != nil {
			return "", "", "", err
		}
	}
	return "", "", "was merged with " + m.onto + " crosswise, so that nobody can say what it has changed", nil
}

// treeMerge merges trees. settled are the files that both sides have changed; those that aren't
// among them are collected, and stay ours.
type treeMerge struct {
	*merger
	ctx     context.Context
	pack    *git.Pack
	settled map[string]git.Entry
	twice   []changedTwice
	folders int // that both sides have made different, so far
}

// folder merges three versions of a folder, by the hashes of their trees, "" for none, and returns
// the hash of the merged one. It goes into what all sides have made different alone, so that what a
// hostile tree unfolds to is never walked.
func (w *treeMerge) folder(dir, base, ours, theirs string, depth int) (string, error) {
	if depth > objects.MaxDepth {
		return "", read.TooDeep(dir)
	}
	if w.folders++; w.folders > read.MaxChanged {
		return "", fmt.Errorf("%s: %w: more than %d folders were changed on both sides", dir, read.ErrUnfolds, read.MaxChanged)
	}
	var trees [3]*git.Tree
	for i, hash := range []string{base, ours, theirs} {
		t, err := w.Tree(w.ctx, hash)
		if err != nil {
			return "", w.Damaged(dir+" (tree "+hash+")", err)
		}
		trees[i] = t
	}
	b, o, t := trees[0], trees[1], trees[2]
	entries := map[string]git.Entry{}
	for _, e := range o.Entries() {
		entries[e.Name] = e
	}
	put := func(name string, e git.Entry) {
		if delete(entries, name); e.Hash != "" {
			e.Name = name
			entries[name] = e
		}
	}
	changed := map[string]bool{}
	git.DiffTrees(b, t, func(before, after git.Entry) { changed[before.Name], changed[after.Name] = true, true })
	delete(changed, "")
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		at := path.Join(dir, name)
		be, _ := b.Find(name)
		oe, _ := o.Find(name)
		te, _ := t.Find(name)
		switch {
		case oe == be:
			put(name, te)
		case oe == te:
		case folderOrNone(be) && folderOrNone(oe) && folderOrNone(te):
			hash, err := w.folder(at, be.Hash, oe.Hash, te.Hash, depth+1)
			if err != nil {
				return "", err
			}
			put(name, git.Entry{Mode: git.ModeDir, Hash: hash})
		default:
			if e, ok := w.settled[at]; ok {
				put(name, e)
			} else {
				w.twice = append(w.twice, changedTwice{at, be, oe, te})
			}
		}
	}
	// What was granted to an instance goes with it.
	_, was := b.Find(desired.InstanceFile)
	_, is := t.Find(desired.InstanceFile)
	if _, granted := b.Find(desired.GrantedFile); was && !is && !granted {
		put(desired.GrantedFile, git.Entry{})
	}
	if len(entries) == 0 && dir != "" {
		return "", nil // git has no empty folders
	}
	list := make([]git.Entry, 0, len(entries))
	for _, e := range entries {
		list = append(list, e)
	}
	data := git.EncodeTree(list)
	if hash := git.HashObject(git.KindTree, data); hash == ours || hash == theirs {
		return hash, nil
	}
	return w.pack.Add(git.KindTree, data), nil
}

func folderOrNone(e git.Entry) bool { return e.Hash == "" || e.IsDir() }
