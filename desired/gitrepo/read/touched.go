package read

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Touched is where two commits of the desired repository differ, whoever made the commits
// between them: what the pusher must have a right to.
type Touched struct {
	// Outside are paths of which no instance is made: files and folders beside instances/ and
	// files right in it. Below a folder at the top only one more level is told apart, and of
	// very many not all are named.
	Outside []string `json:"outside,omitempty"`
	// Dirs are the directories of instances that differ in anything, before or after, and
	// those directories below instances/ that have other files which differ.
	Dirs []string `json:"dirs,omitempty"`
	// Anytime are the files of rollouts among Outside that pass maintenance windows as the change
	// leaves them ([desired.RolloutFailures]).
	Anytime []string `json:"anytime,omitempty"`
}

// Rollouts returns the files of rollouts among what an update has touched, as a commit has them.
func (r *Reader) Rollouts(ctx context.Context, commit string, t *Touched) (map[string]string, error) {
	if !slices.ContainsFunc(t.Outside, desired.IsRolloutFile) {
		return nil, nil
	}
	root, err := r.RootOf(ctx, commit)
	if err != nil {
		return nil, objects.NotFound(err)
	}
	files, err := r.RolloutFiles(ctx, root)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range t.Outside {
		hash, there := files[name]
		if !there || !desired.IsRolloutFile(name) {
			continue
		}
		data, err := r.Content(ctx, hash)
		if err != nil {
			return nil, err
		}
		out[name] = string(data)
	}
	return out, nil
}

// maxOutside is how many paths outside of instances/ are named: one suffices to need the right
// to all of them.
const maxOutside = 1000

// Touched compares two commits; old "" is none. More directories than one push may change are
// an error.
func (r *Reader) Touched(ctx context.Context, old, now string) (*Touched, error) {
	oldRoot, err := r.RootOf(ctx, old)
	if err != nil {
		return nil, err
	}
	newRoot, err := r.RootOf(ctx, now)
	if err != nil {
		return nil, err
	}
	t := &Touched{}
	if err := r.touchedOutside(ctx, Pair{oldRoot, newRoot}, "", t); err != nil {
		return nil, err
	}
	if err := r.touchedAnytime(ctx, newRoot, t); err != nil {
		return nil, err
	}
	oldTop, err := r.instancesTree(ctx, oldRoot)
	if err != nil {
		return nil, err
	}
	newTop, err := r.instancesTree(ctx, newRoot)
	if err != nil || oldTop == newTop {
		return t, err
	}
	top := Pair{oldTop, newTop}
	nodes, err := r.readPairs(ctx, top, MaxChanged)
	if err != nil {
		return nil, err
	}
	if nodes[top].loose {
		t.Outside = append(t.Outside, InstancesDir)
	}
	return t, nodes.touched(top, InstancesDir, 0, t)
}

// touchedAnytime reads the files of rollouts that differ. One that can't be parsed is refused elsewhere.
func (r *Reader) touchedAnytime(ctx context.Context, root string, t *Touched) error {
	if !slices.ContainsFunc(t.Outside, func(name string) bool { return strings.HasPrefix(name, desired.RolloutDir+"/") }) {
		return nil
	}
	files, err := r.RolloutFiles(ctx, root)
	if err != nil {
		return err
	}
	for _, name := range t.Outside {
		hash, there := files[name]
		if !there || !desired.IsRolloutFile(name) {
			continue
		}
		data, err := r.Content(ctx, hash)
		if err != nil {
			return err
		}
		if ro, err := desired.ParseRollout(name, data); err == nil && ro.Failures.RollbackAnytime {
			t.Anytime = append(t.Anytime, name)
		}
	}
	return nil
}

// touchedOutside names what differs between two trees outside of instances/. dir is "" for the
// root, and else a folder there.
func (r *Reader) touchedOutside(ctx context.Context, p Pair, dir string, t *Touched) error {
	if p.Before == p.After {
		return nil
	}
	trees, err := r.LoadTrees(ctx, []Pair{p})
	if err != nil {
		return err
	}
	folders := map[string]Pair{}
	git.DiffTrees(trees[p.Before], trees[p.After], func(before, after git.Entry) {
		name := before.Name
		if name == "" {
			name = after.Name
		}
		at := path.Join(dir, name)
		folder := (before.Name == "" || before.IsDir()) && (after.Name == "" || after.IsDir())
		switch {
		case folder && at == InstancesDir: // told apart below
		case folder && dir == "":
			folders[name] = Pair{before.Hash, after.Hash}
		case len(t.Outside) < maxOutside:
			t.Outside = append(t.Outside, at)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		named := len(t.Outside)
		if err := r.touchedOutside(ctx, folders[name], name, t); err != nil {
			return err
		}
		if len(t.Outside) == named { // an empty folder, or one too many
			t.Outside = append(t.Outside, name)
		}
	}
	return nil
}

// touched adds the directories at and below a pair that stands in dir. Every pair that differs
// leads to one at least. A folder that is nested too deep stands for all that is below it.
func (ns pairNodes) touched(p Pair, dir string, depth int, t *Touched) error {
	n := ns[p]
	if depth > objects.MaxDepth {
		n = &pairNode{}
	}
	if depth > 0 && (n.before || n.after || n.loose || len(n.subs) == 0) {
		if len(t.Dirs) == MaxChanged {
			return TooMany(InstancesDir, MaxChanged)
		}
		t.Dirs = append(t.Dirs, dir)
	}
	for _, s := range n.subs {
		if err := ns.touched(s.Pair, path.Join(dir, s.Name), depth+1, t); err != nil {
			return err
		}
	}
	return nil
}

// RolloutFiles returns the hashes of the files of rollouts and of their states below a root tree, by path.
func (r *Reader) RolloutFiles(ctx context.Context, root string) (map[string]string, error) {
	out := map[string]string{}
	for _, dir := range []string{desired.RolloutDir, desired.RolloutStateDir} {
		entries, err := r.settingsIn(ctx, root, dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsFile() {
				out[path.Join(dir, e.Name)] = e.Hash
			}
		}
	}
	return out, nil
}

// Content is that of the file with the hash.
func (r *Reader) Content(ctx context.Context, hash string) ([]byte, error) {
	data, err := r.Objects.Get(ctx, git.KindBlob, hash)
	if err != nil {
		return nil, objects.NotFound(r.Damaged("file "+hash, err))
	}
	return data, nil
}

// RolloutsChanged returns the names of the rollouts whose files one commit has otherwise than another, in
// order; before "" has none. Those that are gone, or that it aborts, aren't named.
func (r *Reader) RolloutsChanged(ctx context.Context, before, after string) (names []string, err error) {
	t := &Touched{}
	p := Pair{}
	if p.Before, err = r.RootOf(ctx, before); err == nil {
		p.After, err = r.RootOf(ctx, after)
	}
	if err == nil {
		err = r.touchedOutside(ctx, p, "", t)
	}
	if err != nil {
		return nil, objects.NotFound(err)
	}
	files, err := r.Rollouts(ctx, after, t)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if ro, err := desired.ParseRollout(file, []byte(files[file])); err == nil && ro.State == desired.RolloutAborted {
			continue
		}
		names = append(names, strings.TrimSuffix(path.Base(file), ".yaml"))
	}
	return names, err
}
