package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// Cloud is a VIM in memory. It outlives the drivers that are connected to it,
// as a real VIM outlives a process that crashes. Tests make it slow, make it fail and take it
// away. It is safe for concurrent use. The zero value is not
// usable; see [NewCloud].
type Cloud struct {
	mu        sync.Mutex
	instances map[string]map[string]*object // instance -> key -> object
	owners    map[string]string             // key -> instance
	serial    uint64                        // of the last incarnation given out
	latency   time.Duration
	away      error
	unlisted  map[string]*drivers.UnlistedError // instance -> kind that isn't shown
	outages   map[string]*outage                // name of a VIM -> why and how it is away
	failing   map[string]string                 // key -> why its units don't become ready
	refused   map[string]string                 // key -> why it is never accepted
	denied    map[string]string                 // key -> why somebody else's webhook doesn't let it pass
	held      map[string]bool                   // key -> that it doesn't go when it is deleted
	outside   map[uint64]changed                // by serial: who changed an object's content, and when
	dead      map[uint64]string                 // by serial: why an object will never run again
	before    func(instance string, step plan.Step) error
	watchers  map[int]func(instance string)
	watcher   int

	verifies, applies, scales, deletes, observes atomic.Int64
}

// object is a workload or a router. It holds its units by value: at 10,000 instances their
// number decides how much memory the Cloud needs.
type object struct {
	vdu        string
	generation string
	digest     string
	serial     uint64
	address    uint64    // of the first incarnation; a successor takes it over
	leaving    time.Time // when the object is gone; zero while it stays
	units      []unit
	count      int
	recipe     uint64 // what its units are made of
	route      *route // of a router
	scaler     string // what decides on its number of units
}

type unit struct {
	serial  uint64
	recipe  uint64
	ready   time.Time // when the unit is ready
	leaving time.Time // when the unit is gone; zero while it stays
}

// Calls counts the requests to the VIM.
type Calls struct {
	Verifies, Applies, Scales, Deletes int64
	// Observes are answered from a driver's cache: they cost the VIM nothing.
	Observes int64
}

// VIM is the number of calls that reached the VIM.
func (c Calls) VIM() int64 { return c.Verifies + c.Applies + c.Scales + c.Deletes }

// NewCloud makes a VIM on which nothing runs.
func NewCloud() *Cloud {
	return &Cloud{
		instances: make(map[string]map[string]*object),
		owners:    make(map[string]string),
		outages:   make(map[string]*outage),
		unlisted:  make(map[string]*drivers.UnlistedError),
		failing:   make(map[string]string),
		refused:   make(map[string]string),
		denied:    make(map[string]string),
		held:      make(map[string]bool),
		outside:   make(map[uint64]changed),
		dead:      make(map[uint64]string),
		watchers:  make(map[int]func(string)),
	}
}

// SetLatency is the time that a unit takes from now on to become ready and to
// go. It never delays a call.
func (c *Cloud) SetLatency(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency = d
}

// Hasten has units take no time from now on to become ready and to go, those that are
// on their way too.
func (c *Cloud) Hasten() {
	c.mu.Lock()
	c.latency = 0
	ids := slices.Collect(maps.Keys(c.instances))
	for _, id := range ids {
		for _, x := range c.instances[id] {
			x.hasten(time.Now())
		}
	}
	c.mu.Unlock()
	for _, id := range ids {
		c.changed(id)
	}
}

// SetAway makes every call fail with an error that wraps
// [drivers.ErrUnavailable] and gives the reason; nil brings the VIM back.
func (c *Cloud) SetAway(reason error) {
	c.mu.Lock()
	c.away = reason
	ids := slices.Collect(maps.Keys(c.instances))
	c.mu.Unlock()
	if reason == nil {
		for _, id := range ids {
			c.changed(id)
		}
	}
}

// Fail keeps the units of the object that has this key, now or later, from
// becoming ready, for the reason given. An empty reason ends that.
func (c *Cloud) Fail(key, reason string) { c.set(c.failing, key, reason) }

// Refuse makes the VIM refuse the object that has this key, for the reason
// given. An empty reason accepts it again.
func (c *Cloud) Refuse(key, reason string) { c.set(c.refused, key, reason) }

// Deny is [Cloud.Refuse] by somebody else's webhook, which may accept the object the next time.
func (c *Cloud) Deny(key, reason string) { c.set(c.denied, key, reason) }

func (c *Cloud) set(m map[string]string, key, reason string) {
	c.mu.Lock()
	if reason == "" {
		delete(m, key)
	} else {
		m[key] = reason
	}
	id := c.owners[key]
	c.mu.Unlock()
	if id != "" {
		c.changed(id)
	}
}

// BeforeStep is called before every step that a driver does; its error ends the
// batch there, as a crash would. It must not call the Cloud. nil removes it.
func (c *Cloud) BeforeStep(f func(instance string, step plan.Step) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = f
}

// Kill ends a unit, by its id, as a failing host would. Its owner replaces it.
func (c *Cloud) Kill(id string) bool {
	c.mu.Lock()
	now := time.Now()
	for instance, objects := range c.instances {
		for _, x := range objects {
			for i := range x.units {
				if incarnation("unit", x.units[i].serial) == id {
					x.units = slices.Delete(x.units, i, i+1)
					c.resize(x, now)
					c.mu.Unlock()
					c.moved(instance)
					return true
				}
			}
		}
	}
	c.mu.Unlock()
	return false
}

// Calls returns the counters since the Cloud was made.
func (c *Cloud) Calls() Calls {
	return Calls{
		Verifies: c.verifies.Load(), Applies: c.applies.Load(), Scales: c.scales.Load(),
		Deletes: c.deletes.Load(), Observes: c.observes.Load(),
	}
}

// Instances are the ids of the instances of which something exists.
func (c *Cloud) Instances() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.instances {
		c.settle(id, time.Now())
	}
	return slices.Sorted(maps.Keys(c.instances))
}

// surveyed is [Cloud.Instances], as far as the VIM is there.
func (c *Cloud) surveyed() ([]string, error) {
	c.mu.Lock()
	err := c.available()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.Instances(), nil
}

// observe reports what exists of the instance.
func (c *Cloud) observe(instance string) (plan.Observed, error) {
	c.observes.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.available(); err != nil {
		return plan.Observed{}, err
	}
	now := time.Now()
	c.settle(instance, now)
	var o plan.Observed
	for _, key := range slices.Sorted(maps.Keys(c.instances[instance])) {
		x := c.instances[instance][key]
		failure := c.failing[key]
		seen := plan.ObservedObject{
			Key: key, Incarnation: incarnation("object", x.serial), Digest: x.digest, Count: x.count, Generation: x.generation,
			Deleting: !x.leaving.IsZero(), Failure: failure, Dead: c.dead[x.serial],
			Keep: strconv.FormatUint(x.address, 10), Autoscaled: x.scaler,
		}
		if seen.Deleting && c.held[key] {
			failure, seen.Failure = "", ""
			seen.Reason = "being deleted, and held"
		} else if seen.Dead != "" {
			failure = seen.Dead
			seen.Failure = failure
		}
		live, ready := 0, 0
		for _, u := range x.units {
			name := unitName(key, u.serial)
			seen := plan.Unit{
				ID: incarnation("unit", u.serial), Key: unitKind + name, Name: path(name), VDU: x.vdu, Owner: key,
				Deleting: !u.leaving.IsZero(), Kind: kind, Generation: x.generation,
			}
			if seen.Ready = failure == "" && !u.ready.After(now); !seen.Ready {
				seen.Reason, seen.Failure = cmp.Or(failure, "starting"), failure
			}
			if !seen.Deleting {
				live++
				if seen.Ready {
					ready++
				}
			}
			o.Units = append(o.Units, seen)
		}
		seen.Ready = !seen.Deleting && live == x.count && ready == live
		reason := fmt.Sprintf("%d of %d units are ready", ready, x.count)
		if x.route != nil {
			seen.Count = -1
			seen.Ready, reason = !seen.Deleting && failure == "" && !x.route.since.After(now), "traffic still goes to generation "+x.route.was
		}
		if !seen.Ready {
			seen.Reason = cmp.Or(failure, seen.Reason, reason)
		}
		o.Objects = append(o.Objects, seen)
	}
	return o, nil
}

// apply brings the object to its rendering; it never takes another instance's. A new object
// takes over what was kept of its predecessor.
func (c *Cloud) apply(instance string, p part, count int, keep string) error {
	key := p.key
	if err := c.accept(instance, key); err != nil {
		return err
	}
	now := time.Now()
	c.settle(instance, now)
	x := c.instances[instance][key]
	if x != nil && !x.leaving.IsZero() {
		return fmt.Errorf("%w: %s is still being deleted", drivers.ErrUnavailable, key)
	}
	if x == nil {
		x = &object{vdu: p.vdu, generation: p.generation, serial: c.next()}
		x.address = x.serial
		if kept, err := strconv.ParseUint(keep, 10, 64); err == nil {
			x.address = kept
		}
		if c.instances[instance] == nil {
			c.instances[instance] = make(map[string]*object, 1)
		}
		c.instances[instance][key] = x
		c.owners[key] = instance
	}
	x.digest, x.count, x.recipe = p.digest, count, p.recipe
	if p.trafficTo != "" {
		x.switchTraffic(p.trafficTo, now.Add(c.latency))
	}
	delete(c.outside, x.serial)
	c.resize(x, now)
	c.settle(instance, now)
	return nil
}

// accept refuses an object that the VIM would refuse.
func (c *Cloud) accept(instance, key string) error {
	if err := c.available(); err != nil {
		return err
	}
	if why, ok := c.refused[key]; ok {
		return &drivers.RefusedError{Object: key, Reason: why}
	}
	if why, ok := c.denied[key]; ok {
		return &drivers.RefusedError{Object: key, Reason: why, MayPass: true}
	}
	if owner, ok := c.owners[key]; ok && owner != instance {
		return &drivers.RefusedError{Object: key, Reason: "exists already and belongs to VNF instance " + owner}
	}
	return nil
}

// remove deletes one incarnation of an object or of a unit, and nothing else.
func (c *Cloud) remove(instance, id string) error {
	if err := c.available(); err != nil {
		return err
	}
	now := time.Now()
	c.settle(instance, now)
	for _, x := range c.instances[instance] {
		if incarnation("object", x.serial) == id && x.leaving.IsZero() {
			x.leaving = now.Add(c.latency)
			x.count = 0
			c.resize(x, now)
		}
		for i := range x.units {
			if u := &x.units[i]; incarnation("unit", u.serial) == id && u.leaving.IsZero() {
				u.leaving = now.Add(c.latency)
				c.resize(x, now)
				break
			}
		}
	}
	c.settle(instance, now)
	return nil
}

// resize makes and ends units until as many of the present recipe live as the object asks
// for. The youngest go first. Units of an older recipe are replaced.
func (c *Cloud) resize(x *object, now time.Time) {
	live := 0
	for i := range x.units {
		if x.units[i].leaving.IsZero() && x.units[i].recipe == x.recipe {
			live++
		}
	}
	for ; live < x.count; live++ {
		x.units = append(x.units, unit{serial: c.next(), recipe: x.recipe, ready: now.Add(c.latency)})
	}
	for i := len(x.units) - 1; i >= 0 && live > x.count; i-- {
		if x.units[i].leaving.IsZero() && x.units[i].recipe == x.recipe {
			x.units[i].leaving = now.Add(c.latency)
			live--
		}
	}
}

// hasten has come by now what was to come.
func (x *object) hasten(now time.Time) {
	earlier := func(t *time.Time) {
		if t.After(now) {
			*t = now
		}
	}
	earlier(&x.leaving)
	for i := range x.units {
		earlier(&x.units[i].ready)
		earlier(&x.units[i].leaving)
	}
	if x.route != nil {
		earlier(&x.route.since)
	}
}

// replace ends units of an older recipe as those of the present one become ready, and says
// whether it ended any.
func (c *Cloud) replace(key string, x *object, now time.Time) (moved bool) {
	ready := 0
	for _, u := range x.units {
		if u.leaving.IsZero() && u.recipe == x.recipe && !u.ready.After(now) && c.failing[key] == "" && c.dead[x.serial] == "" {
			ready++
		}
	}
	stay := max(0, x.count-ready)
	for i := range x.units {
		if u := &x.units[i]; u.leaving.IsZero() && u.recipe != x.recipe {
			if stay--; stay < 0 {
				u.leaving, moved = now.Add(c.latency), true
			}
		}
	}
	return moved
}

// settle brings about what has come due by now, and forgets what has gone.
func (c *Cloud) settle(instance string, now time.Time) {
	gone := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	for key, x := range c.instances[instance] {
		if c.replace(key, x, now) && c.latency > 0 {
			time.AfterFunc(c.latency, func() { c.changed(instance) })
		}
		x.units = slices.DeleteFunc(x.units, func(u unit) bool { return gone(u.leaving) })
		if gone(x.leaving) && len(x.units) == 0 && !c.held[key] {
			c.forget(instance, key, x)
		}
	}
	if len(c.instances[instance]) == 0 {
		delete(c.instances, instance)
	}
}

// forget drops all that is known of the object. c.mu is held.
func (c *Cloud) forget(instance, key string, x *object) {
	delete(c.instances[instance], key)
	delete(c.owners, key)
	delete(c.outside, x.serial)
	delete(c.dead, x.serial)
}

func (c *Cloud) available() error {
	if c.away != nil {
		return fmt.Errorf("%w: %w", drivers.ErrUnavailable, c.away)
	}
	return nil
}

func (c *Cloud) next() uint64 {
	c.serial++
	return c.serial
}

// moved notifies the watchers now, and again when what was started has come to its end.
func (c *Cloud) moved(instance string) {
	c.mu.Lock()
	latency := c.latency
	c.mu.Unlock()
	c.changed(instance)
	if latency > 0 {
		time.AfterFunc(latency, func() { c.changed(instance) })
	}
}

func (c *Cloud) changed(instance string) {
	c.mu.Lock()
	watchers := slices.Collect(maps.Values(c.watchers))
	c.mu.Unlock()
	for _, f := range watchers {
		f(instance)
	}
}

// watch registers the watcher until ctx ends.
func (c *Cloud) watch(ctx context.Context, changed func(string)) {
	c.mu.Lock()
	c.watcher++
	n := c.watcher
	c.watchers[n] = changed
	there := slices.Collect(maps.Keys(c.instances))
	c.mu.Unlock()
	for _, id := range there { // a real watch begins with a list, too
		changed(id)
	}
	<-ctx.Done()
	c.mu.Lock()
	delete(c.watchers, n)
	c.mu.Unlock()
}

func incarnation(what string, serial uint64) string {
	return what + "-" + strconv.FormatUint(serial, 10)
}

// unitKind begins the keys of units.
const unitKind = "Unit/"

// unitName is the name of a unit of the object, with its place.
func unitName(key string, serial uint64) string {
	return strings.TrimPrefix(key, kind+"/") + "-" + strconv.FormatUint(serial, 36)
}

func path(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
