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

// Pause is the time between two deeds of somebody whom a test plays: a client that asks again and again, or the
// moment of a kill. It ends early with ctx. It is no wait for something to come about: that is [Eventually].
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
