package reconciler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestTheTimeInSTARTINGIsKeptToTheSecondAlsoWhileTheVIMIsAway(t *testing.T) {
	t.Parallel()
	// The looks at a VIM that is away come 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 seconds after the first.
	const limit, late = 3500 * time.Millisecond, 2500 * time.Millisecond
	var op *lcm.Operation
	for range 4 { // a machine that stands still keeps no time, but it doesn't stand still each time
		op = givenUp(t, limit)
		if took := op.StateEntered.Sub(op.Started); took < limit {
			t.Fatalf("rolled back after %s, not %s", took, limit)
		} else if took > limit+late {
			continue
		}
		if !slices.ContainsFunc(op.Story, func(l lcm.StoryLine) bool { return strings.HasSuffix(l.Text, "VIM lab, which can't be seen") }) {
			t.Errorf("it doesn't say what it waited for: %v", op.Story)
		}
		return
	}
	t.Errorf("rolled back after %s, not %s", op.StateEntered.Sub(op.Started), limit)
}

// givenUp is an instantiation at a VIM that is away, once its time in STARTING is over.
func givenUp(t *testing.T, limit time.Duration) *lcm.Operation {
	t.Helper()
	w := newWorld(t, func(c *reconciler.Config) { c.StartTimeout = limit })
	defer func() { w.stop() }()
	w.cloud.SetAway(drivers.ErrUnavailable)
	w.commit(file("instantiated", ""))
	return w.last(lcm.Instantiate, lcm.RolledBack)
}
