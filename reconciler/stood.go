package reconciler

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// stood is the rendering of an instance that is to end, as it was at the revision; nil where it
// can't be rendered any more. By it a driver knows what an earlier version of Jibe made of it.
func (r resolver) stood(ctx context.Context, drv drivers.Driver, at desired.Revision, inst *desired.Instance) *drivers.Rendering {
	src, err := sourceOf(ctx, r.packages, r.reveal, inst)
	if err != nil {
		return nil
	}
	made, err := r.renderings.of(drv, at, src)
	if err != nil {
		return nil
	}
	return &made
}
