package read

import (
	"context"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// firstSpelled is which of the folders that are spelled alike was first, "" for none, as of a commit.
type firstSpelled struct{ path, head string }

// FirstSpelling returns a function that reports whether a folder that clashes was there before the others, going back from
// a commit along its first parents. Of those that came with one commit none was first, and of those that stand since the
// history was cut, the one that has what was operated on.
func (r *Reader) FirstSpelling(ctx context.Context, head string, operated map[string]desired.Revision) func(c clash) (bool, error) {
	known := map[string]string{} // the one that was first, by any of them

	return func(c clash) (bool, error) {
		if first, ok := known[c.Path]; ok {
			return first == c.Path, nil
		}
		all := append([]string{c.Path}, c.others...)
		first, err := r.FirstSpelledOf(ctx, head, all, operated)
		if err != nil {
			return false, err
		}
		for _, p := range all {
			known[p] = first
		}
		return first == c.Path, nil
	}
}

// FirstSpelledOf returns the folder that was first. It looks only at what came since it last answered: nearly each commit
// changes something in the folder of a site, and these may stand for years.
func (r *Reader) FirstSpelledOf(ctx context.Context, head string, all []string, operated map[string]desired.Revision) (string, error) {
	key := strings.Join(slices.Sorted(slices.Values(all)), "\x00")
	last, ok := r.firsts.Get(key)
	if ok && last.head == head {
		return last.path, nil
	}
	if ok {
		var err error
		if ok, err = r.contains(ctx, head, last.head); err != nil {
			return "", err
		}
	}
	since := ""
	if ok {
		since = last.head
	}

	first, ended, err := r.FirstOf(ctx, head, since, all, func(root, p string) (bool, error) {
		_, ok, err := r.LookupPath(ctx, root, p)
		return ok, err
	})
	if err != nil {
		return "", err
	}
	switch {
	case ended == Undecided && since != "":
		first = last.path
	case ended == cutShort:
		first = onlyOperated(all, operated)
	}
	r.firsts.Add(key, firstSpelled{path: first, head: head}, len(key)+len(first)+len(head))
	return first, nil
}

// contains reports whether a commit is another one or a descendant of it; not where the other is gone.
func (r *Reader) contains(ctx context.Context, commit, other string) (bool, error) {
	_, err := r.Git.Run(ctx, "merge-base", "--is-ancestor", other, commit)
	if git.ExitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// onlyOperated returns the one of the folders in which something was operated on, "" where it is none or several.
func onlyOperated(folders []string, operated map[string]desired.Revision) string {
	var found []string
	for _, folder := range folders {
		for _, rev := range operated {
			if rev.Dir == folder || strings.HasPrefix(rev.Dir, folder+"/") {
				found = append(found, folder)
				break
			}
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
