package read

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// An instance ends when a commit removes its file. A directory can also be missing for another reason: something that is no
// folder took its place or that of a folder above it (a submodule, a symbolic link, a file), or its file was moved to where no
// instance is read. Such an instance is held ([loss]), and named.

// absence returns why an instance is missing although its file wasn't removed, nil if it was removed.
type absence func(was *Slot) (*desired.Problem, error)

// absenceAfter explains what is missing in newRoot and was in oldRoot.
func (r *Reader) absenceAfter(ctx context.Context, oldRoot, newRoot string) absence {
	var strays []strayFile
	read := false

	return func(was *Slot) (*desired.Problem, error) {
		if p, err := r.replaced(ctx, newRoot, was.Rev); p != nil || err != nil {
			return p, err
		}
		if !read { // most changes remove nothing that runs, and need no list
			var err error
			if strays, err = r.strayFiles(ctx, oldRoot, newRoot); err != nil {
				return nil, err
			}
			read = true
		}
		return r.movedAway(ctx, was.Rev, strays)
	}
}

// AbsenceSince is [Reader.absenceAfter] at a start, where what was in effect before is known only for single instances: it
// compares the commit that removed the directory with the one before it. What a person has accepted since isn't absent.
func (r *Reader) AbsenceSince(ctx context.Context, head, accepted string) absence {
	return func(was *Slot) (*desired.Problem, error) {
		file := path.Join(was.Rev.Dir, desired.InstanceFile)
		out, err := r.Git.Run(ctx, "--literal-pathspecs", "rev-list", "--first-parent", "-n1", head, "--", file)
		if err != nil {
			return nil, err
		}
		commit := strings.TrimSpace(out)
		if commit == "" {
			return nil, nil
		}
		c, err := r.Commit(ctx, commit)
		if err != nil || len(c.Parents) == 0 {
			return nil, err
		}
		if accepted != "" {
			if decided, err := r.IsAncestor(ctx, commit, accepted); err != nil || decided {
				return nil, err
			}
		}

		root, err := r.RootOf(ctx, c.Parents[0])
		if err != nil {
			return nil, err
		}
		if before, err := r.instanceAt(ctx, root, was.Rev.Dir); err != nil || before == nil || before.ID != was.Rev.Instance {
			return nil, err
		}
		p, err := r.absenceAfter(ctx, root, c.Tree)(was)
		if p == nil || err != nil {
			return nil, err
		}
		headRoot, err := r.RootOf(ctx, head)
		if err != nil {
			return nil, err
		}
		if still, err := r.isAbsent(ctx, headRoot, was.Rev, p); err != nil || !still {
			return nil, err
		}
		return p, nil
	}
}

// isAbsent reports whether the reason for which an instance is absent still holds.
func (r *Reader) isAbsent(ctx context.Context, root string, was desired.Revision, why *desired.Problem) (bool, error) {
	if p, err := r.replaced(ctx, root, was); p != nil || err != nil {
		return p != nil, err
	}
	e, ok, err := r.LookupPath(ctx, root, why.File)
	if err != nil || !ok || !e.IsFile() {
		return false, err
	}
	p, err := r.movedAway(ctx, was, []strayFile{{path: why.File, Entry: e}})
	return p != nil, err
}

// replaced returns the problem of a directory whose place, or that of a folder above it, is taken by something that is no
// folder; nil if the directory is there, or nothing is.
func (r *Reader) replaced(ctx context.Context, root string, was desired.Revision) (*desired.Problem, error) {
	at := ""
	for name := range strings.SplitSeq(was.Dir, "/") {
		at = path.Join(at, name)
		e, ok, err := r.LookupPath(ctx, root, at)
		if err != nil {
			return nil, r.Damaged(at, err)
		}
		if !ok {
			return nil, nil
		}
		if !e.IsDir() {
			return &desired.Problem{File: at, Instance: was.Instance,
				Message: fmt.Sprintf("is %s, not a folder; a commit that replaces the folder of a VNF doesn't end it: %s stands as it was", entryKind(e), was.Dir),
				Remedy:  "commit the folder again; to end the VNF, remove it (git rm -r " + was.Dir + ")"}, nil
		}
	}
	return nil, nil
}

// movedAway returns the problem of an instance whose file is one of those that aren't read as instances, nil for none.
func (r *Reader) movedAway(ctx context.Context, was desired.Revision, strays []strayFile) (*desired.Problem, error) {
	if len(strays) == 0 {
		return nil, nil
	}
	old, _, err := r.LookupPath(ctx, was.Tree, desired.InstanceFile)
	if err != nil {
		return nil, r.Damaged(path.Join(was.Dir, desired.InstanceFile), err)
	}
	for _, s := range strays {
		same := s.Hash == old.Hash
		if !same {
			if same, err = r.hasID(ctx, s, was.Instance); err != nil {
				return nil, err
			}
		}
		if same {
			return &desired.Problem{File: s.path, Instance: was.Instance,
				Message: fmt.Sprintf("is the file of VNF instance %s, moved from %s to where no instance is read: the VNF stands as it was", was.Instance, was.Dir),
				Remedy:  fmt.Sprintf("move it back (git mv %s %s), or to a folder of its own in %s/; to end the VNF, set state: notInstantiated there first", path.Dir(s.path), was.Dir, InstancesDir)}, nil
		}
	}
	return nil, nil
}

// hasID reports whether the file is that of the instance, and wants it to run.
func (r *Reader) hasID(ctx context.Context, s strayFile, id string) (bool, error) {
	data, err := r.Objects.Get(ctx, git.KindBlob, s.Hash)
	if errors.Is(err, git.ErrTooLarge) {
		return false, nil
	}
	if err != nil {
		return false, r.Damaged(s.path, err)
	}
	in, err := desired.ParseInstance(s.path, data)
	return err == nil && in.ID == id && desired.IsInstantiated(in.State), nil
}

// strayFile is a file with the name of an instance's that isn't read as one.
type strayFile struct {
	path string
	git.Entry
}

// strayFiles returns the stray files that newRoot has and oldRoot lacks. It reads only trees that differ.
func (r *Reader) strayFiles(ctx context.Context, oldRoot, newRoot string) ([]strayFile, error) {
	var out []strayFile
	type content struct {
		Pair
		read, inside bool // among the instances; in the directory of one
		depth        int  // below instances/, and no more than what is too deep
	}
	type folder struct {
		content
		path string
	}
	todo, seen := []folder{{content: content{Pair: Pair{oldRoot, newRoot}}}}, map[content]bool{}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at.content] { // a few trees that name each other unfold to billions of paths
			continue
		}
		seen[at.content] = true
		before, err := r.Tree(ctx, at.Before)
		if err == nil {
			var after *git.Tree
			if after, err = r.Tree(ctx, at.After); err == nil {
				_, instance := after.Find(desired.InstanceFile)
				git.DiffTrees(before, after, func(b, a git.Entry) {
					switch name := path.Join(at.path, a.Name); {
					case a.IsDir():
						sub := folder{path: name, content: content{
							Pair: Pair{After: a.Hash}, read: at.read || at.path == InstancesDir, inside: at.inside || at.read && instance,
						}}
						if sub.read {
							sub.depth = min(at.depth, objects.MaxDepth) + 1
						}
						if b.IsDir() {
							sub.Before = b.Hash
						}
						todo = append(todo, sub)
					case a.IsFile() && a.Name == desired.InstanceFile && (!at.read || at.inside || at.depth > objects.MaxDepth):
						out = append(out, strayFile{path: name, Entry: a})
					}
				})
			}
		}
		if err != nil {
			return nil, r.Damaged("folder "+at.path, err)
		}
	}
	return out, nil
}
