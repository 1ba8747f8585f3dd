package reconciler_test

import (
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// The records' times are of another machine's clock there, or of this one's before it was set.
func TestAnOperationHasItsWholeTimeWhereItsRecordsTimeIsWrong(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"an hour ago": time.Hour, "in an hour": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := running(t, "", func(c *reconciler.Config) { c.Timeout, c.StartTimeout = 30*time.Second, 30*time.Second })
			w.passed.Store(int64(ahead))
			w.cloud.SetLatency(time.Hour)
			w.commit(file("instantiated", "levels: {web: 2}\n"))
			w.last(lcm.Scale, lcm.Processing)
			w.looks()
			w.last(lcm.Scale, lcm.Processing)
			w.wait(31 * time.Second)
			w.last(lcm.Scale, lcm.FailedTemp)
		})
	}
}
