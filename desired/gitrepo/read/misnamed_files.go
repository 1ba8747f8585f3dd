package read

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
func (r *Reader) misnamed(ctx context.Context, c DirChange, commit string) (*Slot, error) {
	files, err := r.candidates(ctx, c)
	if err != nil {
		return nil, r.Damaged(c.Dir+" at "+commit, err)
	}
	s := &Slot{Rev: desired.Revision{Dir: c.Dir, Commit: commit}}
	for _, f := range files {
		if misname(f.Name) {
			s.Problems = []*desired.Problem{misnamedAs(c.Dir, f.Name)}
			return s, nil
		}
	}
	var was *desired.Instance
	if c.Before != "" {
		if was, err = r.Read(ctx, desired.Revision{Dir: c.Dir, Commit: commit, Tree: c.Before}); err != nil {
			return nil, nil //nolint:nilerr // it never was an instance
		}
	}
	for _, f := range files {
		data, err := r.Objects.Get(ctx, git.KindBlob, f.Hash)
		if errors.Is(err, git.ErrTooLarge) {
			continue
		}
		if err != nil {
			return nil, r.Damaged(path.Join(c.Dir, f.Name)+" at "+commit, err)
		}
		in, err := desired.ParseInstance(path.Join(c.Dir, desired.InstanceFile), data)
		if err != nil || was != nil && in.ID != was.ID && in.VnfdID != was.VnfdID {
			continue
		}
		s.Problems, s.Stray = []*desired.Problem{misnamedAs(c.Dir, f.Name)}, was == nil
		return s, nil
	}
	return nil, nil
}

// WasMisnamed reports whether a commit left the directory, whose tree it made, with a file
// that ought to be its instance's.
func (r *Reader) WasMisnamed(ctx context.Context, dir, tree string, c PastCommit) (bool, error) {
	change := DirChange{Dir: dir, stray: tree}
	for _, parent := range c.Parents {
		root, err := r.RootOf(ctx, parent)
		if err != nil {
			return false, err
		}
		if _, ok, err := r.LookupPath(ctx, root, path.Join(dir, desired.InstanceFile)); err != nil {
			return false, err
		} else if ok {
			e, _, err := r.LookupPath(ctx, root, dir)
			if err != nil {
				return false, err
			}
			change.Before = e.Hash
			break
		}
	}
	odd, err := r.misnamed(ctx, change, c.Hash)
	return odd != nil, err
}

// candidates returns the files of a directory that is no instance, by their paths in it. It
// looks into folders only where the directory was one.
func (r *Reader) candidates(ctx context.Context, c DirChange) ([]git.Entry, error) {
	var out []git.Entry
	if c.Before == "" {
		t, err := r.Tree(ctx, c.stray)
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
	all, err := r.ListFiles(ctx, c.stray)
	if errors.Is(err, git.ErrMissing) {
		return nil, err
	}
	if err != nil {
		return nil, nil //nolint:nilerr // a folder of many instances by now
	}
	nested := map[string]bool{}
	for _, f := range all {
		if path.Base(f.Path) == desired.InstanceFile {
			nested[path.Dir(f.Path)] = true
		}
	}
	for _, f := range all {
		if f.IsFile() && !nested[path.Dir(f.Path)] {
			out = append(out, git.Entry{Mode: f.Mode, Name: f.Path, Hash: f.Hash})
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
