package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// misname says whether a name looks like a mistyped one of an instance's file: vnf.yml,
// VNF.yaml, vnf.yaml.txt.
func misname(name string) bool {
	low := strings.ToLower(name)
	return name != desired.InstanceFile && (strings.HasPrefix(low, "vnf.yaml") || strings.HasPrefix(low, "vnf.yml"))
}

// readable says whether a file may be meant as an instance's, by its name.
func readable(e git.Entry) bool {
	return e.IsFile() && (misname(e.Name) || strings.HasSuffix(e.Name, ".yaml") || strings.HasSuffix(e.Name, ".yml"))
}

// misnamed returns the slot of a directory that lacks the file of an instance but has another
// file that ought to be it, nil for any other directory. That file has a mistyped name, or it
// says what the former file of the instance said. Where the former file isn't known (c.before
// is ""), any file with the content of an instance makes a slot, which counts only if the
// directory was an instance.
func (r *Reader) misnamed(ctx context.Context, c dirChange, commit string) (*slot, error) {
	files, err := r.candidates(ctx, c)
	if err != nil {
		return nil, r.damaged(c.dir+" at "+commit, err)
	}
	s := &slot{rev: desired.Revision{Dir: c.dir, Commit: commit}}
	for _, f := range files {
		if misname(f.Name) {
			s.problems = []*desired.Problem{misnamedAs(c.dir, f.Name)}
			return s, nil
		}
	}
	var was *desired.Instance
	if c.before != "" {
		if was, err = r.Read(ctx, desired.Revision{Dir: c.dir, Commit: commit, Tree: c.before}); err != nil {
			return nil, nil //nolint:nilerr // it never was an instance
		}
	}
	for _, f := range files {
		data, err := r.objects.Get(ctx, git.KindBlob, f.Hash)
		if errors.Is(err, git.ErrTooLarge) {
			continue
		}
		if err != nil {
			return nil, r.damaged(path.Join(c.dir, f.Name)+" at "+commit, err)
		}
		in, err := desired.ParseInstance(path.Join(c.dir, desired.InstanceFile), data)
		if err != nil || was != nil && in.ID != was.ID && in.VnfdID != was.VnfdID {
			continue
		}
		s.problems, s.stray = []*desired.Problem{misnamedAs(c.dir, f.Name)}, was == nil
		return s, nil
	}
	return nil, nil
}

// wasMisnamed says whether a commit left the directory, whose tree it made, with a file
// that ought to be its instance's.
func (r *Reader) wasMisnamed(ctx context.Context, dir, tree string, c pastCommit) (bool, error) {
	change := dirChange{dir: dir, stray: tree}
	for _, parent := range c.parents {
		root, err := r.rootOf(ctx, parent)
		if err != nil {
			return false, err
		}
		if _, ok, err := r.lookupPath(ctx, root, path.Join(dir, desired.InstanceFile)); err != nil {
			return false, err
		} else if ok {
			e, _, err := r.lookupPath(ctx, root, dir)
			if err != nil {
				return false, err
			}
			change.before = e.Hash
			break
		}
	}
	odd, err := r.misnamed(ctx, change, c.hash)
	return odd != nil, err
}

// candidates returns the files of a directory that is no instance, by their paths in it. It
// looks into folders only where the directory was one.
func (r *Reader) candidates(ctx context.Context, c dirChange) ([]git.Entry, error) {
	var out []git.Entry
	if c.before == "" {
		t, err := r.tree(ctx, c.stray)
		if err != nil {
			return nil, err
		}
		for _, e := range t.Entries() {
			if e.IsFile() {
				out = append(out, e)
			}
		}
		return out, nil
	}
	all, err := r.listFiles(ctx, c.stray)
	if errors.Is(err, git.ErrMissing) {
		return nil, err
	}
	if err != nil {
		return nil, nil //nolint:nilerr // a folder of many instances by now
	}
	nested := map[string]bool{}
	for _, f := range all {
		if path.Base(f.path) == desired.InstanceFile {
			nested[path.Dir(f.path)] = true
		}
	}
	for _, f := range all {
		if f.IsFile() && !nested[path.Dir(f.path)] {
			out = append(out, git.Entry{Mode: f.Mode, Name: f.path, Hash: f.Hash})
		}
	}
	return out, nil
}

func misnamedAs(dir, name string) *desired.Problem {
	file := path.Join(dir, name)
	return &desired.Problem{
		File:    file,
		Message: fmt.Sprintf("would be an instance's file, which is called %s: under this name it is never read", desired.InstanceFile),
		Remedy:  fmt.Sprintf("git mv %s %s; to terminate the instance, remove its directory", file, path.Join(dir, desired.InstanceFile)),
	}
}
