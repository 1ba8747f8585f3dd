package kit

import (
	"context"
	"testing/synctest"
	"time"
)

// Pass lets d of the time of a [synctest] bubble pass, which takes none of the machine's, and all happen that is
// due then. It panics outside of a bubble.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Pause is the time between two deeds of an actor of the test: a client that asks again and again, or the moment of
// a kill. It ends early with ctx. It doesn't wait for a result: that is [Eventually].
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Rest is [Pause] that ends early with stop, too, and reports whether neither ended it.
func Rest(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	default:
	}
	select {
	case <-stop:
		return false
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
