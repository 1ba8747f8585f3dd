package reconciler_test

import (
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestTheTimeInSTARTINGIsKeptToTheSecondAlsoWhileTheVIMIsAway(t *testing.T) {
	t.Parallel()
	// The looks at a VIM that is away come 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 seconds after the first.
	const limit = 3500 * time.Millisecond
	w := newWorld(t, func(c *reconciler.Config) { c.StartTimeout = limit })
	w.cloud.SetAway(drivers.ErrUnavailable)
	w.commit(file("instantiated", ""))
	w.until("it says what it waits for", func() bool {
		now, waits := w.last(lcm.Instantiate, lcm.Starting).Waiting()
		return waits && now.For == "VIM lab, which can't be seen"
	})
	op := w.last(lcm.Instantiate, lcm.RolledBack)
	if took := op.StateEntered.Sub(op.Started); took < limit || took > limit+2500*time.Millisecond {
		t.Errorf("rolled back after %s, not %s", took, limit)
	}
}
