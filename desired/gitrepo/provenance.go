package gitrepo

import (
	"context"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Provenance is what the installation's key says of a commit.
type Provenance struct {
	// Commit is its full name; Author is what it says itself, which proves nothing.
	Commit, Author string
	// Own says that Jibe made the commit, as its message says.
	Own bool
	// Push is the push that brought the commit, nil where none is known: it came from a forge,
	// in a time before pushes were noted, or while no server ran. One of Jibe's own has one where
	// it landed what was pushed.
	Push *read.Push
}

// WhoMade says how a commit came into the desired repository at dir. Only what is
// authenticated by the key counts. It changes nothing; the server may run.
func WhoMade(ctx context.Context, dir, branch, commit string, key []byte) (*Provenance, error) {
	opt := Options{Dir: dir, Branch: branch, Key: key}.withDefaults()
	r := &Repo{read: read.New(git.Runner{Dir: dir}, opt.Branch, 16<<20), opt: opt, log: opt.Log}
	defer r.read.Close()
	full, err := r.read.Resolve(ctx, commit+"^{commit}")
	if err != nil {
		return nil, err
	}
	c, err := r.read.Commit(ctx, full)
	if err != nil {
		return nil, err
	}
	p := &Provenance{Commit: full, Author: c.Author}
	if p.Own, err = r.Sealed(ctx, full); err != nil {
		return p, err
	}
	if p.Own {
		// A merge that landed a push, which is nobody else's.
		p.Push, err = r.notedPush(ctx, full)
		return p, err
	}
	p.Push, err = r.pushOf(ctx, full)
	return p, err
}

// pushOf finds the push that brought a commit: that of the first commit on the branch, from
// this one on, which the branch was ever pushed to.
func (r *Repo) pushOf(ctx context.Context, commit string) (*read.Push, error) {
	return r.broughtBy(ctx, commit, r.notedPush)
}

// broughtBy is pushOf by what is known of pushes up to a commit.
func (r *Repo) broughtBy(ctx context.Context, commit string, known func(context.Context, string) (*read.Push, error)) (*read.Push, error) {
	later, err := r.read.Git.Run(ctx, "rev-list", "--reverse", "--ancestry-path", commit+".."+r.read.Ref(), "--")
	if err != nil {
		return nil, fmt.Errorf("commits that follow %s: %w", commit, err)
	}
	for _, tip := range append([]string{commit}, strings.Fields(later)...) {
		p, err := known(ctx, tip)
		switch {
		case err != nil:
			return nil, err
		case p == nil:
			continue
		case p.Old != "":
			if had, err := r.read.IsAncestor(ctx, commit, p.Old); err != nil || had {
				return nil, err
			}
		}
		return p, nil
	}
	return nil, nil
}
