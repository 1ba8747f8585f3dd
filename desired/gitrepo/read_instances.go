package gitrepo

import (
	"context"
	"errors"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// readSlots reads and parses the instances after a change, nil where one is gone.
func (r *Reader) readSlots(ctx context.Context, changes []dirChange, commit string) ([]*slot, error) {
	slots := make([]*slot, len(changes))
	const chunk = 512
	read := r.objects.Each
	if len(changes) > chunk {
		read = r.objects.Scan
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(changes); from += chunk {
		g.Go(func() error {
			return r.readSlotChunk(ctx, changes[from:min(from+chunk, len(changes))], slots[from:], commit, read)
		})
	}
	return slots, g.Wait()
}

// readObjects is [git.Objects.Each] or [git.Objects.Scan].
type readObjects func(ctx context.Context, kind string, hashes []string, fn func(i int, data []byte, err error) error) error

func (r *Reader) readSlotChunk(ctx context.Context, changes []dirChange, slots []*slot, commit string, read readObjects) error {
	var hashes []string
	var at []int
	for i, c := range changes {
		if c.deep {
			slots[i] = &slot{rev: desired.Revision{Dir: c.dir, Commit: commit}, problems: []*desired.Problem{nestedTooDeep(c.dir)}}
			continue
		}
		if c.after == "" {
			var err error
			if c.stray != "" && c.dir != instancesDir {
				slots[i], err = r.misnamed(ctx, c, commit)
			}
			if err != nil {
				return err
			}
			if len(c.links) > 0 && slots[i] == nil {
				slots[i] = &slot{rev: desired.Revision{Dir: c.dir, Commit: commit}}
			}
			if slots[i] != nil {
				slots[i].links = linkProblems(c.dir, c.links)
			}
			continue
		}
		slots[i] = &slot{rev: desired.Revision{Dir: c.dir, Commit: commit, Tree: c.after}, links: linkProblems(c.dir, c.links)}
		if !c.file.IsFile() {
			slots[i].links = slices.DeleteFunc(slots[i].links, func(p *desired.Problem) bool { return path.Base(p.File) == desired.InstanceFile })
			slots[i].problems = []*desired.Problem{notAFile(path.Join(c.dir, desired.InstanceFile), c.file)}
			continue
		}
		if in, ok := r.wasParsed(c.dir, c.after); ok && len(secretsIn("", nil, in)) == 0 {
			slots[i].holds(in)
			continue
		}
		hashes, at = append(hashes, c.file.Hash), append(at, i)
	}
	return read(ctx, git.KindBlob, hashes, func(j int, data []byte, err error) error {
		c, s := changes[at[j]], slots[at[j]]
		file := path.Join(c.dir, desired.InstanceFile)
		if errors.Is(err, git.ErrTooLarge) {
			s.problems = []*desired.Problem{{File: file, Message: err.Error(), Remedy: "keep large files elsewhere"}}
			return nil
		}
		if err != nil {
			return r.damaged(file+" at "+commit, err)
		}
		in, err := r.parse(c.dir, c.after, data)
		if err != nil {
			s.problems = problemsOf(file, err)
			return nil
		}
		s.holds(in)
		s.exposed = secretsIn(file, data, in)
		return nil
	})
}

// problemsOf takes a parse error apart.
func problemsOf(file string, err error) []*desired.Problem {
	if inv, ok := errors.AsType[*desired.InvalidError](err); ok && len(inv.Problems) > 0 {
		return inv.Problems
	}
	return []*desired.Problem{{File: file, Message: err.Error()}}
}

func notAFile(file string, e git.Entry) *desired.Problem {
	return &desired.Problem{File: file, Message: "is " + entryKind(e) + ", not a file", Remedy: "commit a plain file"}
}

func entryKind(e git.Entry) string {
	switch e.Mode {
	case git.ModeSymlink:
		return "a symbolic link"
	case git.ModeSubmodule:
		return "a submodule"
	case git.ModeDir:
		return "a folder"
	}
	return "a file"
}
