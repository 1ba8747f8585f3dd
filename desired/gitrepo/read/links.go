package read

import (
	"context"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// linked is a symbolic link or a submodule in a folder that may hold instances.
type linked struct {
	git.Entry
	Fresh bool // whether it comes or changes
}

// IsLink reports whether an entry leads elsewhere: Jibe follows neither symbolic links nor submodules.
func IsLink(e git.Entry) bool { return e.Mode == git.ModeSymlink || e.Mode == git.ModeSubmodule }

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

// LinkProblem is the problem of a link. Nothing else is held for it: what it leads to is never read.
func LinkProblem(file string, e git.Entry) *desired.Problem {
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
		out = append(out, LinkProblem(path.Join(dir, l.Name), l.Entry))
	}
	return out
}

// AddUnnamed adds those of the more problems whose file has none yet.
func AddUnnamed(problems, more []*desired.Problem) []*desired.Problem {
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

// NotSettings returns what stands in the place of a file or a folder of settings below a root tree and is none, by its name.
func (r *Reader) NotSettings(ctx context.Context, root string) (map[string]*desired.Problem, error) {
	out := map[string]*desired.Problem{}
	for _, file := range RootSettings() {
		if e, ok, err := r.LookupPath(ctx, root, file); err != nil {
			return nil, r.Damaged(file, err)
		} else if ok && !e.IsFile() {
			out[file] = NotAFile(file, e)
		}
	}
	for _, dir := range SettingsDirs() {
		if e, ok, err := r.LookupPath(ctx, root, dir); err != nil {
			return nil, r.Damaged(dir, err)
		} else if ok && !e.IsDir() {
			out[dir] = NotAFolder(dir)
		}
		entries, err := r.settingsIn(ctx, root, dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name); !e.IsFile() && desired.IsSettings(name) {
				out[name] = NotAFile(name, e)
			}
		}
	}
	return out, nil
}

// replacedSetting reports whether something that is no file of settings stands in the place of one, or of its folder.
func replacedSetting(not map[string]*desired.Problem, name string) bool {
	return not[name] != nil || slices.Contains(SettingsDirs(), path.Dir(name)) && not[path.Dir(name)] != nil
}

// NotAFolder is the problem of an entry where a folder is expected.
func NotAFolder(name string) *desired.Problem {
	return &desired.Problem{File: name, Message: "is not a folder", Remedy: "commit a plain folder"}
}

// InsideOther is what is wrong with a file that would make an instance inside dir's.
func InsideOther(dir, name string) *desired.Problem {
	return &desired.Problem{File: path.Join(dir, name), Message: "an instance inside the directory of another is never read", Remedy: "move it out of " + dir}
}
