package reconciler

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// limit fills in which VDUs a change of package leaves as they are: those that would change
// and that update.vdus doesn't name, where it names some. open says that the author left the
// package to Jibe, and with it everything that is filled in for a change of package: without
// a limit such a change ends an earlier one. Errors are those of [Checker.Check].
func (c *Checker) limit(ctx context.Context, settings *desired.Settings, before, next *desired.Instance, open bool) error {
	named := next.Update.VDUs
	switch {
	case len(next.Overlays) > len(before.Overlays):
		return nil // a container update: it says itself which pods change
	case !maps.EqualFunc(before.VDUs, next.VDUs, samePin):
		return nil // the change says itself what stays
	case len(named) == 0:
		if open && next.Package != before.Package {
			next.VDUs = nil
		}
		return nil
	case next.Package == before.Package:
		next.VDUs = maps.Clone(before.VDUs)
		for _, vdu := range named {
			delete(next.VDUs, vdu)
		}
		return nil
	}
	pins, err := c.unnamed(ctx, settings, before, next)
	if err != nil {
		return err
	}
	const remedy = ": name all VDUs that change (vdu_params, update.vdus), or none"
	switch left := strings.Join(slices.Sorted(maps.Keys(pins)), ", "); {
	case len(pins) == 0:
	case next.Update.Strategy == desired.BlueGreen:
		return &drivers.RefusedError{Field: "update.vdus", Reason: fmt.Sprintf(
			"VDU %s would change too and isn't named, and a blue-green change makes a new generation of every VDU%s, or take a rolling update", left, remedy)}
	case len(before.Overlays) > 0:
		return &drivers.RefusedError{Field: "update.vdus", Reason: fmt.Sprintf(
			"VDU %s can't stay as it is: container updates lie on its package, which end with a change of package%s", left, remedy)}
	}
	next.VDUs = pins
	return nil
}

func samePin(a, b desired.VDUPin) bool {
	return a.Package == b.Package && slices.Equal(a.Files, b.Files)
}

// unnamed are the pins of the VDUs that the change of package would change although
// update.vdus doesn't name them.
func (c *Checker) unnamed(ctx context.Context, settings *desired.Settings, before, next *desired.Instance) (map[string]desired.VDUPin, error) {
	drv, err := c.renderers.driver(settings, next)
	if err != nil {
		return nil, err
	}
	// Everything but the package is as the change has it, so that this is what makes the difference.
	is := *next
	is.VDUs, is.Generation = nil, before.Generation
	was := is
	was.VnfdID, was.Package, was.Base, was.Overlays, was.VDUs, was.Params = before.VnfdID, before.Package, before.Base, before.Overlays, before.VDUs, before.Params
	from, err := c.render(ctx, drv, &was)
	if err != nil {
		return nil, fmt.Errorf("what runs: %w", err)
	}
	to, err := c.render(ctx, drv, &is)
	if err != nil {
		return nil, err
	}
	for _, vdu := range next.Update.VDUs {
		if f, ok := to.Source.Package.VNFD.Flavour(next.Flavour); ok && !slices.ContainsFunc(f.VDUs, func(x vnfd.VDU) bool { return x.ID == vdu }) {
			return nil, &drivers.RefusedError{Field: "update.vdus", Reason: fmt.Sprintf("flavour %s of VNFD %s has no VDU %s", f.ID, next.VnfdID, vdu)}
		}
	}
	pins := map[string]desired.VDUPin{}
	for _, vdu := range touched(from.Groups, to.Groups) {
		if slices.Contains(next.Update.VDUs, vdu) {
			continue
		}
		for _, side := range []struct {
			groups []plan.Group
			vnfd   string
		}{{from.Groups, before.VnfdID}, {to.Groups, next.VnfdID}} {
			if !slices.ContainsFunc(side.groups, func(g plan.Group) bool { return g.VDU == vdu }) {
				return nil, &drivers.RefusedError{Field: "update.vdus", Reason: fmt.Sprintf(
					"VDU %s isn't named and can't stay as it is, as there is nothing of it in the package of VNFD %s: name it too, or none", vdu, side.vnfd)}
			}
		}
		pin, pinned := before.VDUs[vdu]
		if !pinned {
			pin = desired.VDUPin{Package: before.Package, Files: filesOf(before.Params)}
		}
		pins[vdu] = pin
	}
	return pins, nil
}

// honoured refuses a pin that comes from elsewhere than a limited change of what runs, and
// with which the VDU isn't what the pin's package makes of it. before may be nil.
func (c *Checker) honoured(ctx context.Context, drv drivers.Driver, before *desired.Instance, made drivers.Rendering) error {
	for _, vdu := range slices.Sorted(maps.Keys(made.Source.Instance.VDUs)) {
		pin := made.Source.Instance.VDUs[vdu]
		if before != nil && desired.IsInstantiated(before.State) && (samePin(before.VDUs[vdu], pin) || before.Package == pin.Package) {
			continue // see staysAsPinned
		}
		alone := *made.Source.Instance
		alone.Package, alone.Base, alone.Overlays, alone.VDUs = pin.Package, "", nil, nil
		alone.Params = maps.Clone(alone.Params)
		delete(alone.Params, manifestsKey)
		if len(pin.Files) > 0 {
			alone.Params[manifestsKey] = pin.Files
		}
		want, err := c.render(ctx, drv, &alone)
		if err != nil {
			return drivers.About("vdus."+vdu, err)
		}
		if slices.Contains(touched(want.Groups, made.Groups), vdu) {
			return &drivers.RefusedError{Field: "vdus." + vdu, Reason: fmt.Sprintf(
				"VDU %s isn't what package %s makes of it: its VIM can't run VDUs of several packages (on OpenStack one package makes the whole stack), or the pin is wrong: remove it", vdu, pin.Package)}
		}
	}
	return nil
}

// render is what the instance should be at its VIM.
func (c *Checker) render(ctx context.Context, drv drivers.Driver, inst *desired.Instance) (drivers.Rendering, error) {
	src, err := sourceOf(ctx, c.packages, c.reveal, inst)
	if err != nil {
		return drivers.Rendering{}, err
	}
	return drv.Render(src)
}

// touched are the VDUs whose units differ between two renderings, in order. One of which a
// driver doesn't tell what its units are made of counts as differing.
func touched(before, after []plan.Group) []string {
	made := func(groups []plan.Group) map[string][]string {
		out := map[string][]string{}
		for _, g := range groups {
			out[g.VDU] = append(out[g.VDU], g.Digest)
		}
		return out
	}
	was, is := made(before), made(after)
	all := map[string]bool{}
	for _, side := range []map[string][]string{was, is} {
		for vdu, digests := range side {
			if slices.Contains(digests, "") || !reflect.DeepEqual(was[vdu], is[vdu]) {
				all[vdu] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// filesOf is the list of manifests in the parameters, nil where there is none. It is checked
// where it is read.
func filesOf(params map[string]any) []string {
	list, _ := params[manifestsKey].([]any)
	var files []string
	for _, x := range list {
		if s, ok := x.(string); ok {
			files = append(files, s)
		}
	}
	return files
}

// manifestsKey is the parameter that lists the manifests of a package.
const manifestsKey = "lcm-kubernetes-def-files"

// staysAsPinned refuses a change under which a VDU that is pinned would change all the same:
// by what its driver can't keep apart, or by another part of the change.
func staysAsPinned(drv drivers.Driver, before, after drivers.Source) error {
	pins := after.Instance.VDUs
	if len(pins) == 0 {
		return nil
	}
	refuse := func(vdu, format string, args ...any) error {
		return &drivers.RefusedError{Field: "vdus." + vdu, Reason: fmt.Sprintf("VDU "+vdu+" can't stay with its package: "+format, args...) +
			": name all VDUs that change (vdu_params, update.vdus), or none"}
	}
	first := slices.Sorted(maps.Keys(pins))[0]
	switch {
	case after.Instance.Generation != before.Instance.Generation:
		return refuse(first, "a blue-green change makes a new generation of every VDU")
	case len(after.Instance.Overlays) > 0:
		return refuse(first, "a container update needs one package that all VDUs are of")
	}
	was, err := drv.Render(before)
	if err != nil {
		return fmt.Errorf("what runs: %w", err)
	}
	is, err := drv.Render(after)
	if err != nil {
		return err
	}
	changes := touched(was.Groups, is.Groups)
	for _, vdu := range slices.Sorted(maps.Keys(pins)) {
		if old, had := before.Instance.VDUs[vdu]; had && !samePin(old, pins[vdu]) || !had && pins[vdu].Package != before.Instance.Package {
			continue // it is to change, to the package that the pin names
		}
		if slices.Contains(changes, vdu) {
			return refuse(vdu, "its VIM changes it all the same (on OpenStack one package makes the whole stack), or another part of the request does")
		}
	}
	return nil
}
