package openstack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// Servers in ERROR stand in Heat's way: it takes neither ports nor volumes off one. Their
// successors would find the ports in use, and a deletion would wait for the volumes until
// it times out. So they go before Heat is asked for anything. And so does a server that starts
// from a volume, where it is to be made anew: Heat makes the successor first, for which the
// volume that stays isn't free.

// deleteServers deletes the servers.
func (d *Driver) deleteServers(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		err := d.cloud.ask(ctx, request{service: nova, method: http.MethodDelete, path: []string{"servers", id}})
		if err != nil && !is(err, http.StatusNotFound) && !is(err, http.StatusConflict) { // it is being deleted
			return fmt.Errorf("delete server %s: %w", id, d.cloud.asUnavailable(err))
		}
	}
	return nil
}

// brokenServers are the ids of the servers in ERROR that were made for the instance in
// the generation, whether Heat still knows them or not: it forgets those whose
// replacement failed.
func (d *Driver) brokenServers(ctx context.Context, instance, generation string) ([]string, error) {
	var page struct {
		Servers []*server `json:"servers"`
	}
	if err := d.cloud.get(ctx, nova, &page, url.Values{"status": {"ERROR"}}.Encode(), "servers", "detail"); err != nil {
		return nil, fmt.Errorf("list servers in ERROR: %w", d.cloud.asUnavailable(err))
	}
	var ids []string
	for _, s := range page.Servers {
		if s.Status == "ERROR" && s.Metadata[hot.MetaInstance] == instance && s.Metadata[hot.MetaGeneration] == generation {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// sweepPatience is how long an update waits for forgotten servers to go: their ports are in use
// until then.
const sweepPatience = 10 * time.Second

// sweep deletes the servers in ERROR that Heat has forgotten.
func (d *Driver) sweep(ctx context.Context, instance string, p *present) error {
	broken, err := d.brokenServers(ctx, instance, p.generation(instance))
	if err != nil {
		return err
	}
	for _, id := range broken {
		if _, known := p.servers[id]; known {
			continue
		}
		if err := d.deleteServers(ctx, id); err != nil {
			return err
		}
		for deadline := time.Now().Add(sweepPatience); time.Now().Before(deadline); {
			if v, err := d.cloud.findServer(ctx, id); err != nil || v == nil {
				break
			}
			select {
			case <-ctx.Done():
				return unavailableIn(ctx)
			case <-time.After(d.opts.Busy):
			}
		}
	}
	return nil
}
