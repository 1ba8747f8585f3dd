package sim

import (
	"slices"
	"time"
)

// route is where a router sends its traffic.
type route struct {
	to    string // a generation
	was   string // where it went before, and goes until since
	since time.Time
}

// switchTraffic makes the router send its traffic to the generation from then on.
func (x *object) switchTraffic(generation string, since time.Time) {
	switch {
	case x.route == nil:
		x.route = &route{to: generation, was: generation}
	case x.route.to != generation:
		x.route = &route{to: generation, was: x.route.to, since: since}
	}
}

// Endpoints are the ids of the units at which traffic of the instance arrives now: those
// that are ready in the generation to which its router sends it. Without a router there
// are none, and routed is false.
func (c *Cloud) Endpoints(instance string) (ids []string, routed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.settle(instance, now)
	generation := ""
	for _, x := range c.instances[instance] {
		if x.route == nil {
			continue
		}
		if generation = x.route.to; x.route.since.After(now) {
			generation = x.route.was
		}
	}
	for key, x := range c.instances[instance] {
		if generation == "" || x.generation != generation || c.failing[key] != "" || c.dead[x.serial] != "" {
			continue
		}
		for _, u := range x.units {
			if u.leaving.IsZero() && !u.ready.After(now) {
				ids = append(ids, incarnation("unit", u.serial))
			}
		}
	}
	slices.Sort(ids)
	return ids, generation != ""
}
