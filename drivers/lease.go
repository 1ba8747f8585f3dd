package drivers

import (
	"context"
	"fmt"
	"time"
)

// leastLease is how much of a lease must be left for a request that changes something: less than
// between two renewals where replicas share the work, so that it is there whenever the store answers.
const leastLease = time.Second

type leaseKey struct{}

// Leased returns a context in which a VIM is changed under a lease. left says for how long that is held
// yet, by the holder's own clock: it is renewed meanwhile, and a process that was stopped finds it ended.
func Leased(ctx context.Context, left func() time.Duration) context.Context {
	return context.WithValue(ctx, leaseKey{}, left)
}

// MayChange says whether a request that changes something at a VIM may begin now. A driver MUST ask
// it for each such request when it is about to be sent, not once for several, and have the VIM
// give up after limit where that can be told; 0 is no limit, as ctx isn't [Leased]. An error wraps
// [ErrUnavailable]: too little is left of the lease, and another process may be at work when the VIM
// gets to the request.
func MayChange(ctx context.Context) (limit time.Duration, err error) {
	left, ok := ctx.Value(leaseKey{}).(func() time.Duration)
	if !ok {
		return 0, nil
	}
	if limit = left(); limit < leastLease {
		return 0, fmt.Errorf("%w: nothing was sent, as the lease of the instance lasts for only %s", ErrUnavailable, max(0, limit).Round(time.Millisecond))
	}
	return limit, nil
}
