package openstack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stackevents"

	"github.com/jibe-vnfm/jibe/drivers"
)

// explainPatience bounds what an explanation may cost: the operation that waits for it
// has failed already.
const explainPatience = 5 * time.Second

// Explain implements [drivers.Driver]. It gives the last event in which something of the stack
// failed, else the stack's last event; of a unit, one about the unit's own resources.
func (d *Driver) Explain(ctx context.Context, r drivers.Rendering, key string) string {
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	kind, rest, _ := strings.Cut(key, "/")
	name, member := rest, ""
	if kind != "Stack" {
		parts := strings.Split(rest, "/")
		if len(parts) < 2 {
			return ""
		}
		member = parts[1]
		name = stackName(r.Source.Instance)
	}
	s, err := d.cloud.stackNamed(ctx, name)
	if err != nil || s == nil {
		return ""
	}
	var of []stackID
	about := map[string]bool{}
	if member != "" {
		found, err := d.cloud.resources(ctx, stackID{s.Name, s.ID})
		if err != nil {
			return ""
		}
		for _, n := range newTree(stackID{s.Name, s.ID}, found).all {
			if n.memberName() == member && (n.Type == typeServer || n.Type == typeVolume) {
				of = append(of, n.stack)
				about[n.Name] = true
			}
		}
	} else {
		of = []stackID{{s.Name, s.ID}}
	}
	var best *stackevents.Event
	for _, id := range of {
		events, err := d.cloud.events(ctx, id)
		if err != nil {
			d.log.Debug("the stack's events can't be read", "stack", id.name, "error", err)
		}
		for _, e := range events {
			if (member == "" || about[e.ResourceName]) && (best == nil || explainsMore(&e, best)) {
				best = &e
			}
		}
	}
	if best == nil {
		return ""
	}
	ago := max(0, time.Since(best.Time)).Round(time.Second)
	return fmt.Sprintf("%s of %s: %s (%s ago, from Heat)", best.ResourceStatus, best.ResourceName, short(d.cloud.redact.Replace(best.ResourceStatusReason)), ago)
}

// explainsMore says whether the event explains more than the other: a failure does, a
// resource's own more than what follows from it, and the newest.
func explainsMore(e, than *stackevents.Event) bool {
	rank := func(e *stackevents.Event) int {
		switch {
		case !strings.HasSuffix(e.ResourceStatus, failed):
			return 0
		case strings.HasPrefix(e.ResourceStatusReason, "Resource ") || strings.Contains(e.ResourceStatusReason, "aborted"):
			return 1
		}
		return 2
	}
	if a, b := rank(e), rank(than); a != b {
		return a > b
	}
	return e.Time.After(than.Time)
}
