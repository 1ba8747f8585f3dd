package gitrepo

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// linked is a symbolic link or a submodule in a folder that may hold instances.
type linked struct {
	git.Entry
	fresh bool // whether it comes or changes
}

// isLink reports whether an entry leads elsewhere: Jibe follows neither symbolic links nor submodules.
func isLink(e git.Entry) bool { return e.Mode == git.ModeSymlink || e.Mode == git.ModeSubmodule }

// links returns those entries of a tree that are links; before is the tree that it had been.
func links(before, after *git.Tree) []linked {
	var out []linked
	for i := range after.Len() {
		if !after.IsLink(i) {
			continue
		}
		e := after.At(i)
		was, ok := before.Find(e.Name)
		out = append(out, linked{e, !ok || was != e})
	}
	return out
}

// linkProblem is the problem of a link. Nothing else is held for it: what it leads to is never read.
func linkProblem(file string, e git.Entry) *desired.Problem {
	p := &desired.Problem{File: file, Message: "is a symbolic link, which is never followed", Remedy: "commit the files themselves in its place, or remove it"}
	if e.Mode == git.ModeSubmodule {
		p.Message = "is a submodule, whose files aren't in this repository: nothing in it is read"
	}
	return p
}

// linkProblems are those of links in a folder.
func linkProblems(dir string, in []linked) []*desired.Problem {
	var out []*desired.Problem
	for _, l := range in {
		out = append(out, linkProblem(path.Join(dir, l.Name), l.Entry))
	}
	return out
}

// addUnnamed adds those of the more problems whose file has none yet.
func addUnnamed(problems, more []*desired.Problem) []*desired.Problem {
	named := map[string]bool{}
	for _, p := range problems {
		named[p.File] = true
	}
	for _, p := range more {
		if !named[p.File] {
			problems = append(problems, p)
			named[p.File] = true
		}
	}
	return problems
}

// freshLinks are the links that come or change in folders of instances.
func freshLinks(dirs []dirChange) []*desired.Problem {
	var out []*desired.Problem
	for _, d := range dirs {
		for _, l := range d.links {
			if l.fresh {
				out = append(out, linkProblem(path.Join(d.dir, l.Name), l.Entry))
			}
		}
	}
	return out
}

// checkLinks refuses links that come or change in the other folders that Jibe reads, and in the place of its files.
func (r *Reader) checkLinks(ctx context.Context, oldRoot, newRoot string) ([]*desired.Problem, error) {
	var out []*desired.Problem
	for _, name := range append(rootSettings(), desired.MaintenanceFile, desired.VIMDir, desired.ProjectDir, desired.RolloutDir) {
		was, _, err := r.lookupPath(ctx, oldRoot, name)
		if err != nil {
			return nil, err
		}
		now, ok, err := r.lookupPath(ctx, newRoot, name)
		if err != nil {
			return nil, err
		}
		switch {
		case !ok || was == now:
		case isLink(now):
			out = append(out, linkProblem(name, now))
		case now.IsDir():
			below, err := r.linksBelow(ctx, name, pair{was.Hash, now.Hash}, was.IsDir())
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
func (r *Reader) linksBelow(ctx context.Context, dir string, top pair, wasDir bool) ([]*desired.Problem, error) {
	if !wasDir {
		top.before = ""
	}
	type folder struct {
		pair
		path string
	}
	var out []*desired.Problem
	seen := map[pair]bool{}
	for todo := []folder{{top, dir}}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if seen[at.pair] || strings.Count(at.path, "/") > maxDepth {
			continue
		}
		seen[at.pair] = true
		if len(seen) > maxDirs {
			return nil, tooMany(dir, maxDirs)
		}

		trees, err := r.loadTrees(ctx, []pair{at.pair})
		if err != nil {
			return nil, err
		}
		git.DiffTrees(trees[at.before], trees[at.after], func(b, a git.Entry) {
			name := path.Join(at.path, a.Name)
			switch {
			case isLink(a):
				out = append(out, linkProblem(name, a))
			case a.IsDir() && b.IsDir():
				todo = append(todo, folder{pair{b.Hash, a.Hash}, name})
			case a.IsDir():
				todo = append(todo, folder{pair{"", a.Hash}, name})
			}
		})
	}
	return out, nil
}

// maxDirs bounds the folders beside instances/ that are looked through for links.
const maxDirs = 10_000

// notSettings returns what stands in the place of a file or a folder of settings below a root tree and is none, by its name.
func (r *Reader) notSettings(ctx context.Context, root string) (map[string]*desired.Problem, error) {
	out := map[string]*desired.Problem{}
	for _, file := range rootSettings() {
		if e, ok, err := r.lookupPath(ctx, root, file); err != nil {
			return nil, r.damaged(file, err)
		} else if ok && !e.IsFile() {
			out[file] = notAFile(file, e)
		}
	}
	for _, dir := range settingsDirs() {
		if e, ok, err := r.lookupPath(ctx, root, dir); err != nil {
			return nil, r.damaged(dir, err)
		} else if ok && !e.IsDir() {
			out[dir] = notAFolder(dir)
		}
		entries, err := r.settingsIn(ctx, root, dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name); !e.IsFile() && desired.IsSettings(name) {
				out[name] = notAFile(name, e)
			}
		}
	}
	return out, nil
}

// freshNotSettings are those problems of a root tree that another one hadn't.
func (r *Reader) freshNotSettings(ctx context.Context, oldRoot, newRoot string) ([]*desired.Problem, error) {
	was, err := r.notSettings(ctx, oldRoot)
	if err != nil {
		return nil, err
	}
	now, err := r.notSettings(ctx, newRoot)
	if err != nil {
		return nil, err
	}
	var out []*desired.Problem
	for _, name := range sortedKeys(now) {
		if was[name] == nil || was[name].Message != now[name].Message {
			out = append(out, now[name])
		}
	}
	return out, nil
}

// replacedSetting reports whether something that is no file of settings stands in the place of one, or of its folder.
func replacedSetting(not map[string]*desired.Problem, name string) bool {
	return not[name] != nil || slices.Contains(settingsDirs(), path.Dir(name)) && not[path.Dir(name)] != nil
}
