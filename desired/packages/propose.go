package packages

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// maxProposals is how many proposals are fetched at once.
const maxProposals = 4

// Propose returns a catalogue of repositories that nobody has accepted yet, and changes
// nothing of c. For repositories that c has fetched already it has what c has. It fetches the
// others now; a [*RepositoryError] in the joined error names one that could not be fetched,
// and the catalogue is usable without it. A nil catalogue means that there is no answer now.
// Only a few proposals are fetched at once; others wait, until ctx ends.
//
// The catalogue lives in memory: its refs are gone when Propose returns, and the objects stay
// as everything in the store does. It MUST NOT be synced.
func (c *Catalogue) Propose(ctx context.Context, repos []desired.Repository) (*Catalogue, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other proposals: %w", ctx.Err())
	}
	live := c.Repositories()
	known := func(r desired.Repository) bool {
		return slices.ContainsFunc(live, func(l desired.Repository) bool {
			return l.Name == r.Name && l.URL == r.URL && refspec(l, "") == refspec(r, "")
		})
	}
	fresh := slices.DeleteFunc(slices.Clone(repos), known)
	prefix := c.proposing + rand.Text() + "/"
	defer c.forget(context.WithoutCancel(ctx), prefix)
	failed := c.fetch(ctx, prefix, fresh)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("fetch proposed package repositories: %w", ctx.Err())
	}
	at, _, err := c.fetched(ctx, upstream, slices.DeleteFunc(slices.Clone(repos), func(r desired.Repository) bool { return !known(r) }))
	if err != nil {
		return nil, err
	}
	more, _, err := c.fetched(ctx, prefix, fresh)
	if err != nil {
		return nil, err
	}
	maps.Copy(at, more)
	next, err := c.build(ctx, repos, at)
	if err != nil {
		return nil, err
	}
	p := c.Apart()
	p.index.Store(next)
	return p, failed
}

// Apart returns an empty catalogue of the same store. Loading it changes nothing that c
// answers. It MUST NOT be synced.
func (c *Catalogue) Apart() *Catalogue {
	p := New(c.git.Dir, c.packages, c.log)
	p.cache, p.sound, p.most, p.host, p.proofs, p.offered = c.cache, c.sound, c.most, c.host, c.proofs, c.offered
	p.barred = c.barred
	return p
}

// forget removes the refs below the prefix. What it can't remove, the next start does.
func (c *Catalogue) forget(ctx context.Context, prefix string) {
	refs, err := c.refNames(ctx, prefix)
	if err == nil {
		err = c.deleteRefs(ctx, refs)
	}
	if err != nil {
		c.log.WarnContext(ctx, "refs of a proposal were not removed", "prefix", prefix, "error", err)
	}
}

// sweep removes, once, the refs of proposals that former processes didn't live to remove.
func (c *Catalogue) sweep(ctx context.Context) error {
	if c.swept {
		return nil
	}
	refs, err := c.refNames(ctx, proposed)
	if err == nil {
		refs = slices.DeleteFunc(refs, func(name string) bool { return strings.HasPrefix(name, c.proposing) })
		err = c.deleteRefs(ctx, refs)
	}
	if err != nil {
		return fmt.Errorf("forget proposed package repositories: %w", err)
	}
	c.swept = true
	return nil
}
