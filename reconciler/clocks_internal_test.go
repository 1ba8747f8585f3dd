package reconciler

import (
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestARepairRestsNoLongerThanItsPauseWhateverTimeItsRecordHas(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct{ entered, rested time.Duration }{
		"it failed a minute ago":                {-time.Minute, time.Minute},
		"its record's time is yet to come":      {time.Hour, 0},
		"its record's time is that of long ago": {-time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed := time.Duration(0)
			x := clocks{newMemory(), "an instance", func() time.Time { return now.Add(passed) }}
			op := &lcm.Operation{ID: "a repair", StateEntered: now.Add(c.entered).Round(0)}
			for _, passed = range []time.Duration{0, time.Second, time.Minute} {
				if rested := x.now().Sub(x.rests(op)).Round(time.Millisecond); rested != c.rested+passed {
					t.Errorf("after %s it has rested for %s, want %s", passed, rested, c.rested+passed)
				}
			}
			op.StateEntered = op.StateEntered.Add(time.Second) // it failed once more
			if rested := x.now().Sub(x.rests(op)); rested >= c.rested+passed {
				t.Errorf("once more it has rested for %s", rested)
			}
		})
	}
}
