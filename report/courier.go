package report

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/forge"
)

// Kind is what is said to a forge.
type Kind string

// The kinds.
const (
	StatusKind  Kind = "status"
	CommentKind Kind = "comment"
	// LookKind asks which pull requests there are, and what became of them.
	LookKind Kind = "look"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{StatusKind, CommentKind, LookKind} }

const (
	// firstPause and longestPause are how long nothing is sent to a forge that is away, or that takes
	// the token no more; each failure doubles the time.
	firstPause, longestPause = time.Second, 30 * time.Second
	// firstAgain and longestAgain are the same for one item that the forge refuses.
	firstAgain, longestAgain = time.Second, 10 * time.Minute
	// givenUp is after how long an item is given up that the forge refuses: one that it will never
	// take must not be outstanding for ever.
	givenUp = 24 * time.Hour
)

// courier sends one thing after the other, leaves a forge alone that asks for it or is away, and
// counts.
type courier struct {
	log   *slog.Logger
	now   func() time.Time
	lines *rate.Limiter

	mu                    sync.Mutex
	until                 time.Time // nothing is sent before
	wait                  time.Duration
	sent, failed, dropped map[Kind]uint64
	waits                 map[Kind]waiting
}

// waiting is what a loop has outstanding.
type waiting struct {
	n     int
	since time.Time
}

func newCourier(log *slog.Logger, now func() time.Time) *courier {
	c := &courier{log: log, now: now, lines: rate.NewLimiter(1.0/60, 5), sent: map[Kind]uint64{}, failed: map[Kind]uint64{}, dropped: map[Kind]uint64{}}
	c.reset()
	return c
}

// reset forgets what was outstanding, and what the forge said before.
func (c *courier) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.wait, c.waits = time.Time{}, 0, map[Kind]waiting{}
}

// ready is how long nothing may be sent still.
func (c *courier) ready() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.until.Sub(c.now()))
}

// again is when one item is tried again.
type again struct {
	since, notBefore time.Time // since when it fails
	wait             time.Duration
}

// due says whether it may be tried.
func (a *again) due(now time.Time) bool { return !now.Before(a.notBefore) }

// send has f say one thing. done says that there is nothing to be repeated: it was said, or is given
// up.
func (c *courier) send(ctx context.Context, kind Kind, a *again, what string, f func(ctx context.Context) error) (done bool) {
	err := f(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if err == nil {
		c.sent[kind]++
		c.until, c.wait = time.Time{}, 0
		*a = again{}
		return true
	}
	if ctx.Err() != nil {
		return false // the job is another's now, or the process ends
	}
	c.failed[kind]++
	if c.lines.Allow() {
		c.log.WarnContext(ctx, "the forge was not told, will be tried again", "what", what, "error", err)
	}
	if a.since.IsZero() {
		a.since = now
	}
	switch refusal := new(forge.Error); {
	case errors.Is(err, forge.ErrLimited):
		c.until, c.wait = now.Add(forge.After(err)), 0
	case errors.Is(err, forge.ErrAway) || !errors.As(err, &refusal) || refusal.Status == http.StatusUnauthorized:
		c.wait = min(max(2*c.wait, firstPause), longestPause)
		c.until = now.Add(c.wait)
	case now.Sub(a.since) >= givenUp:
		c.dropped[kind]++
		c.log.WarnContext(ctx, "the forge refuses to be told, which is given up", "what", what, "error", err)
		*a = again{}
		return true
	default:
		a.wait = min(max(2*a.wait, firstAgain), longestAgain)
		a.notBefore = now.Add(a.wait)
	}
	return false
}

// drop counts what is given up without being sent.
func (c *courier) drop(kind Kind, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[kind] += uint64(n)
	if c.lines.Allow() {
		c.log.Warn("the forge is not told of the oldest commits, as too many wait", "commits", n)
	}
}

// outstanding says what a loop has still to say.
func (c *courier) outstanding(kind Kind, n int, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits[kind] = waiting{n, since}
}

func (c *courier) counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Counts{Sent: maps.Clone(c.sent), Failed: maps.Clone(c.failed), Dropped: maps.Clone(c.dropped)}
	for _, w := range c.waits {
		out.Outstanding += w.n
		if w.n > 0 && (out.Since.IsZero() || w.since.Before(out.Since)) {
			out.Since = w.since
		}
	}
	return out
}

// Paced is a transport whose requests are at most so many a second, after as many at once as a
// status and a comment take together. Those that would be too many wait.
func Paced(next http.RoundTripper, perSecond float64) http.RoundTripper {
	return &paced{next: next, limit: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// burst is how many requests may go at once.
const burst = 10

type paced struct {
	next  http.RoundTripper
	limit *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.limit.Wait(r.Context()); err != nil {
		return nil, err
	}
	return p.next.RoundTrip(r)
}
