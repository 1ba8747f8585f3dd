package sim

import (
	"context"
	"errors"
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

// Unlist has the VIM answer, and not show objects of a kind that the instance has, for the reason given; "" ends that.
func (c *Cloud) Unlist(instance, kind, why string, since time.Time) {
	c.mu.Lock()
	delete(c.unlisted, instance)
	if why != "" {
		c.unlisted[instance] = &drivers.UnlistedError{Kind: kind, Since: since, Err: errors.New(why)}
	}
	c.mu.Unlock()
	c.changed(instance)
}

// listed returns an error where the VIM doesn't show a kind of the instance.
func (d *Driver) listed(instance string) error {
	d.cloud.mu.Lock()
	defer d.cloud.mu.Unlock()
	unlisted := d.cloud.unlisted[instance]
	if unlisted == nil {
		return nil
	}
	at := *unlisted
	at.VIM = d.vim.Name
	return fmt.Errorf("VIM %s: %w", d.vim.Name, &at)
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
