package packages

import (
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
)

const (
	// fetchTime is what a fetch may take; a big first one needs most of it.
	fetchTime = 10 * time.Minute
	// localTime is what a command on the repository itself may take.
	localTime = time.Minute
)

// newRunner runs git on the desired repository, whose object store the packages share.
// Fetches of several upstreams, pins and the desired repository's own writes meet there,
// so that each waits for the others' locks.
func newRunner(dir string) git.Runner {
	return git.Runner{Dir: dir, Foreign: true, Config: []string{"core.packedRefsTimeout=10000", "core.filesRefLockTimeout=10000"}}
}

// fetchRefs brings refspec from the repository at url, and removes what upstream
// removed.
func (c *Catalogue) fetchRefs(ctx context.Context, url, refspec string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	_, err := c.git.Run(ctx, "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--refmap=", "--", url, refspec)
	return err
}

// refs returns the refs below prefix that lead to a commit.
func (c *Catalogue) refs(ctx context.Context, prefix string) ([]git.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.Refs(ctx, prefix)
}

// refNames returns the names of the refs below prefix.
func (c *Catalogue) refNames(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.RefNames(ctx, prefix)
}

func (c *Catalogue) deleteRefs(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.DeleteRefs(ctx, names)
}

// setRef makes name point at the object; durable when it returns.
func (c *Catalogue) setRef(ctx context.Context, name, object string) error {
	ctx, cancel := context.WithTimeout(ctx, localTime)
	defer cancel()
	return c.git.SetRef(ctx, name, object)
}
