// Package doctor examines an installation of Jibe for people: each check says what it found, what
// that means and what to do. It owns the checks and how they are run; it changes nothing, decides
// nothing that the server obeys, and never says a secret.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// State is how a check came out.
type State string

// The states of a check, from good to bad. Skipped is said of what can't be known here.
const (
	OK      State = "ok"
	Skipped State = "skipped"
	Warning State = "warning"
	Failed  State = "failed"
)

// Result is what one check found.
type Result struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Means says what was found, and what it means.
	Means string `json:"means"`
	// Do says what to do, "" where there is nothing.
	Do string `json:"do,omitempty"`
	// Milliseconds is how long it took.
	Milliseconds int64 `json:"milliseconds"`
}

// Finding is the result of a check but for its name.
type Finding struct {
	State     State
	Means, Do string
}

func ok(format string, args ...any) Finding { return Finding{OK, fmt.Sprintf(format, args...), ""} }

func skipped(format string, args ...any) Finding {
	return Finding{Skipped, fmt.Sprintf(format, args...), ""}
}

// found is a finding with what to do.
func found(state State, do, format string, args ...any) Finding {
	return Finding{state, fmt.Sprintf(format, args...), do}
}

// Check is one thing to examine.
type Check struct {
	Name string
	// Timeout bounds it; 0 is [DefaultTimeout].
	Timeout time.Duration
	Run     func(ctx context.Context) Finding
}

// DefaultTimeout bounds one check.
const DefaultTimeout = 15 * time.Second

// atOnce is how many checks run at once.
const atOnce = 8

// Run carries all checks out side by side, and returns their results in the order of the checks.
// A check that doesn't end in its time has failed, and isn't waited for.
func Run(ctx context.Context, checks []Check) []Result {
	results := make([]Result, len(checks))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, c := range checks {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			started := time.Now()
			f := c.run(ctx)
			results[i] = Result{Name: c.Name, State: f.State, Means: f.Means, Do: f.Do, Milliseconds: time.Since(started).Milliseconds()}
		})
	}
	running.Wait()
	return results
}

func (c Check) run(ctx context.Context) Finding {
	limit := c.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan Finding, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- found(Failed, "Tell whoever maintains Jibe.", "the check itself broke: %v", r)
			}
		}()
		done <- c.Run(ctx)
	}()
	select {
	case f := <-done:
		return f
	case <-ctx.Done():
	}
	select {
	case f := <-done: // it noticed the end itself, and knows more of it
		return f
	case <-time.After(time.Second):
		return found(Failed, "See whether what is asked is overloaded, or drops packets.", "no answer came in %s", limit)
	}
}

// Sick says whether a check has failed.
func Sick(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.State == Failed })
}
