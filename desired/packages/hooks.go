package packages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// LimitHooks has the host decide, too, which repositories' hooks may run: barred says what is to
// be done on the host before those of the repository may, "" where they may. Without it no
// repository's may. It is called before the first [Catalogue.Sync].
func (c *Catalogue) LimitHooks(barred func(desired.Repository) string) { c.barred = barred }

// Hooks says whether a repository that has the tree allows its hooks to run, and the host does.
// The hooks of a package that no repository has any more may not. Those of a package whose
// checksums don't hold may: they end what runs of it. [Catalogue.Verify] sees to it that nothing
// new is made of such a package.
func (c *Catalogue) Hooks(tree string) bool {
	return slices.ContainsFunc(c.having(tree), func(r desired.Repository) bool { return r.Hooks && c.onHost(r) == "" })
}

// WaysToHooks says for each repository that has the tree what would let its hooks run; none
// where no repository has it.
func (c *Catalogue) WaysToHooks(tree string) []string {
	var ways, names []string
	for _, r := range c.having(tree) {
		if host := c.onHost(r); host != "" {
			if !r.Hooks {
				host = fmt.Sprintf("hooks: true at repository %s in %s, and %s", r.Name, desired.RepositoriesFile, host)
			}
			ways = append(ways, host)
			continue
		}
		names = append(names, r.Name)
	}
	if len(names) > 0 {
		ways = append([]string{fmt.Sprintf("hooks: true at repository %s in %s", strings.Join(names, " or "), desired.RepositoriesFile)}, ways...)
	}
	return ways
}

// onHost is what is to be done on the host before the repository's hooks may run.
func (c *Catalogue) onHost(r desired.Repository) string {
	if c.barred == nil {
		return "a server that allows hooks (jibe serve --allow-hooks)"
	}
	return c.barred(r)
}

// having are the repositories that have the tree, in the order of repositories.yaml. Those and
// their packages are of one moment.
func (c *Catalogue) having(tree string) []desired.Repository {
	index := c.index.Load()
	var names []string
	for _, e := range index.entries {
		if e.Tree == tree {
			names = append(names, e.Repository)
		}
	}
	return slices.DeleteFunc(slices.Clone(index.repos), func(r desired.Repository) bool { return !slices.Contains(names, r.Name) })
}
