package gitrepo

import (
	"context"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxAuthorSearch bounds how many commits are looked at for the one that changed
// a directory. Whoever sees a revision sees it soon after it was made.
const maxAuthorSearch = 1000

// Author returns the person who brought the directory to its state at rev, as git writes
// people: the author of the last commit, along the first parents, that changed it. rev's own
// commit may be a later one, of somebody else, that came with the same push.
func (r *Reader) Author(ctx context.Context, rev desired.Revision) (string, error) {
	c, err := r.commit(ctx, rev.Commit)
	if err != nil || len(c.Parents) == 0 {
		return c.Author, err
	}
	parent, err := r.commit(ctx, c.Parents[0])
	if err != nil {
		return "", err
	}
	dir, _, err := r.lookupPath(ctx, parent.Tree, rev.Dir)
	if err != nil {
		return "", err
	}
	if dir.Hash != rev.Tree {
		return c.Author, nil
	}
	return r.authors.of(ctx, r, rev)
}

// authors remembers who changed what in the commits before one. A first start on a long history
// asks for all instances at the same commit: each commit is compared with its parent once for
// all of them, and not for each.
type authors struct {
	mu   sync.Mutex
	from string            // the commit that the search began at
	at   git.Commit        // the oldest that was looked at
	left int               // how many more may be
	by   map[string]string // the directories that they changed: the author of the newest
}

// of searches back from rev's commit for the one that changed its directory.
func (a *authors) of(ctx context.Context, r *Reader, rev desired.Revision) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != rev.Commit {
		c, err := r.commit(ctx, rev.Commit)
		if err != nil {
			return "", err
		}
		a.from, a.at, a.left, a.by = rev.Commit, c, maxAuthorSearch, map[string]string{}
	}
	for {
		if who, ok := a.by[rev.Dir]; ok {
			return who, nil
		}
		if a.left == 0 || len(a.at.Parents) == 0 {
			return a.at.Author, nil
		}
		parent, err := r.commit(ctx, a.at.Parents[0])
		if err != nil {
			return "", err
		}
		changes, err := r.diffDirs(ctx, parent.Tree, a.at.Tree, 0)
		if err != nil {
			return "", err
		}
		for _, c := range changes {
			if _, newer := a.by[c.dir]; !newer {
				a.by[c.dir] = a.at.Author
			}
		}
		a.at = parent
		a.left--
	}
}
