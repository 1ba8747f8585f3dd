package sim

import (
	"cmp"
	"strconv"
	"time"
)

// changed is who changed the content of an object, and when, without Jibe.
type changed struct {
	by string
	at time.Time
}

// Drift changes the content of an object, as somebody else at the VIM does. So do the
// methods below.
func (c *Cloud) Drift(key string) { c.DriftBy(key, "") }

// DriftBy is [Cloud.Drift] by the manager that the VIM will name; "" is one that it doesn't
// name.
func (c *Cloud) DriftBy(key, manager string) {
	c.change(key, func(_ string, x *object) {
		x.digest = "drifted"
		c.outside[x.serial] = changed{by: manager, at: time.Now()}
	})
}

// Resize changes the number of units of an object.
func (c *Cloud) Resize(key string, n int) {
	c.change(key, func(_ string, x *object) {
		x.count = n
		c.resize(x, time.Now())
	})
}

// Autoscale has the number of units of an object decided by an autoscaler of this name; "" is
// none any more.
func (c *Cloud) Autoscale(key, by string) {
	c.change(key, func(_ string, x *object) { x.scaler = by })
}

// SwitchTraffic makes a router send its traffic to another generation, as a script does.
func (c *Cloud) SwitchTraffic(key, generation string) {
	c.change(key, func(_ string, x *object) {
		x.digest = "switched to " + generation
		x.switchTraffic(generation, time.Now().Add(c.latency))
	})
}

// Lose makes an object vanish, with its units, as if somebody had deleted it.
func (c *Cloud) Lose(key string) {
	c.change(key, func(instance string, x *object) {
		c.forget(instance, key, x)
		c.settle(instance, time.Now())
	})
}

// Die ends an object for good: nothing of this incarnation will run again, for
// the reason given.
func (c *Cloud) Die(key, reason string) {
	c.change(key, func(_ string, x *object) { c.dead[x.serial] = reason })
}

// Hold keeps an object that is being deleted, now or later, from going, until Hold is called
// with false.
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

// change alters the object, if there is one, and notifies the watchers.
func (c *Cloud) change(key string, alter func(instance string, x *object)) {
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

// explain says how the object is, or the object that the unit belongs to.
func (c *Cloud) explain(instance, key string) string {
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
