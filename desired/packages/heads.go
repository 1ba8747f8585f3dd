package packages

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// headWithin bounds a question to a [Head].
const headWithin = 5 * time.Second

// Head is the commit that several replicas take for the head of the package repository that Jibe
// writes to. Whoever has fetched or pushed a newer one puts it there; who sees it move fetches.
type Head interface {
	// Load returns the commit, "" where there is none yet.
	Load(ctx context.Context) (commit string, err error)
	// Move puts a commit in the place of another, and says whether that was still there.
	Move(ctx context.Context, from, to string) (bool, error)
}

// Share has the heads of package repositories that Jibe writes to on git servers kept where other
// replicas see them. It is to be called before anything else.
func (c *Catalogue) Share(heads func(home desired.Repository) Head) { c.heads = heads }

// head is that of the repository, nil where nobody shares it.
func (c *Catalogue) head(r desired.Repository) Head {
	if c.heads == nil || !r.Onboarding || r.Branch == "" || Local(r) {
		return nil
	}
	return c.heads(r)
}

// fetchAs fetches a repository below the prefix, and has the other replicas know where its branch
// is. The record is read before the server is asked: what is put in its place is no older then, and
// where others have moved it meanwhile they have asked later, or are told by their own next fetch.
func (c *Catalogue) fetchAs(ctx context.Context, r desired.Repository, prefix string) error {
	head := c.head(r)
	if head == nil || prefix != upstream {
		return c.fetchRefs(ctx, c.location(r), refspec(r, prefix))
	}
	was, err := loadHead(ctx, head)
	if ferr := c.fetchRefs(ctx, c.location(r), refspec(r, prefix)); ferr != nil {
		return ferr
	}
	if err == nil {
		err = c.put(ctx, head, was, remoteBranch{c, r}.fetched())
	}
	if err != nil {
		c.log.WarnContext(ctx, "other replicas aren't told where the package repository is, the next fetch does", "repository", r.Name, "error", err)
	}
	return nil
}

func loadHead(ctx context.Context, head Head) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, headWithin)
	defer cancel()
	return head.Load(ctx)
}

// put moves the head to where the ref is.
func (c *Catalogue) put(ctx context.Context, head Head, was, ref string) error {
	now, err := git.ReadRef(c.git.Dir, ref)
	if err != nil || now == was {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, headWithin)
	defer cancel()
	_, err = head.Move(ctx, was, now)
	return err
}

// Behind says whether another replica has accepted a commit of the repository that Jibe writes to
// which this catalogue doesn't show yet.
func (c *Catalogue) Behind(ctx context.Context) (bool, error) {
	home, err := Onboarding(c.Repositories())
	if err != nil {
		return false, nil // nothing is written
	}
	head := c.head(home)
	if head == nil {
		return false, nil
	}
	is, err := loadHead(ctx, head)
	if err != nil || is == "" {
		return false, err
	}
	has, err := c.contains(ctx, is, c.index.Load().at)
	return !has, err
}

// CatchUp fetches where this catalogue is [Catalogue.Behind].
func (c *Catalogue) CatchUp(ctx context.Context) error {
	behind, err := c.Behind(ctx)
	if err != nil || !behind {
		return err
	}
	home, err := Onboarding(c.Repositories())
	if err != nil {
		return err
	}
	return c.SyncOne(ctx, home.Name)
}

// WaitFor returns once this catalogue shows all that any replica had accepted when it was called, or ctx
// ends. It fetches nothing: somebody has to [Catalogue.CatchUp].
func (c *Catalogue) WaitFor(ctx context.Context) error {
	for {
		next := c.shown.next()
		behind, err := c.Behind(ctx)
		if err != nil || !behind {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// contains says whether a commit is another, or in the history of it. One that isn't here is in none.
func (c *Catalogue) contains(ctx context.Context, commit, in string) (bool, error) {
	if commit == in || in == "" {
		return commit == in, nil
	}
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	_, err := c.git.Run(ctx, "merge-base", "--is-ancestor", commit, in)
	switch git.ExitCode(err) {
	case 1, 128:
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for commit %s: %w", commit, err)
	}
	return true, nil
}

// signal wakes all who wait for something that happens again and again.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

// next is closed by the next tell.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

func (s *signal) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}
