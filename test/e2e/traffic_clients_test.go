package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// clients ask a Service without a pause, and count.
type clients struct {
	b   *bench
	end context.CancelFunc
	all sync.WaitGroup

	mu      sync.Mutex
	answers int
	lost    []string // what became of the requests that weren't answered
	seen    []string // which versions answered, in the order of their first answers
}

// clients begins to ask, and waits for the first answer: before that there is nothing to lose.
// request is one request, and answers with the version of who answered.
func (b *bench) clients(request func(context.Context) (string, error)) *clients {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	c := &clients{b: b, end: cancel}
	b.Cleanup(func() {
		cancel()
		c.all.Wait()
	})
	for range 2 {
		c.all.Go(func() {
			for ; ctx.Err() == nil; kit.Pause(ctx, 10*time.Millisecond) {
				// A request that was begun is ended, so that no error is the test's own doing.
				c.note(request(context.WithoutCancel(ctx)))
			}
		})
	}
	kit.Until(b, "an answer of the Service", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.answers > 0
	})
	return c
}

func (c *clients) note(version string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && c.answers > 0:
		c.lost = append(c.lost, fmt.Sprintf("%s: %v", time.Now().Format(time.StampMilli), err))
	case err == nil:
		c.answers++
		if !slices.Contains(c.seen, version) {
			c.seen = append(c.seen, version)
		}
	}
}

// unnoticed ends the clients, which must have lost nothing and met the versions in this order.
func (c *clients) unnoticed(versions ...string) {
	c.b.Helper()
	c.end()
	c.all.Wait()
	seen := strings.Join(c.seen, ", ")
	if n := len(c.lost); n > 0 {
		c.b.Errorf("%d of %d requests were lost, the first ones: %q", n, c.answers+n, c.lost[:min(3, n)])
	}
	if !slices.Equal(c.seen, versions) {
		c.b.Errorf("requests were answered by %s, want %v", seen, versions)
	}
	c.b.Logf("%d requests, %d lost; answered by %s", c.answers+len(c.lost), len(c.lost), seen)
}
