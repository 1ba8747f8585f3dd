package read

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

// ReadSlots reads and parses the instances after a change, nil where one is gone.
func (r *Reader) ReadSlots(ctx context.Context, changes []DirChange, commit string) ([]*Slot, error) {
	slots := make([]*Slot, len(changes))
	const chunk = 512
	read := r.Objects.Each
	if len(changes) > chunk {
		read = r.Objects.Scan
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

func (r *Reader) readSlotChunk(ctx context.Context, changes []DirChange, slots []*Slot, commit string, read readObjects) error {
	var hashes []string
	var at []int
	for i, c := range changes {
		if c.Deep {
			slots[i] = &Slot{Rev: desired.Revision{Dir: c.Dir, Commit: commit}, Problems: []*desired.Problem{nestedTooDeep(c.Dir)}}
			continue
		}
		if c.After == "" {
			var err error
			if c.stray != "" && c.Dir != InstancesDir {
				slots[i], err = r.misnamed(ctx, c, commit)
			}
			if err != nil {
				return err
			}
			if len(c.Links) > 0 && slots[i] == nil {
				slots[i] = &Slot{Rev: desired.Revision{Dir: c.Dir, Commit: commit}}
			}
			if slots[i] != nil {
				slots[i].Links = linkProblems(c.Dir, c.Links)
			}
			continue
		}
		slots[i] = &Slot{Rev: desired.Revision{Dir: c.Dir, Commit: commit, Tree: c.After}, Links: linkProblems(c.Dir, c.Links)}
		if !c.File.IsFile() {
			slots[i].Links = slices.DeleteFunc(slots[i].Links, func(p *desired.Problem) bool { return path.Base(p.File) == desired.InstanceFile })
			slots[i].Problems = []*desired.Problem{NotAFile(path.Join(c.Dir, desired.InstanceFile), c.File)}
			continue
		}
		if in, ok := r.wasParsed(c.Dir, c.After); ok && len(SecretsIn("", nil, in)) == 0 {
			slots[i].Holds(in)
			continue
		}
		hashes, at = append(hashes, c.File.Hash), append(at, i)
	}
	return read(ctx, git.KindBlob, hashes, func(j int, data []byte, err error) error {
		c, s := changes[at[j]], slots[at[j]]
		file := path.Join(c.Dir, desired.InstanceFile)
		if errors.Is(err, git.ErrTooLarge) {
			s.Problems = []*desired.Problem{{File: file, Message: err.Error(), Remedy: "keep large files elsewhere"}}
			return nil
		}
		if err != nil {
			return r.Damaged(file+" at "+commit, err)
		}
		in, err := r.Parse(c.Dir, c.After, data)
		if err != nil {
			s.Problems = problemsOf(file, err)
			return nil
		}
		s.Holds(in)
		s.Exposed = SecretsIn(file, data, in)
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

// NotAFile is the problem of an entry where a file is expected.
func NotAFile(file string, e git.Entry) *desired.Problem {
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
