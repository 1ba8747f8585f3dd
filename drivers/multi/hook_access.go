package multi

import (
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

// AccessAs implements [drivers.BoundAccess] for all parts.
func (d *Driver) AccessAs(ctx context.Context, b *drivers.Bounds, lifetime time.Duration) (map[string][]byte, error) {
	return d.access(func(part drivers.Driver) (map[string][]byte, error) {
		return drivers.AccessFor(ctx, part, b, lifetime)
	})
}
