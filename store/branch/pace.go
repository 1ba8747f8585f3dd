package branch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// How often whoever waits for the end of an interval looks: in parts of it, within bounds.
const (
	paceLooks   = 50
	minPaceLook = 10 * time.Millisecond
	maxPaceLook = 500 * time.Millisecond
)

// Pace waits until the last push of all replicas has ended an interval ago, or ctx ends. ended is
// called, once, when the push has ended, or won't be made.
//
// How long ago that is, is told by no clock of a replica: they may differ. Counted from the moment
// when the turn came over, it would be known, but each change of turns would cost an interval after
// a quiet time, too. So it is a lease, which ends by the clock of the store: whoever may push has
// it, renews it meanwhile, and leaves it to end by itself an interval after the push. Its holder
// is another one for each push, so that no replica renews what an earlier push has left. That of a
// replica that died ends in the same way.
func (t *Turns) Pace(ctx context.Context, interval time.Duration) (ended func(pushed bool), err error) {
	holder := fmt.Sprintf("%s/%d", t.holder, t.paced.Add(1))
	lease, err := t.store.Acquire(ctx, t.pushed, holder, interval)
	for errors.Is(err, store.ErrHeld) {
		select {
		case <-time.After(min(max(interval/paceLooks, minPaceLook), maxPaceLook)):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the next push: %w: %w", ctx.Err(), err)
		}
		lease, err = t.store.Acquire(ctx, t.pushed, holder, interval)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for the next push: %w", err)
	}
	stop := t.renew(context.WithoutCancel(ctx), t.pushed, holder, interval)
	return func(pushed bool) {
		stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.ttl)
		defer cancel()
		if pushed {
			_, _ = t.store.Acquire(ctx, t.pushed, holder, interval) // where it fails, the interval began at the last renewal
		} else {
			_ = t.store.Release(ctx, lease)
		}
	}, nil
}
