package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// The states of a server and what Nova does with it, as far as its power is concerned.
const (
	statusActive  = "ACTIVE"
	statusShutoff = "SHUTOFF"
	poweringOff   = "powering-off"
	poweringOn    = "powering-on"
)

// off says whether the server is turned off, or about to be. Whoever shuts it down from inside
// has turned it off, too.
func (s *server) off() bool {
	return s.Status == statusShutoff && s.Task != poweringOn || s.Status == statusActive && s.Task == poweringOff
}

func (w *work) onlyPower() bool {
	return len(w.power) > 0 && !w.apply && len(w.counts)+len(w.dead)+len(w.renew)+len(w.volumes)+len(w.victims) == 0
}

// power has Nova turn servers on or off, by incarnation. It asks the guest to shut down and
// turns the server off when that has had its time (Nova's shutdown_timeout, os_shutdown_timeout
// of the image): there is no other way in its API.
func (d *Driver) power(ctx context.Context, on map[string]bool) error {
	for _, incarnation := range slices.Sorted(maps.Keys(on)) {
		id := plan.ResourceOf(incarnation)
		s, err := d.cloud.findServer(ctx, id)
		switch {
		case err != nil:
			return err
		case s == nil || s.incarnation() != incarnation || s.off() != on[incarnation]:
			continue // it is gone, or another one by now, or done
		case s.Task != "":
			return fmt.Errorf("%w: Nova works on server %s (%s), which must end first", drivers.ErrUnavailable, id, s.Task)
		}
		if err := d.cloud.turn(ctx, id, on[incarnation]); err != nil {
			return err
		}
	}
	return nil
}

// turn turns a server on or off.
func (c *cloud) turn(ctx context.Context, id string, on bool) error {
	verb := "stop"
	if on {
		verb = "start"
	}
	err := c.call(ctx, nova, func(client *gophercloud.ServiceClient) error {
		if on {
			return servers.Start(ctx, client, id).ExtractErr()
		}
		return servers.Stop(ctx, client, id).ExtractErr()
	})
	switch {
	case err == nil, is(err, http.StatusNotFound):
		return nil // what isn't there any more is observed
	case is(err, http.StatusConflict):
		return fmt.Errorf("%w: %s server %s: %w", drivers.ErrUnavailable, verb, id, err) // its state has changed meanwhile
	case is(err, http.StatusForbidden), is(err, http.StatusBadRequest):
		return &drivers.RefusedError{Object: "server " + id, Reason: fmt.Sprintf("Nova won't %s it: %v", verb, err)}
	}
	return fmt.Errorf("%s server %s: %w", verb, id, c.asUnavailable(err))
}

// powered is the deviation of a server that should be turned on or off.
func powered(s plan.Step) drivers.Deviation {
	have, want := statusActive, statusShutoff
	if s.Action == plan.Start {
		have, want = want, have
	}
	return drivers.Deviation{Object: s.Object, Field: "status", Have: have, Want: want}
}
