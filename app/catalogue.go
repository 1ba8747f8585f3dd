package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
)

// catalogue finds packages for the reconciler. A vnfdId that isn't known yet may
// have been pushed a moment ago, so the repositories are fetched once more before
// the answer is no; likewise where repositories.yaml has changed since the last fetch.
type catalogue struct {
	*packages.Catalogue
	ctx      context.Context // of the process
	settings func() (*desired.Settings, error)

	mu      sync.Mutex
	last    time.Time            // of the last fetch
	fetched []desired.Repository // by it
}

// resyncPause keeps questions about unknown packages from fetching without end.
const resyncPause = time.Second

// Newest implements [reconciler.Packages].
func (c *catalogue) Newest(vnfdID string) (string, error) {
	tree, err := newest(c.present(), vnfdID)
	// A package that is unsound may have been repaired a moment ago, and one that is disabled
	// enabled.
	if (errors.Is(err, packages.ErrUnknown) || packages.IsUnusable(err)) && c.refresh() {
		return newest(c.Catalogue, vnfdID)
	}
	return tree, err
}

// Verify implements [reconciler.Packages].
func (c *catalogue) Verify(ctx context.Context, tree string) error {
	return verify(ctx, c.Catalogue, tree)
}

func verify(ctx context.Context, c *packages.Catalogue, tree string) error {
	return unsound(c.Verify(ctx, tree), "package")
}

// unsound makes the error of a package that is unusable a refusal, too, which blames a field of
// vnf.yaml. Any other error stays what it is.
func unsound(err error, field string) error {
	if !packages.IsUnusable(err) {
		return err
	}
	return unsoundError{err, &drivers.RefusedError{Field: field, Reason: err.Error()}}
}

type unsoundError struct {
	error
	refused *drivers.RefusedError
}

// Unwrap implements the interface that [errors.As] asks for.
func (e unsoundError) Unwrap() []error { return []error{e.error, e.refused} }

// Hooks implements [reconciler.Packages].
func (c *catalogue) Hooks(tree string) bool { return c.present().Hooks(tree) }

// RepositoriesOf implements [reconciler.Packages].
func (c *catalogue) RepositoriesOf(tree string) []string { return c.present().RepositoriesOf(tree) }

// WaysToHooks implements [reconciler.Packages].
func (c *catalogue) WaysToHooks(tree string) []string { return c.present().WaysToHooks(tree) }

// Versions is [packages.Catalogue.Versions].
func (c *catalogue) Versions(tree, vnfdID string) (*semver.Version, []packages.Version) {
	return c.present().Versions(tree, vnfdID)
}

func newest(c *packages.Catalogue, vnfdID string) (string, error) {
	e, err := c.Find(vnfdID)
	if err != nil {
		return "", unsound(err, "vnfdId")
	}
	return e.Tree, nil
}

// present is the catalogue of the repositories that git names now: a commit that
// changes them counts from its first moment.
func (c *catalogue) present() *packages.Catalogue {
	if settings, err := c.settings(); err == nil && !slices.Equal(c.Repositories(), settings.Repositories) {
		c.refresh()
	}
	return c.Catalogue
}

func (c *catalogue) refresh() bool {
	settings, err := c.settings()
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < resyncPause && slices.Equal(c.fetched, settings.Repositories) {
		return true // another caller has just fetched
	}
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	// What the other repositories have counts, even if one of them is away.
	_ = c.Sync(ctx, settings.Repositories)
	c.last, c.fetched = time.Now(), settings.Repositories
	return true
}

// proposed are packages of a proposal that nobody has accepted.
type proposed struct{ *packages.Catalogue }

// Newest implements [reconciler.Packages].
func (p proposed) Newest(vnfdID string) (string, error) { return newest(p.Catalogue, vnfdID) }

// Verify implements [reconciler.Packages].
func (p proposed) Verify(ctx context.Context, tree string) error {
	return verify(ctx, p.Catalogue, tree)
}

// fetchProposed is [admission.Config.FetchProposed].
func (c *catalogue) fetchProposed(ctx context.Context, settings *desired.Settings) (admission.Packages, []error, error) {
	c.refresh() // the proposal takes over from the live catalogue what stays
	other, err := c.Propose(ctx, settings.Repositories)
	if other == nil {
		return nil, nil, err
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return proposed{other}, list.Unwrap(), nil
	}
	return proposed{other}, nil, err
}

// syncPackages fetches the package repositories.
func (s *state) syncPackages(ctx context.Context) error {
	settings, err := s.repo.Settings()
	if err != nil {
		return err
	}
	err = s.packages.Sync(ctx, settings.Repositories)
	return errors.Join(err, s.repo.ReviewSettings(ctx)) // another repository may have what was needed
}
