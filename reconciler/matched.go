package reconciler

import (
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// matched refuses a change that would end well and have done nothing: one that is to have units of a VDU for which the
// package has nothing to run. What runs without such a VDU already goes on so, as long as nothing else is asked of it.
func (c *Checker) matched(ctx context.Context, drv drivers.Driver, before *desired.Instance, made drivers.Rendering) error {
	if len(made.Unmatched) == 0 {
		return nil
	}
	after, is := made.Source.Instance, made.Source.Package.VNFD
	var old []drivers.UnmatchedVDU
	var was *vnfd.VNFD
	if before != nil && desired.IsInstantiated(before.State) {
		src, err := sourceOf(ctx, c.packages, c.reveal, before)
		if err != nil {
			return err
		}
		stood, err := drv.Render(src)
		if err != nil {
			return nil // a sound change is how what can't be rendered is repaired
		}
		old, was = stood.Unmatched, src.Package.VNFD
	}

	for _, u := range made.Unmatched {
		if was == nil && u.External {
			continue
		}
		n, known := unitsOf(is, after, u.VDU)
		if known && n == 0 {
			continue
		}
		if was != nil {
			before, _ := unitsOf(was, before, u.VDU)
			lacked := u.External || slices.ContainsFunc(old, func(x drivers.UnmatchedVDU) bool { return x.VDU == u.VDU && x.Reason == u.Reason })
			if lacked && n == before {
				continue
			}
		}
		return &drivers.RefusedError{Object: "VDU " + u.VDU, Reason: u.Reason}
	}

	return nil
}

// unitsOf is how many units the VNFD gives the VDU at the levels of the instance; known is false if it has none of that
// id.
func unitsOf(d *vnfd.VNFD, in *desired.Instance, vdu string) (n int, known bool) {
	flavour, ok := d.Flavour(in.Flavour)
	if !ok {
		return 0, false
	}
	levels, err := flavour.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return 0, false
	}
	for i := range flavour.VDUs {
		if flavour.VDUs[i].ID != vdu {
			continue
		}
		n, err := flavour.Count(&flavour.VDUs[i], in.InstantiationLevel, levels)
		return n, err == nil
	}

	return 0, false
}
