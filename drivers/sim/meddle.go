package sim

import (
	"cmp"
	"strconv"
	"time"
)

// change is who changed the content of an object behind everybody's back.
type change struct {
	by string
	at time.Time
}

// Drift changes the content of an object behind everybody's back.
func (c *Cloud) Drift(key string) { c.DriftBy(key, "") }

// DriftBy is Drift by somebody whose name the VIM tells; "" is somebody whose
// name it doesn't.
func (c *Cloud) DriftBy(key, manager string) {
	c.meddle(key, func(_ string, x *object) {
		x.digest = "drifted"
		c.strange[x.serial] = change{by: manager, at: time.Now()}
	})
}

// Resize changes the number of units of an object behind everybody's back.
func (c *Cloud) Resize(key string, n int) {
	c.meddle(key, func(_ string, x *object) {
		x.count = n
		c.resize(x, time.Now())
	})
}

// Lead makes a router lead its traffic to another generation behind everybody's
// back, as a script does.
func (c *Cloud) Lead(key, generation string) {
	c.meddle(key, func(_ string, x *object) {
		x.digest = "led to " + generation
		x.lead(generation, time.Now().Add(c.latency))
	})
}

// Lose makes an object vanish, with its units, as if somebody had deleted it.
func (c *Cloud) Lose(key string) {
	c.meddle(key, func(instance string, x *object) {
		c.forget(instance, key, x)
		c.settle(instance, time.Now())
	})
}

// Die ends an object for good: nothing of this incarnation will run again, for
// the reason given.
func (c *Cloud) Die(key, reason string) {
	c.meddle(key, func(_ string, x *object) { c.dead[x.serial] = reason })
}

// Hold keeps an object that is being deleted, now or later, from going, until it
// is called with false.
func (c *Cloud) Hold(key string, held bool) {
	c.mu.Lock()
	if held {
		c.held[key] = true
	} else {
		delete(c.held, key)
	}
	id := c.owners[key]
	c.mu.Unlock()
	if id != "" {
		c.changed(id)
	}
}

// meddle alters the object, if it is there, and lets the watchers know.
func (c *Cloud) meddle(key string, alter func(instance string, x *object)) {
	c.mu.Lock()
	id := c.owners[key]
	x := c.instances[id][key]
	if x != nil {
		alter(id, x)
	}
	c.mu.Unlock()
	if x != nil {
		c.moved(id)
	}
}

// story is what the cloud can tell of an object, or of the object of a unit.
func (c *Cloud) story(instance, key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.instances[instance][key]
	owner := key
	for k, o := range c.instances[instance] {
		for _, u := range o.units {
			if unitKind+unitName(k, u.serial) == key {
				x, owner = o, k
			}
		}
	}
	if x == nil {
		return ""
	}
	why := cmp.Or(c.dead[x.serial], c.failing[owner])
	switch {
	case why != "":
		return "Failed: " + why
	case !x.leaving.IsZero() && c.held[owner]:
		return "Held: it is being deleted, and something holds it"
	case !x.leaving.IsZero():
		return "Deleting: it is being deleted"
	}
	return "Started: it asks for " + strconv.Itoa(x.count) + " units"
}
