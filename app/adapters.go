package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// catalogue finds packages for the reconciler. A vnfdId that isn't known yet may
// have been pushed a moment ago, so the repositories are asked once more before
// the answer is no. So they are where repositories.yaml has changed since they were.
type catalogue struct {
	*packages.Catalogue
	ctx      context.Context // of the process
	settings func() (*desired.Settings, error)

	mu    sync.Mutex
	last  time.Time
	asked []desired.Repository // then
}

// resyncPause keeps questions about unknown packages from fetching without end.
const resyncPause = time.Second

// Newest implements [reconciler.Packages].
func (c *catalogue) Newest(vnfdID string) (string, error) {
	tree, err := newest(c.present(), vnfdID)
	// What is unsound may have been mended a moment ago, likewise.
	if (errors.Is(err, packages.ErrUnknown) || errors.Is(err, packages.ErrUnsound)) && c.refresh() {
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

// unsound makes [packages.ErrUnsound] a refusal too, at the fault of a field of
// vnf.yaml; any other error stays what it is.
func unsound(err error, field string) error {
	if !errors.Is(err, packages.ErrUnsound) {
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
	if time.Since(c.last) < resyncPause && slices.Equal(c.asked, settings.Repositories) {
		return true // someone else has just asked
	}
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	// One repository that is away doesn't make the others' news worthless.
	_ = c.Sync(ctx, settings.Repositories)
	c.last, c.asked = time.Now(), settings.Repositories
	return true
}

// considered are packages that nobody has accepted, for a check.
type considered struct{ *packages.Catalogue }

// Newest implements [reconciler.Packages].
func (c considered) Newest(vnfdID string) (string, error) { return newest(c.Catalogue, vnfdID) }

// Verify implements [reconciler.Packages].
func (c considered) Verify(ctx context.Context, tree string) error {
	return verify(ctx, c.Catalogue, tree)
}

// consider fetches what the settings name, so that a check can know it before it is
// true; nothing else ever does. It says which of the repositories can't be fetched.
func (c *catalogue) consider(ctx context.Context, settings *desired.Settings) (considered, []error, error) {
	c.refresh() // of those that stay, the proposal has what the live catalogue has
	other, err := c.Propose(ctx, settings.Repositories)
	if other == nil {
		return considered{}, nil, err
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return considered{other}, list.Unwrap(), nil
	}
	return considered{other}, nil, err
}

// shelved is a package as `jibe get packages` shows it.
type shelved struct {
	VnfdID     string `json:"vnfdId"`
	Version    string `json:"version"`
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	Path       string `json:"path"`
	Tree       string `json:"tree"`
	Problem    string `json:"problem,omitempty"`
}

// list is what the repositories hold, the useless ones included.
func (c *catalogue) list() []shelved {
	list := []shelved{}
	for _, e := range c.List() {
		list = append(list, shelved{VnfdID: e.VnfdID, Version: e.Version, Repository: e.Repository, Ref: e.Ref, Path: e.Path, Tree: e.Tree})
	}
	for _, p := range c.Problems() {
		list = append(list, shelved{VnfdID: p.VnfdID, Version: p.Version, Repository: p.Repository, Ref: p.Ref, Path: p.Path, Tree: p.Tree, Problem: p.Err.Error()})
	}
	return list
}

func unknownPackage(err error) bool { return errors.Is(err, packages.ErrUnknown) }

// Drivers makes the driver of each type of VIM. key is mixed into the digests
// that drivers leave at the VIM; exec lets kubeconfigs name commands and files.
func Drivers(key []byte, exec bool, cloud *sim.Cloud, log *slog.Logger) func(drivers.VIM) (drivers.Driver, error) {
	return func(v drivers.VIM) (drivers.Driver, error) {
		switch v.Type {
		case desired.VIMKubernetes:
			return kubernetes.New(v, kubernetes.Options{Log: log.With("vim", v.Name), DigestKey: key, KubeconfigExec: exec})
		case desired.VIMOpenStack:
			return openstack.New(v, openstack.Options{Log: log.With("vim", v.Name)})
		case desired.VIMSim:
			return sim.New(cloud, v), nil
		}
		return nil, &drivers.RefusedError{Field: "vim", Reason: "VIMs of type " + v.Type + " aren't known; use " + desired.VIMKubernetes + " or " + desired.VIMOpenStack}
	}
}

// apiView is what the API may ask of the reconciler, in the API's words.
type apiView struct {
	*reconciler.View
	problems *problems
}

// Problems implements sol.View.
func (v apiView) Problems(instance string) []desired.Problem { return v.problems.of(instance) }

// Check implements sol.View.
func (v apiView) Check(ctx context.Context, before, after *desired.Instance) error {
	return inAPIWords(v.View.Check(ctx, nil, before, after))
}

// Complete implements sol.View.
func (v apiView) Complete(ctx context.Context, before, after *desired.Instance) (*desired.Instance, error) {
	full, err := v.View.Complete(ctx, before, after)
	return full, inAPIWords(err)
}

// Definitions implements sol.View.
func (v apiView) Definitions(ctx context.Context, before, after *desired.Instance, listed []string) ([]string, error) {
	files, err := v.View.Definitions(ctx, before, after, listed)
	return files, inAPIWords(err)
}

// Find implements sol.View.
func (v apiView) Find(ctx context.Context, vnfdID string) (*vnfd.Package, error) {
	pkg, err := v.View.Find(ctx, vnfdID)
	return pkg, inAPIWords(err)
}

// Package implements sol.View.
func (v apiView) Package(ctx context.Context, in *desired.Instance) (*vnfd.Package, error) {
	pkg, err := v.View.Package(ctx, in)
	return pkg, inAPIWords(err)
}

// inAPIWords says no as a client can act on it.
func inAPIWords(err error) error {
	var refused *drivers.RefusedError
	switch {
	case unknownPackage(err):
		return fmt.Errorf("%w: %w", sol.ErrUnknownPackage, err)
	case errors.Is(err, packages.ErrUnsound):
		return &sol.InvalidError{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	case !errors.As(err, &refused):
		return err
	case refused.Conflict:
		return &sol.InvalidError{Status: http.StatusConflict, Detail: refused.Reason}
	case refused.Field == "vim", refused.Field == "hooks", strings.HasPrefix(refused.Field, "update.coordinate"):
		return &sol.InvalidError{Status: http.StatusUnprocessableEntity, Detail: refused.Reason}
	}
	detail := refused.Reason
	if refused.Object != "" { // a client knows nothing of fields of vnf.yaml
		detail = refused.Error()
	}
	return &sol.InvalidError{Status: http.StatusBadRequest, Detail: detail}
}
