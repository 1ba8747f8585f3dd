package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Checker says whether a change would be refused, without looking at any VIM.
// The API, the push hook, `jibe validate` and the reconciler ask the same one.
type Checker struct {
	packages  Packages
	renderers *renderers
	reveal    reveal
	python    *hooks.Interpreter
	// earlier is [desired.Repo.Earlier]; nil knows of nothing earlier.
	earlier func(ctx context.Context, instance string, fn func(*desired.Instance) bool) error
	// own is the namespace in which Jibe itself runs, "" where it runs in none.
	own string
	// usage counts what projects use; nil knows no quotas. proposed counts in place of what head
	// has.
	usage    *usage
	proposed map[string]used
	// needs holds instances against those that they need; nil knows of no others.
	needs *needsCheck
}

// NewChecker makes a Checker. driver and reveal are [Config.Driver] and [Config.Reveal].
func NewChecker(packages Packages, driver func(drivers.VIM) (drivers.Driver, error), reveal func(params map[string]any) (map[string]any, error)) *Checker {
	return &Checker{packages: packages, reveal: reveal, python: &hooks.Interpreter{}, renderers: newRenderers(driver)}
}

// renderers are drivers that are connected to no VIM.
type renderers struct {
	make func(drivers.VIM) (drivers.Driver, error)
	// inCluster is [Config.InCluster].
	inCluster []string

	mu     sync.Mutex
	byType map[string]drivers.Driver
	// confined are those for a VIM that is used in some namespaces alone, by these and its name.
	confined map[string]drivers.Driver
}

// maxConfined is how many drivers for VIMs with namespaces are kept: proposed settings may name any.
const maxConfined = 64

func newRenderers(driver func(drivers.VIM) (drivers.Driver, error)) *renderers {
	return &renderers{make: driver, byType: make(map[string]drivers.Driver), confined: make(map[string]drivers.Driver)}
}

// noEndpoint is the endpoint of drivers that only render: a driver asks its VIM
// nothing until it has to, and this name never resolves (RFC 6761 clause 6.4).
const noEndpoint = "https://nowhere.invalid"

// of is a driver that can render for this type of VIM.
func (r *renderers) of(vimType string) (drivers.Driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if drv, ok := r.byType[vimType]; ok {
		return drv, nil
	}
	drv, err := r.make(nowhereAt("none", vimType))
	if err == nil {
		r.byType[vimType] = drv
	}
	return drv, err
}

// nowhereAt is a VIM to which nothing can be connected.
func nowhereAt(name, vimType string) drivers.VIM {
	return drivers.VIM{Name: name, Type: vimType, Endpoint: noEndpoint, Username: "nobody", Password: "none", Project: "none"}
}

// at is a driver that can render for the VIM, and knows the namespaces in which that is used.
func (r *renderers) at(vim desired.Place) (drivers.Driver, error) {
	t, err := vimType(vim)
	if err != nil {
		return nil, err
	}
	namespaces := r.namespaces(vim.File)
	if len(namespaces) == 0 {
		return r.of(t)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%q %t %q", vim.Name, vim.File.InCluster, namespaces)
	if drv, ok := r.confined[key]; ok {
		return drv, nil
	}
	if len(r.confined) >= maxConfined {
		clear(r.confined) // they have no connection that is to be closed
	}
	nowhere := nowhereAt(vim.Name, t)
	nowhere.InCluster, nowhere.Namespaces = vim.File.InCluster, namespaces
	drv, err := r.make(nowhere)
	if err == nil {
		r.confined[key] = drv
	}
	return drv, err
}

// namespaces are those in which the VIM of the file, which may be nil, is used; none means all.
func (r *renderers) namespaces(file *desired.VIM) []string {
	switch {
	case file == nil:
		return nil
	case file.InCluster && len(file.Namespaces) == 0:
		return r.inCluster
	}
	return file.Namespaces
}

// driver is one that can render for the VIMs at which the instance runs.
func (r *renderers) driver(settings *desired.Settings, inst *desired.Instance) (drivers.Driver, error) {
	list, err := places(settings, inst)
	if err != nil {
		return nil, err
	}
	parts := make([]multi.Part, len(list))
	for i, at := range list {
		drv, err := r.at(at)
		var refused *drivers.RefusedError
		if err != nil && !errors.As(err, &refused) {
			err = &drivers.RefusedError{Field: "vim", Reason: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		parts[i] = multi.Part{Name: at.Name, Driver: drv}
	}
	if len(parts) == 1 {
		return parts[0].Driver, nil
	}
	return multi.New(parts[0], parts[1:]...), nil
}

// pkg is the package that the instance runs, or would run where none is pinned.
func (c *Checker) pkg(ctx context.Context, inst *desired.Instance) (*vnfd.Package, error) {
	tree := inst.Package
	if tree == "" {
		var err error
		if tree, err = c.newest(ctx, inst); err != nil {
			return nil, err
		}
	}
	return c.packages.Open(ctx, tree)
}

// Check says whether the change from before to after would be refused: by the
// VNFD's rules, by what the VIM's driver can never do, or because it names a
// package, flavour, aspect or VIM that doesn't exist, or what the instance's project doesn't
// allow. before may be nil. The
// error is a [*drivers.RefusedError] whose Field is the key of vnf.yaml; any
// other error means that there is no answer now. settings are those that the change
// would meet.
func (c *Checker) Check(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if err := c.needs.check(ctx, settings, before, after); err != nil {
		return err
	}
	if after == nil {
		return c.hooks(ctx, settings, before, nil)
	}
	after, err := c.Complete(ctx, settings, before, after)
	if err != nil {
		return err
	}
	if !desired.IsInstantiated(after.State) && c.stale(ctx, before, after) {
		// It is to end before its change of package was pinned, and the next
		// instantiation pins anew.
		open := *after
		open.Package = ""
		after = &open
	}
	if err := remainsPlaced(settings, before, after); err != nil {
		return err
	}
	pkg, err := c.pkg(ctx, after)
	if err != nil {
		return fmt.Errorf("package of vnfdId %s: %w", after.VnfdID, err)
	}
	if pkg.VNFD.ID != after.VnfdID {
		return &drivers.RefusedError{Field: "package", Reason: fmt.Sprintf(
			"package %s holds vnfdId %s, not %s", after.Package, pkg.VNFD.ID, after.VnfdID)}
	}
	if !desired.IsInstantiated(after.State) {
		return c.hooks(ctx, settings, before, after)
	}
	if _, _, due := lcm.Classify(before, after); due {
		if err := c.sound(ctx, before, after); err != nil {
			return err
		}
	}
	flavour, ok := pkg.VNFD.Flavour(after.Flavour)
	if !ok {
		return &drivers.RefusedError{Field: "flavour", Reason: fmt.Sprintf(
			"flavour %q is unknown to VNFD %s; it has %s", after.Flavour, pkg.VNFD.ID, flavourIDs(pkg.VNFD))}
	}
	levels, err := flavour.ScaleLevels(after.InstantiationLevel, after.Levels)
	if errors.Is(err, vnfd.ErrUnknownLevel) {
		return &drivers.RefusedError{Field: "instantiationLevel", Reason: err.Error()}
	}
	if err != nil {
		return &drivers.RefusedError{Field: "levels", Reason: err.Error()}
	}
	for i := range flavour.VDUs {
		if _, err := flavour.Count(&flavour.VDUs[i], after.InstantiationLevel, levels); err != nil {
			return &drivers.RefusedError{Field: "levels", Reason: err.Error()}
		}
	}
	if err := hooks.CheckUserData(pkg, after); err != nil {
		return asRefused(err)
	}
	drv, err := c.renderers.driver(settings, after)
	if err != nil {
		return err
	}
	if err := c.hooks(ctx, settings, before, after); err != nil {
		return err
	}
	if before != nil && desired.IsInstantiated(before.State) {
		if before, err = c.Complete(ctx, settings, nil, before); err != nil {
			return err
		}
		if err := c.change(ctx, settings, drv, before, after); err != nil {
			return err
		}
	}
	if err := c.inProject(ctx, settings, before, after); err != nil {
		return err
	}
	src, err := sourceOf(ctx, c.packages, c.reveal, after)
	if err != nil {
		return err
	}
	made, err := drv.Render(src)
	if err != nil {
		return err
	}
	if err := c.matched(ctx, drv, before, made); err != nil {
		return err
	}
	if err := c.confined(settings, drv, before, after, made); err != nil {
		return err
	}
	return c.honoured(ctx, drv, before, made)
}

// sound says whether the checksums hold of every package of which the instance is to
// be made. An instance that runs such a package already is left alone: it was accepted
// once, and a sound package repairs it better than its end. A package that is disabled, or whose
// signature counts no more, may go on to run where it runs before: it is only kept from what is
// new.
func (c *Checker) sound(ctx context.Context, before, inst *desired.Instance) error {
	var runs []string
	if before != nil && desired.IsInstantiated(before.State) {
		runs = treesOf(before)
	}
	for _, tree := range treesOf(inst) {
		err := c.packages.Verify(ctx, tree)
		if (errors.Is(err, packages.ErrDisabled) || errors.Is(err, packages.ErrUnverified)) && slices.Contains(runs, tree) {
			continue
		}
		if err != nil {
			return fmt.Errorf("package of vnfdId %s: %w", inst.VnfdID, err)
		}
	}
	return nil
}

// treesOf are the packages that the instance pins.
func treesOf(inst *desired.Instance) []string {
	trees := []string{inst.Package, inst.Base}
	for _, o := range inst.Overlays {
		trees = append(trees, o.Package)
	}
	for _, pin := range inst.VDUs {
		trees = append(trees, pin.Package)
	}
	return slices.DeleteFunc(trees, func(tree string) bool { return tree == "" })
}

// Definitions is [drivers.Driver.Definitions] of the VIM that after names; nil where
// it knows none.
func (c *Checker) Definitions(ctx context.Context, settings *desired.Settings, before, after *desired.Instance, listed []string) ([]string, error) {
	after, err := c.Complete(ctx, settings, before, after)
	if err != nil {
		return nil, err
	}
	drv, err := c.renderers.driver(settings, after)
	if err != nil {
		return nil, err
	}
	from, err := sourceOf(ctx, c.packages, c.reveal, before)
	if err != nil {
		return nil, err
	}
	to, err := sourceOf(ctx, c.packages, c.reveal, after)
	if err != nil {
		return nil, err
	}
	return drv.Definitions(from, to, listed)
}

func flavourIDs(d *vnfd.VNFD) string {
	var ids []string
	for _, f := range d.Flavours {
		ids = append(ids, f.ID)
	}
	return strings.Join(ids, ", ")
}
