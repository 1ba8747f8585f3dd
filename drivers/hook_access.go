package drivers

import (
	"context"
	"time"
)

// BoundAccess is implemented by drivers whose VIM can give a hook less than Jibe has.
type BoundAccess interface {
	// AccessAs is as [Driver.Access], where the bounds name an account with credentials of that
	// account alone, which end about when the lifetime has passed. It MUST NOT give others in
	// their place where the VIM gives none.
	AccessAs(ctx context.Context, b *Bounds, lifetime time.Duration) (map[string][]byte, error)
}

// AccessFor is what a hook of an instance that is so bounded is given of the driver's VIM.
func AccessFor(ctx context.Context, d Driver, b *Bounds, lifetime time.Duration) (map[string][]byte, error) {
	if bound, ok := d.(BoundAccess); ok {
		return bound.AccessAs(ctx, b, lifetime)
	}
	return d.Access()
}
