package sim

import (
	"maps"
	"slices"
	"time"
)

// Copy is what a [Cloud] had at one moment.
type Copy struct {
	instances map[string]map[string]*object
	owners    map[string]string
}

// Copy returns what the cloud has now, as a backup of a VIM's store has it.
func (c *Cloud) Copy() *Copy {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.instances {
		c.settle(id, time.Now())
	}
	return copied(c.instances, c.owners)
}

// Restore makes the copy what the cloud has, as a VIM does whose store is restored: what was made since is gone, and
// what was deleted since is there again, under the same incarnations.
func (c *Cloud) Restore(from *Copy) {
	c.mu.Lock()
	ids := slices.Collect(maps.Keys(c.instances))
	again := copied(from.instances, from.owners)
	c.instances, c.owners = again.instances, again.owners
	ids = append(ids, slices.Collect(maps.Keys(c.instances))...)
	c.mu.Unlock()

	for _, id := range ids {
		c.changed(id)
	}
}

func copied(instances map[string]map[string]*object, owners map[string]string) *Copy {
	to := &Copy{instances: make(map[string]map[string]*object, len(instances)), owners: maps.Clone(owners)}
	for id, objects := range instances {
		to.instances[id] = make(map[string]*object, len(objects))
		for key, x := range objects {
			same := *x
			same.units = slices.Clone(x.units)
			if x.route != nil {
				route := *x.route
				same.route = &route
			}
			to.instances[id][key] = &same
		}
	}
	return to
}

// Renumber gives all objects of the instance new incarnations, as if each had been made again.
func (c *Cloud) Renumber(instance string) {
	c.mu.Lock()
	for _, x := range c.instances[instance] {
		x.serial = c.next()
	}
	c.mu.Unlock()
	c.changed(instance)
}
