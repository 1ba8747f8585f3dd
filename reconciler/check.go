package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Checker says whether a change would be refused, without looking at any VIM.
// The API, the push hook, `jibe validate` and the reconciler ask the same one.
type Checker struct {
	packages Packages
	driver   func(drivers.VIM) (drivers.Driver, error)

	mu        sync.Mutex
	renderers map[string]drivers.Driver // by VIM type
}

// NewChecker makes a Checker. driver is [Config.Driver].
func NewChecker(packages Packages, driver func(drivers.VIM) (drivers.Driver, error)) *Checker {
	return &Checker{packages: packages, driver: driver, renderers: make(map[string]drivers.Driver)}
}

// noEndpoint is the endpoint of drivers that only render: a driver asks its VIM
// nothing until it has to, and this name never resolves (RFC 6761 clause 6.4).
const noEndpoint = "https://nowhere.invalid"

// renderer is a driver that can render for this type of VIM, connected to none.
func (c *Checker) renderer(vimType string) (drivers.Driver, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if drv, ok := c.renderers[vimType]; ok {
		return drv, nil
	}
	drv, err := c.driver(drivers.VIM{Name: "none", Type: vimType, Endpoint: noEndpoint})
	if err == nil {
		c.renderers[vimType] = drv
	}
	return drv, err
}

// pkg is the package that the instance runs, or would run where none is pinned.
func (c *Checker) pkg(ctx context.Context, inst *desired.Instance) (*vnfd.Package, error) {
	tree := inst.Package
	if tree == "" {
		var err error
		if tree, err = c.packages.Newest(inst.VnfdID); err != nil {
			return nil, err
		}
	}
	return c.packages.Open(ctx, tree)
}

// Check says whether the change from before to after would be refused: by the
// VNFD's rules, by what the VIM's driver can never do, or because it names a
// package, flavour, aspect or VIM that doesn't exist. before may be nil. The
// error is a [*drivers.RefusedError] whose Object is the field of vnf.yaml; any
// other error means that there is no answer now. settings are those that the change
// would meet.
func (c *Checker) Check(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error {
	if after == nil {
		return nil
	}
	pkg, err := c.pkg(ctx, after)
	if err != nil {
		return fmt.Errorf("package of vnfdId %s: %w", after.VnfdID, err)
	}
	if pkg.VNFD.ID != after.VnfdID {
		return &drivers.RefusedError{Object: "package", Reason: fmt.Sprintf(
			"package %s holds vnfdId %s, not %s", after.Package, pkg.VNFD.ID, after.VnfdID)}
	}
	if before != nil && before.State == desired.Instantiated && after.State == desired.Instantiated {
		if err := unsupported(before, after); err != nil {
			return err
		}
	}
	if after.State != desired.Instantiated {
		return nil
	}
	flavour, ok := pkg.VNFD.Flavour(after.Flavour)
	if !ok {
		return &drivers.RefusedError{Object: "flavour", Reason: fmt.Sprintf(
			"flavour %q is unknown to VNFD %s; it has %s", after.Flavour, pkg.VNFD.ID, flavourIDs(pkg.VNFD))}
	}
	levels, err := flavour.ScaleLevels(after.InstantiationLevel, after.Levels)
	if errors.Is(err, vnfd.ErrUnknownLevel) {
		return &drivers.RefusedError{Object: "instantiationLevel", Reason: err.Error()}
	}
	if err != nil {
		return &drivers.RefusedError{Object: "levels", Reason: err.Error()}
	}
	for i := range flavour.VDUs {
		if _, err := flavour.Count(&flavour.VDUs[i], after.InstantiationLevel, levels); err != nil {
			return &drivers.RefusedError{Object: "levels", Reason: err.Error()}
		}
	}
	vimType, err := typeOfVIM(settings, after)
	if err != nil {
		return err
	}
	drv, err := c.renderer(vimType)
	if err != nil {
		return &drivers.RefusedError{Object: "vim", Reason: err.Error()}
	}
	_, err = drv.Render(drivers.Source{Instance: after, Package: pkg})
	return err
}

// unsupported refuses what this version can't carry out on a running VNF.
func unsupported(before, after *desired.Instance) error {
	switch {
	case before.VnfdID != after.VnfdID, before.Package != "" && after.Package != "" && before.Package != after.Package:
		return &drivers.RefusedError{Object: "vnfdId", Reason: "changing the package of a running VNF is not supported yet; set state: notInstantiated first"}
	case before.Flavour != after.Flavour:
		return &drivers.RefusedError{Object: "flavour", Reason: "the flavour of a running VNF can't be changed; set state: notInstantiated first"}
	}
	return nil
}

func typeOfVIM(settings *desired.Settings, inst *desired.Instance) (string, error) {
	if inst.VIM == "" && len(inst.VIMConnections) > 0 {
		for _, c := range inst.VIMConnections {
			t, ok := desired.NormalVIMType(c.VimType)
			if !ok {
				return "", &drivers.RefusedError{Object: "vimConnectionInfo", Reason: fmt.Sprintf("vimType %q is unknown", c.VimType)}
			}
			return t, nil
		}
	}
	named, err := NamedVIM(settings, inst)
	if err != nil {
		return "", err
	}
	return named.Type, nil
}

func flavourIDs(d *vnfd.VNFD) string {
	var ids []string
	for _, f := range d.Flavours {
		ids = append(ids, f.ID)
	}
	return strings.Join(ids, ", ")
}
