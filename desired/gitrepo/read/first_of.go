package read

import (
	"cmp"
	"context"
)

// Standing says how a look along the branch's first parents ended.
type Standing int

// FirstOf returns the path that was there when no other was, going back from a commit along its first parents; "" where they
// came together. It goes no further than since, "" for all of the history. is reports whether a path counts below a root tree.
func (r *Reader) FirstOf(ctx context.Context, head, since string, paths []string, is func(root, p string) (bool, error)) (string, Standing, error) {
	args := []string{"--literal-pathspecs", "rev-list", "--first-parent", head}
	if since != "" {
		args = append(args, "^"+since)
	}
	first, ended, failed := "", Undecided, error(nil)
	err := r.Git.Lines(ctx, func(commit string) bool {
		first, ended, failed = r.firstBefore(ctx, commit, paths, is)
		return failed == nil && ended == Undecided
	}, append(append(args, "--"), paths...)...)
	return first, ended, cmp.Or(failed, err)
}

// firstBefore returns the one of the paths that was there before a commit, "" for none.
func (r *Reader) firstBefore(ctx context.Context, commit string, paths []string, is func(root, p string) (bool, error)) (string, Standing, error) {
	c, err := r.Commit(ctx, commit)
	if err != nil {
		return "", Undecided, err
	}
	if len(c.Parents) == 0 {
		cut, err := r.FirstKept()
		if cut[commit] {
			return "", cutShort, err
		}
		return "", Decided, err
	}
	root, err := r.RootOf(ctx, c.Parents[0])
	if err != nil {
		return "", Undecided, err
	}

	var had []string
	for _, p := range paths {
		ok, err := is(root, p)
		if err != nil {
			return "", Undecided, err
		}
		if ok {
			had = append(had, p)
		}
	}
	switch len(had) {
	case 0:
		return "", Decided, nil
	case 1:
		return had[0], Decided, nil
	}
	return "", Undecided, nil
}

// How the history tells which of several paths was there first.
const (
	Decided   Standing = iota // where one path was there alone, or none was
	Undecided                 // at the commit from which on the history was asked for: all were there
	cutShort                  // where the history was cut: all were there
)
