package reconciler

import (
	"slices"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestContentionIsSeenAtAnyPeriod(t *testing.T) {
	t.Parallel()
	const web, db = "Deployment/ns/web", "StatefulSet/ns/db"
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	repair := func(ago time.Duration, objects ...string) *lcm.Operation {
		at := now.Add(-ago)
		return &lcm.Operation{Started: at, StateEntered: at.Add(time.Millisecond), State: lcm.Completed, Repairs: objects}
	}
	every := func(period time.Duration, objects ...string) (past []*lcm.Operation) {
		for i := range 8 {
			past = append(past, repair(time.Duration(i+1)*period, objects...))
		}
		return past
	}
	ended := func(ago time.Duration, state lcm.State) *lcm.Operation {
		op := repair(time.Hour, web)
		op.Contended, op.Period, op.State, op.StateEntered = true, 20*time.Second, state, now.Add(-ago)
		return op
	}
	for name, c := range map[string]struct {
		past   []*lcm.Operation
		period time.Duration // 0: it isn't contended
	}{
		"never repaired":                {nil, 0},
		"at once":                       {every(time.Millisecond, web), time.Millisecond},
		"an autoscaler":                 {every(15*time.Second, web), 15 * time.Second},
		"a minute":                      {every(time.Minute, web), time.Minute},
		"a cron job of five minutes":    {every(5*time.Minute+time.Second, web), 5*time.Minute + time.Second},
		"a quarter of an hour":          {every(15*time.Minute, web), 0},
		"four repairs":                  {every(time.Minute, web)[:4], 0},
		"five repairs":                  {every(time.Minute, web)[:5], time.Minute},
		"of another object":             {every(time.Minute, db), 0},
		"of both":                       {every(time.Minute, db, web), time.Minute},
		"with those of another between": {slices.Concat(every(time.Minute, db)[:1], every(time.Minute, web)), time.Minute},
		"by fits and starts":            {[]*lcm.Operation{repair(time.Second, web), repair(4*time.Minute, web), repair(5*time.Minute, web), repair(6*time.Minute, web), repair(9*time.Minute, web)}, 4*time.Minute - time.Second},
		"with an hour between":          {[]*lcm.Operation{repair(time.Second, web), repair(time.Minute, web), repair(time.Hour, web), repair(61*time.Minute, web), repair(62*time.Minute, web)}, 0},
		"contention that gave way to a request just now": {[]*lcm.Operation{ended(time.Second, lcm.Failed)}, 20 * time.Second},
		"contention that ended well just now":            {slices.Concat([]*lcm.Operation{ended(time.Second, lcm.Completed)}, every(time.Second, web)), 0},
		"contention of long ago":                         {[]*lcm.Operation{ended(time.Hour, lcm.Failed)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := contentionOf(c.past, []string{web, "Service/ns/web"}, now)

			if got.contended != (c.period > 0) || got.period != c.period {
				t.Errorf("contended %v with period %v, want %v", got.contended, got.period, c.period)
			}
		})
	}
}

func TestAContendedRepairRestsLongerThanItStands(t *testing.T) {
	t.Parallel()
	p := repairPause(10 * time.Second)
	for _, c := range []struct {
		period  time.Duration
		attempt int
		want    time.Duration
	}{
		{0, 1, 10 * time.Second}, {0, 2, 20 * time.Second}, {0, 20, 5 * time.Minute},
		{15 * time.Second, 1, 30 * time.Second}, {15 * time.Second, 3, 2 * time.Minute}, {15 * time.Second, 20, 5 * time.Minute},
		{5 * time.Minute, 1, 10 * time.Minute}, {5 * time.Minute, 20, 10 * time.Minute},
	} {
		if got := p.of(&lcm.Operation{Attempt: c.attempt, Contended: c.period > 0, Period: c.period}); got != c.want {
			t.Errorf("attempt %d of what is undone after %v rests %v, want %v", c.attempt, c.period, got, c.want)
		}
	}
}
