package githooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What git is started for at once, in all and for one caller. A fetch is up to three processes of git, each push may take memory.
const (
	fetchesAtOnce, fetchesOfOne = 16, 6
	pushesAtOnce, pushesOfOne   = 8, 4
)

const (
	// turnWithin is how long a request to git waits for its turn.
	turnWithin = time.Minute
	// mostWaiting and waitingOfOne are how many requests wait for a turn at once, in all and of one caller.
	mostWaiting, waitingOfOne = 256, 32
)

// errGitBusy is returned to a request for which git isn't started.
var errGitBusy = errors.New("the server is busy with other fetches and pushes: try again")

// gitTurns say when git may be started for a request: so many at once, and no caller may have all of them. Those that wait
// get their turns in the order in which they came, but for the callers that have all that one may have.
type gitTurns struct {
	service    string // "fetch" or "push"
	all, ofOne int
	within     time.Duration

	mu           sync.Mutex
	running      int
	refused      int            // since the start
	of, waitedBy map[string]int // callers' running and waiting requests; those with none aren't there
	waiting      []*gitTurn
}

// gitTurn is one that is waited for.
type gitTurn struct {
	caller string
	given  chan struct{}
}

func newGitTurns(service string, all, ofOne int) *gitTurns {
	return &gitTurns{service: service, all: all, ofOne: ofOne, within: turnWithin, of: map[string]int{}, waitedBy: map[string]int{}}
}

// take waits for a turn of the caller. done ends it.
func (g *gitTurns) take(ctx context.Context, caller string) (done func(), err error) {
	g.mu.Lock()
	if g.free(caller) {
		g.begin(caller)
		g.mu.Unlock()
		return g.done(caller), nil
	}
	if len(g.waiting) >= mostWaiting || g.waitedBy[caller] >= waitingOfOne {
		g.refused++
		g.mu.Unlock()
		return nil, errGitBusy
	}
	turn := &gitTurn{caller, make(chan struct{})}
	g.waiting = append(g.waiting, turn)
	g.waitedBy[caller]++
	g.mu.Unlock()

	timer := time.NewTimer(g.within)
	defer timer.Stop()
	select {
	case <-turn.given:
		return g.done(caller), nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w (no turn came within %s)", errGitBusy, g.within)
	}
	if g.leave(turn, ctx.Err() == nil) {
		return nil, err
	}
	return g.done(caller), nil // it was given at this moment
}

func (g *gitTurns) free(caller string) bool { return g.running < g.all && g.of[caller] < g.ofOne }

func (g *gitTurns) begin(caller string) {
	g.running++
	g.of[caller]++
}

// done returns what ends a turn, once, and gives it to the first that waits and may have it.
func (g *gitTurns) done(caller string) func() {
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		less(g.of, caller)
		for i := 0; i < len(g.waiting); {
			turn := g.waiting[i]
			if !g.free(turn.caller) {
				i++
				continue
			}
			g.drop(i)
			g.begin(turn.caller)
			close(turn.given)
		}
	})
}

// leave takes a turn out of those that wait; refused says that its client is still there. It returns false where it was given.
func (g *gitTurns) leave(turn *gitTurn, refused bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == turn {
			g.drop(i)
			if refused {
				g.refused++
			}
			return true
		}
	}
	return false
}

func (g *gitTurns) drop(i int) {
	less(g.waitedBy, g.waiting[i].caller)
	g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
}

// less counts one down.
func less(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// collectors are what is measured of the turns.
func (g *gitTurns) collectors() []prometheus.Collector {
	labels := prometheus.Labels{"service": g.service}
	value := func(of func() int) func() float64 {
		return func() float64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			return float64(of())
		}
	}

	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "jibe_git_served", Help: "Requests of git clients for which git runs.", ConstLabels: labels},
			value(func() int { return g.running })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "jibe_git_served_waiting", Help: "Requests of git clients that wait for their turn.", ConstLabels: labels},
			value(func() int { return len(g.waiting) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "jibe_git_served_refused_total", ConstLabels: labels,
			Help: "Requests of git clients that were answered 503, as too many others were served or waited."},
			value(func() int { return g.refused })),
	}
}
