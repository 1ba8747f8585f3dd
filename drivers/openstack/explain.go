package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

// explainPatience bounds what an explanation may cost: the operation that waits for it
// has failed already.
const explainPatience = 5 * time.Second

// event is one of Heat's.
type event struct {
	Time     string `json:"event_time"`
	Resource string `json:"resource_name"`
	Status   string `json:"resource_status"`
	Reason   string `json:"resource_status_reason"`
	Physical string `json:"physical_resource_id"`
}

// Explain implements [drivers.Driver]: the last event in which something of the stack
// failed, else its last event. Of a unit it is one about its own resource.
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
	s, err := d.cloud.standing(ctx, name)
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
	var best *event
	for _, id := range of {
		for _, e := range d.events(ctx, id) {
			if (member == "" || about[e.Resource]) && (best == nil || e.tells(best)) {
				best = &e
			}
		}
	}
	if best == nil {
		return ""
	}
	ago := max(0, time.Since(parseTime(best.Time))).Round(time.Second)
	return fmt.Sprintf("%s of %s: %s (%s ago, from Heat)", best.Status, best.Resource, short(d.cloud.hide.Replace(best.Reason)), ago)
}

// tells says whether the event tells more than the other: a failure, a resource's own and
// not what follows from it, the newest.
func (e *event) tells(than *event) bool {
	rank := func(e *event) int {
		switch {
		case !strings.HasSuffix(e.Status, failed):
			return 0
		case strings.HasPrefix(e.Reason, "Resource ") || strings.Contains(e.Reason, "aborted"):
			return 1
		}
		return 2
	}
	if a, b := rank(e), rank(than); a != b {
		return a > b
	}
	return parseTime(e.Time).After(parseTime(than.Time))
}

// events are the newest of the stack and of those in it; none on any error.
func (d *Driver) events(ctx context.Context, id stackID) []event {
	var list struct {
		Events []event `json:"events"`
	}
	q := url.Values{"limit": {"100"}, "sort_dir": {"desc"}, "nested_depth": {"5"}}
	if err := d.cloud.get(ctx, heat, &list, q.Encode(), id.path("events")...); err != nil {
		d.log.Debug("the stack's events can't be read", "stack", id.name, "error", err)
		return nil
	}
	return slices.Clip(list.Events)
}
