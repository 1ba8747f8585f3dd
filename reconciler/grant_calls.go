package reconciler

import (
	"context"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/grant"
)

// grantCalls are the questions to an NFVO that are under way, one an operation at most. A
// question outlives the pass that asked it, so that a slow NFVO keeps no worker. What was
// answered is durable in the operation's record; what is lost with the process is asked again.
type grantCalls struct {
	mu       sync.Mutex
	of       map[string]*grantCall // by operation
	lifetime context.Context
	wg       sync.WaitGroup
}

type grantCall struct {
	cancel context.CancelFunc
	// running says that there is no answer yet; answer and err are it.
	running bool
	answer  grant.Answer
	err     error
	// failures counts the questions in a row that had no answer, because of the last error.
	failures int
	// next is when to ask again, where the answer is known.
	next time.Time
}

func newGrantCalls() *grantCalls { return &grantCalls{of: map[string]*grantCall{}} }

// begin says that questions end with lifetime at the latest. Nothing is asked before.
func (c *grantCalls) begin(lifetime context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lifetime = lifetime
}

// get returns what is known of the operation's question; false where nothing is.
func (c *grantCalls) get(operation string) (grantCall, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.of[operation]; x != nil {
		return *x, true
	}
	return grantCall{}, false
}

// drop ends the question and forgets it.
func (c *grantCalls) drop(operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.of[operation]; x != nil {
		x.cancel()
		delete(c.of, operation)
	}
}

// rest notes when to ask again.
func (c *grantCalls) rest(operation string, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.of[operation]; x != nil {
		x.next = next
	}
}

// start asks, and returns at once. ended is called when there is an answer, unless the question
// was dropped.
func (c *grantCalls) start(operation string, ask func(context.Context) (grant.Answer, error), ended func()) {
	c.mu.Lock()
	ctx, cancel := context.WithCancel(c.lifetime)
	x := &grantCall{cancel: cancel, running: true}
	if was := c.of[operation]; was != nil {
		x.failures = was.failures
	}
	c.of[operation] = x
	c.mu.Unlock()
	c.wg.Go(func() {
		defer cancel()
		answer, err := ask(ctx)
		c.mu.Lock()
		x.running, x.answer, x.err = false, answer, err
		if x.failures++; err == nil {
			x.failures = 0
		}
		known := c.of[operation] == x
		c.mu.Unlock()
		if known {
			ended()
		}
	})
}

// wait returns when no question is under way any more.
func (c *grantCalls) wait() { c.wg.Wait() }
