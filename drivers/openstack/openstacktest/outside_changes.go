package openstacktest

import (
	"slices"
	"time"
)

// StackRecord is a stack as tests see it.
type StackRecord struct {
	ID, Name, Status, Reason string
	Tags                     []string
}

// ServerRecord is a server as tests see it.
type ServerRecord struct {
	ID, Name, Status, Image, Flavor string
	Launched                        time.Time
	Metadata                        map[string]string
}

// Stacks are the living stacks that are not nested in others, as they were made.
func (c *Cloud) Stacks() []StackRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(time.Now())
	var list []StackRecord
	for _, s := range c.order {
		if s.parent == nil {
			list = append(list, StackRecord{s.id, s.name, s.action + "_" + s.status, s.reason, slices.Clone(s.tags)})
		}
	}
	return list
}

// Servers are all servers, as they were made; image and flavour by name.
func (c *Cloud) Servers() []ServerRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(time.Now())
	var list []ServerRecord
	c.servers.all(func(s *server) bool {
		r := ServerRecord{ID: s.id, Name: s.name, Status: s.status, Launched: s.launched, Metadata: map[string]string{}}
		if i, ok := c.images.get(s.image); ok {
			r.Image = i.name
		}
		if f, ok := c.flavors.get(s.flavor); ok {
			r.Flavor = f.name
		}
		for k, v := range s.metadata {
			r.Metadata[k] = asText(v)
		}
		list = append(list, r)
		return true
	})
	return list
}

// Left is how many things exist that only stacks make, by kind: empty when all stacks are
// gone and nothing was orphaned.
func (c *Cloud) Left() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(time.Now())
	left := map[string]int{}
	for name, n := range map[string]int{
		"servers": len(c.servers.byID), "ports": len(c.ports.byID), "volumes": len(c.volumes.byID),
		"stacks": len(c.order),
	} {
		if n > 0 {
			left[name] = n
		}
	}
	return left
}

// DeleteStack deletes the stack and all that is in it at once, as somebody else does. It
// returns false if there is none.
func (c *Cloud) DeleteStack(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byName(name)
	if s == nil {
		return false
	}
	for _, x := range s.below() {
		if x.work != nil {
			for _, f := range x.work.cleanup {
				f()
			}
			x.work.over, x.work = true, nil
		}
	}
	for _, r := range slices.Backward(s.living()) {
		c.destroy(r)
		s.drop(r.name)
	}
	c.end(s)
	return true
}

// DeleteServer deletes the server behind Heat's back. It returns false if there is none.
func (c *Cloud) DeleteServer(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.servers.get(id)
	c.dropServer(id)
	return found
}

// BreakServer puts the server into ERROR, with a fault of this message. It returns false
// if there is none.
func (c *Cloud) BreakServer(id, message string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, found := c.servers.get(id)
	if found {
		s.status, s.fault, s.updated = "ERROR", message, time.Now()
	}
	return found
}

// StripPort takes the addresses off the port. It returns false if there is none.
func (c *Cloud) StripPort(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, found := c.ports.get(id)
	if found {
		c.release(p)
	}
	return found
}
