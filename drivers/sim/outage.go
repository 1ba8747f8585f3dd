package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

// hangs is how long a call to a VIM that doesn't answer takes, as clients of real VIMs give up.
const hangs = time.Second

// outage is a time for which a VIM of one name is away.
type outage struct {
	reason error
	hangs  bool
	over   chan struct{} // closed when the VIM is back
}

// SetVIMAway is [Cloud.SetAway] for drivers whose VIM has this name: of several VIMs in one Cloud, one
// is away. With hanging, its calls aren't refused at once: they return the error after a second,
// or when their context ends, and are answered where the VIM is back before.
func (c *Cloud) SetVIMAway(vim string, reason error, hanging bool) {
	c.mu.Lock()
	if was := c.outages[vim]; was != nil {
		close(was.over)
		delete(c.outages, vim)
	}
	if reason != nil {
		c.outages[vim] = &outage{reason, hanging, make(chan struct{})}
	}
	ids := slices.Collect(maps.Keys(c.instances))
	c.mu.Unlock()
	if reason == nil {
		for _, id := range ids {
			c.changed(id)
		}
	}
}

// reach returns an error where the driver's VIM is away.
func (d *Driver) reach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.cloud.mu.Lock()
	away := d.cloud.outages[d.vim.Name]
	d.cloud.mu.Unlock()
	if away == nil {
		return nil
	}
	if away.hangs {
		patience := time.NewTimer(hangs)
		defer patience.Stop()
		select {
		case <-away.over:
			return d.reach(ctx)
		case <-ctx.Done():
		case <-patience.C:
		}
	}
	return fmt.Errorf("VIM %s: %w: %w", d.vim.Name, drivers.ErrUnavailable, away.reason)
}
