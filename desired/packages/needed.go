package packages

import (
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// Needed returns a function that names those of the repositories gone which an instance
// needs: they have its package, or one of its vnfdId, and none of those that stay has. It
// is nil where no instance can need any. Repositories that aren't known yet are read as
// they were fetched last.
func (c *Catalogue) Needed(ctx context.Context, gone, stay []desired.Repository) (func(*desired.Instance) []string, error) {
	known := c
	if have := c.Repositories(); slices.ContainsFunc(gone, func(r desired.Repository) bool { return !slices.Contains(have, r) }) {
		// At a start, and after commits that came faster than the repositories were read.
		known = c.Apart()
		if err := known.Load(ctx, slices.Concat(gone, stay)); err != nil {
			return nil, err
		}
	}
	entries := known.List()
	if !slices.ContainsFunc(entries, func(e Entry) bool { return isOf(e, gone) }) {
		return nil, nil
	}
	return func(in *desired.Instance) []string {
		if slices.ContainsFunc(entries, func(e Entry) bool { return isOf(e, stay) && e.Serves(in) }) {
			return nil
		}
		var names []string
		for _, e := range entries {
			if isOf(e, gone) && e.Serves(in) {
				names = append(names, e.Repository)
			}
		}
		return slices.Compact(names)
	}, nil
}

// Serves says whether the entry is the package of the instance, or one of its vnfdId.
func (e Entry) Serves(in *desired.Instance) bool {
	return e.Tree == in.Package || e.VnfdID == in.VnfdID
}

// isOf says whether the entry is of one of the repositories.
func isOf(e Entry, repos []desired.Repository) bool {
	return slices.ContainsFunc(repos, func(r desired.Repository) bool { return r.Name == e.Repository })
}
