package openstack

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
)

// Heat takes neither ports nor volumes off a server in ERROR: the successor of the server
// would find its ports in use, and a deletion of the stack would wait for the volumes until
// it times out. So Jibe deletes servers in ERROR before it asks Heat for anything. It does the
// same with a server that starts from a volume, when that server is to be made anew: Heat makes
// the successor first, and the volume, which stays, isn't free for it.

// deleteServers deletes the servers.
func (d *Driver) deleteServers(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if err := d.cloud.deleteServer(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// failedServers are the ids of the servers in ERROR that were made for the instance in
// the generation, whether Heat still knows them or not: it forgets those whose
// replacement failed.
func (d *Driver) failedServers(ctx context.Context, instance, generation string) ([]string, error) {
	found, err := d.cloud.listServers(ctx, "ERROR")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range found {
		if s.Status == "ERROR" && s.Metadata[hot.MetaInstance] == instance && s.Metadata[hot.MetaGeneration] == generation {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// forgottenPatience is how long an update waits for each forgotten server to go: its ports
// are in use until then.
const forgottenPatience = 10 * time.Second

// deleteForgotten deletes the servers in ERROR that Heat has forgotten, and waits for them
// to go.
func (d *Driver) deleteForgotten(ctx context.Context, instance string, p *present) error {
	ids, err := d.failedServers(ctx, instance, p.generation(instance))
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, known := p.servers[id]; known {
			continue
		}
		if err := d.deleteServers(ctx, id); err != nil {
			return err
		}
		err := wait.PollUntilContextTimeout(ctx, d.opts.Busy, forgottenPatience, true, func(ctx context.Context) (bool, error) {
			v, err := d.cloud.findServer(ctx, id)
			// An update that can't see whether the server is gone goes on as if it were: Heat
			// reports a port that is in use.
			return v == nil || err != nil, nil
		})
		if err != nil && ctx.Err() != nil {
			return unavailableIn(ctx)
		}
		// A server that is still there after that time is Heat's to report, too.
	}
	return nil
}
