package read

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxAuthorSearch bounds how many commits are looked at for the one that changed
// a directory. Whoever sees a revision sees it soon after it was made.
const maxAuthorSearch = 1000

// Author returns who brought the directory to its state at rev by the last commit, along the
// first parents, that changed it: its pusher where Jibe knows the push, whatever the commit says
// ([Push]); else its author, as git writes people. rev's own commit may be a later one, of
// somebody else, that came with the same push.
func (r *Reader) Author(ctx context.Context, rev desired.Revision) (string, error) {
	c, err := r.Commit(ctx, rev.Commit)
	if err != nil {
		return "", err
	}
	if len(c.Parents) == 0 {
		return (&covered{r: r}).next(ctx, rev.Commit, c)
	}
	parent, err := r.Commit(ctx, c.Parents[0])
	if err != nil {
		return "", err
	}
	dir, _, err := r.LookupPath(ctx, parent.Tree, rev.Dir)
	if err != nil {
		return "", err
	}
	if dir.Hash != rev.Tree {
		return (&covered{r: r}).next(ctx, rev.Commit, c)
	}
	return r.authors.of(ctx, r, rev)
}

// covered follows the first parents from a commit, and knows which of them came with a push.
type covered struct {
	r    *Reader
	who  string
	left int // how many more came with the push of who
}

// next returns who is behind the commit, which is the first parent of the one before.
func (c *covered) next(ctx context.Context, hash string, at git.Commit) (string, error) {
	if c.r.Pushed != nil {
		p, err := c.r.Pushed(ctx, hash)
		if err != nil {
			return "", err
		}
		if p != nil {
			c.who = p.Pusher
			if c.left, err = c.r.brought(ctx, p, at); err != nil {
				return "", err
			}
		}
	}
	if c.left == 0 {
		return at.Author, nil
	}
	c.left--
	return c.who, nil
}

// brought is how many commits came with a push along the first parents of its last, at.
func (r *Reader) brought(ctx context.Context, p *Push, at git.Commit) (int, error) {
	switch {
	case len(at.Parents) > 0 && at.Parents[0] == p.Old:
		return 1, nil
	case p.Old == "":
		return math.MaxInt, nil
	}
	out, err := r.Git.Run(ctx, "rev-list", "--count", "--first-parent", p.New, "^"+p.Old, "--")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// authors remembers who changed what in the commits before one. A first start on a long history
// asks for all instances at the same commit: each commit is compared with its parent once for
// all of them, and not for each.
type authors struct {
	mu   sync.Mutex
	from string            // the commit that the search began at
	at   git.Commit        // the oldest that was looked at
	who  string            // is behind it
	way  *covered          // as far as at
	left int               // how many more may be
	by   map[string]string // the directories that they changed: the author of the newest
}

// of searches back from rev's commit for the one that changed its directory.
func (a *authors) of(ctx context.Context, r *Reader, rev desired.Revision) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != rev.Commit {
		c, err := r.Commit(ctx, rev.Commit)
		if err != nil {
			return "", err
		}
		way := &covered{r: r}
		who, err := way.next(ctx, rev.Commit, c)
		if err != nil {
			return "", err
		}
		a.from, a.at, a.who, a.way, a.left, a.by = rev.Commit, c, who, way, maxAuthorSearch, map[string]string{}
	}
	for {
		if who, ok := a.by[rev.Dir]; ok {
			return who, nil
		}
		if a.left == 0 || len(a.at.Parents) == 0 {
			return a.who, nil
		}
		parent, err := r.Commit(ctx, a.at.Parents[0])
		if err != nil {
			return "", err
		}
		changes, err := r.DiffDirs(ctx, parent.Tree, a.at.Tree, 0)
		if err != nil {
			return "", err
		}
		for _, c := range changes {
			if _, newer := a.by[c.Dir]; !newer {
				a.by[c.Dir] = a.who
			}
		}
		if a.who, err = a.way.next(ctx, a.at.Parents[0], parent); err != nil {
			a.from = "" // the way was left: the next search begins anew
			return "", err
		}
		a.at = parent
		a.left--
	}
}

// Push is a push to the desired branch, and who made it.
type Push struct {
	// Pusher is who pushed, as operations name whoever asked for them: a name and, behind it,
	// who vouches for it.
	Pusher string `json:"pusher"`
	// From is the address that it came from, "" where it was made on the host.
	From string `json:"from,omitempty"`
	// Admin says that the pusher was an administrator of everything: what the commits override counts.
	Admin bool `json:"admin,omitempty"`
	// At is when it was accepted; Pushing sets it.
	At time.Time `json:"at"`
	// Old and New are where the branch stood before and stands afterwards.
	Old string `json:"old,omitempty"`
	New string `json:"new"`
}
