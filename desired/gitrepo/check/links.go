package check

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// freshLinks are the links that come or change in folders of instances.
func freshLinks(dirs []read.DirChange) []*desired.Problem {
	var out []*desired.Problem
	for _, d := range dirs {
		for _, l := range d.Links {
			if l.Fresh {
				out = append(out, read.LinkProblem(path.Join(d.Dir, l.Name), l.Entry))
			}
		}
	}
	return out
}

// checkLinks refuses links that come or change in the other folders that Jibe reads, and in the place of its files.
func (r *Checker) checkLinks(ctx context.Context, oldRoot, newRoot string) ([]*desired.Problem, error) {
	var out []*desired.Problem
	for _, name := range append(read.RootSettings(), desired.MaintenanceFile, desired.VIMDir, desired.ProjectDir, desired.RolloutDir) {
		was, _, err := r.LookupPath(ctx, oldRoot, name)
		if err != nil {
			return nil, err
		}
		now, ok, err := r.LookupPath(ctx, newRoot, name)
		if err != nil {
			return nil, err
		}
		switch {
		case !ok || was == now:
		case read.IsLink(now):
			out = append(out, read.LinkProblem(name, now))
		case now.IsDir():
			below, err := r.linksBelow(ctx, name, read.Pair{Before: was.Hash, After: now.Hash}, was.IsDir())
			if err != nil {
				return nil, err
			}
			out = append(out, below...)
		}
	}
	return out, nil
}

// linksBelow are the links that come or change in a folder and in the folders below, each of which is looked into once: trees
// that name each other again and again unfold to too much.
func (r *Checker) linksBelow(ctx context.Context, dir string, top read.Pair, wasDir bool) ([]*desired.Problem, error) {
	if !wasDir {
		top.Before = ""
	}
	type folder struct {
		read.Pair
		path string
	}
	var out []*desired.Problem
	seen := map[read.Pair]bool{}
	for todo := []folder{{top, dir}}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if seen[at.Pair] || strings.Count(at.path, "/") > objects.MaxDepth {
			continue
		}
		seen[at.Pair] = true
		if len(seen) > maxDirs {
			return nil, read.TooMany(dir, maxDirs)
		}

		trees, err := r.LoadTrees(ctx, []read.Pair{at.Pair})
		if err != nil {
			return nil, err
		}
		git.DiffTrees(trees[at.Before], trees[at.After], func(b, a git.Entry) {
			name := path.Join(at.path, a.Name)
			switch {
			case read.IsLink(a):
				out = append(out, read.LinkProblem(name, a))
			case a.IsDir() && b.IsDir():
				todo = append(todo, folder{read.Pair{Before: b.Hash, After: a.Hash}, name})
			case a.IsDir():
				todo = append(todo, folder{read.Pair{After: a.Hash}, name})
			}
		})
	}
	return out, nil
}

// maxDirs bounds the folders beside instances/ that are looked through for links.
const maxDirs = 10_000

// freshNotSettings are those problems of a root tree that another one hadn't.
func (r *Checker) freshNotSettings(ctx context.Context, oldRoot, newRoot string) ([]*desired.Problem, error) {
	was, err := r.NotSettings(ctx, oldRoot)
	if err != nil {
		return nil, err
	}
	now, err := r.NotSettings(ctx, newRoot)
	if err != nil {
		return nil, err
	}
	var out []*desired.Problem
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was[name] == nil || was[name].Message != now[name].Message {
			out = append(out, now[name])
		}
	}
	return out, nil
}
