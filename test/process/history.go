package process

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

// History is the desired branch, oldest commit first.
type History struct {
	Commits  []string
	Lines    []string         // the subjects, in the same order
	At       map[string]int   // position by commit
	Trailers map[string][]int // positions by Vnf-Lcm-Op-Occ
	Subjects map[string]int   // how many commits have the subject

	repository string
}

// ReadHistory reads the history of a desired repository with git, which works while no
// server does.
func ReadHistory(ctx context.Context, repository string) (*History, error) {
	log, err := Git(ctx, repository, "log", "--reverse", "--topo-order",
		"--format=%H%x1f%s%x1f%(trailers:key="+desired.TrailerOperation+",valueonly,separator=%x1e)", "main")
	if err != nil {
		return nil, err
	}
	h := &History{At: map[string]int{}, Trailers: map[string][]int{}, Subjects: map[string]int{}, repository: repository}
	for i, line := range strings.Split(log, "\n") {
		f := strings.Split(line, "\x1f")
		if len(f) != 3 {
			return nil, fmt.Errorf("git log: %q", line)
		}
		h.Commits = append(h.Commits, f[0])
		h.Lines = append(h.Lines, f[1])
		h.At[f[0]] = i
		h.Subjects[f[1]]++
		for op := range strings.SplitSeq(f[2], "\x1e") {
			if op != "" {
				h.Trailers[op] = append(h.Trailers[op], i)
			}
		}
	}
	return h, nil
}

// Of are the positions of the commits that an operation belongs to: a request's by its
// trailer, a push's by its id.
func (h *History) Of(op Operation) []int {
	at := slices.Clone(h.Trailers[op.ID])
	for i, commit := range h.Commits {
		if lcm.OperationID(commit, op.Instance) == op.ID {
			at = append(at, i)
		}
	}
	return at
}

// Push is a push of one instance's directory that was accepted.
type Push struct{ Commit, Instance, Dir string }

// CheckPushes says which accepted pushes nothing came of. A push has an operation, or a
// later one of its instance took it along, or it and the following pushes together have
// changed nothing that matters.
func (h *History) CheckPushes(ctx context.Context, pushes []Push, operations []Operation) error {
	last := map[string]int{} // position of the last commit that was operated on, by instance
	back := map[string]bool{}
	for _, op := range operations {
		for _, at := range h.Of(op) {
			if at >= last[op.Instance] {
				last[op.Instance], back[op.Instance] = at, op.State == string(lcm.RolledBack)
			}
		}
	}
	var errs []error
	for _, p := range pushes {
		at, ok := h.At[p.Commit]
		if !ok {
			errs = append(errs, fmt.Errorf("the accepted push of %s to %s is not in the history", p.Commit, p.Dir))
			continue
		}
		was, ok := last[p.Instance]
		if ok && was >= at || back[p.Instance] { // a push that takes an operation back is its rollback, and needs no other
			continue
		}
		var before *desired.Instance
		var err error
		if ok {
			if before, err = Intent(ctx, h.repository, h.Commits[was], p.Dir); err != nil {
				return err
			}
		}
		after, err := Intent(ctx, h.repository, "main", p.Dir)
		if err != nil {
			return err
		}
		if typ, _, due := lcm.Classify(before, after); due {
			errs = append(errs, fmt.Errorf("the accepted push of %s to %s has no operation, and its %s is due", p.Commit, p.Dir, typ))
		}
	}
	return errors.Join(errs...)
}

// Intent is the instance in a directory as of a commit, nil where there is none.
func Intent(ctx context.Context, repository, commit, dir string) (*desired.Instance, error) {
	if dir == "" {
		return nil, nil
	}
	file := path.Join(dir, desired.InstanceFile)
	entry, err := Git(ctx, repository, "ls-tree", commit, "--", file)
	if err != nil || entry == "" {
		return nil, err
	}
	blob, err := Git(ctx, repository, "cat-file", "blob", strings.Fields(entry)[2])
	if err != nil {
		return nil, err
	}
	return desired.ParseInstance(file, []byte(blob+"\n"))
}

// Identity is the id of the instance in a directory: those made through the API stand
// in a directory of that name, the others derive theirs from it.
func Identity(dir string) string {
	if id := path.Base(dir); desired.APIDir(id) == dir {
		return id
	}
	return desired.DeriveID(dir)
}
