package automation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
)

// How long an answer of Prometheus counts, so that pages and metrics don't ask it each time, and how long all
// queries of a gate may take: a scrape of metrics waits for them.
const (
	checkedFor  = 10 * time.Second
	checkedTime = 3 * time.Second
)

// checks are the queries of gates with their last answers.
type checks struct {
	queries RolloutQueries

	mu   sync.Mutex
	last map[desired.RolloutQuery]checked
}

type checked struct {
	at  time.Time
	why string
}

func newChecks(queries RolloutQueries) *checks {
	return &checks{queries: queries, last: map[desired.RolloutQuery]checked{}}
}

// ask says whether all queries are met. One that nobody can tell of isn't.
func (c *checks) ask(ctx context.Context, all []desired.RolloutQuery, now time.Time) *rollout.Checked {
	ctx, cancel := context.WithTimeout(ctx, checkedTime)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for q, a := range c.last {
		if now.Sub(a.at) >= checkedFor || now.Before(a.at) {
			delete(c.last, q)
		}
	}
	for _, q := range all {
		a, known := c.last[q]
		if !known {
			why, err := c.queries.Ask(ctx, q, now)
			if err != nil {
				why = "nobody can tell: " + clipped(err.Error())
			}
			a = checked{now, why}
			c.last[q] = a
		}
		if a.why != "" {
			return &rollout.Checked{Why: fmt.Sprintf("%s (%s)", clipped(q.Query), a.why)}
		}
	}
	return &rollout.Checked{Met: true}
}
