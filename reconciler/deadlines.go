package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// deadlines says how long an attempt of an operation may take, and how much of that is
// left. It touches nothing.
type deadlines struct {
	// starting bounds STARTING, attempt all else, but for the types that byType names.
	starting, attempt time.Duration
	byType            map[lcm.Type]time.Duration
	// clocks count from when this process saw the attempt: time in which no process owned the instance
	// doesn't count against an operation, and whoever takes it over begins to count anew.
	clocks clocks
}

// timeLeft is how long the attempt of the operation may still take; it isn't positive when
// its time is up.
func (d deadlines) timeLeft(op *lcm.Operation) time.Duration {
	from := d.clocks.attempt(op)
	if later := d.clocks.clock(); from.Before(later) {
		from = later
	}
	return from.Add(d.timeout(op)).Sub(d.clocks.now())
}

// timeout is how long an attempt of the operation may take in its state.
func (d deadlines) timeout(op *lcm.Operation) time.Duration {
	if op.State == lcm.Starting {
		return d.starting
	}
	if t, ok := d.byType[op.Type]; ok {
		return t
	}
	return d.attempt
}

// bound ends a look at the VIM of an operation that hasn't begun when its time is up, so that
// a VIM that never answers can't keep it beyond. Later looks have no bound: the time for
// which a VIM is away doesn't count then.
func (d deadlines) bound(ctx context.Context, op *lcm.Operation) (context.Context, context.CancelFunc) {
	if left := d.timeLeft(op); op.State == lcm.Starting && left > 0 {
		return context.WithTimeout(ctx, left)
	}
	return context.WithCancel(ctx)
}

// overdue says what was left, or what stood in the way, when the time was up.
func (d deadlines) overdue(op *lcm.Operation, batch []plan.Step, trouble error) *lcm.ProblemDetails {
	return overdue(op, d.timeout(op), batch, trouble)
}

// overdue says what was left, or what stood in the way, when an attempt took longer than the limit.
func overdue(op *lcm.Operation, limit time.Duration, batch []plan.Step, trouble error) *lcm.ProblemDetails {
	detail := fmt.Sprintf("not done within %s", limit)
	if len(batch) > 0 {
		detail += "; what is left is: " + batch[0].String()
		if n := len(batch) - 1; n > 0 {
			detail += fmt.Sprintf(" (and %d more)", n)
		}
	}
	if trouble != nil {
		detail += "; the last error was: " + sentence(trouble)
	}
	return &lcm.ProblemDetails{Status: 500, Title: title(op), Detail: detail}
}
