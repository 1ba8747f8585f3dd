// Package watched holds what the watches of a Kubernetes cluster bring, and derives from
// it what stands of a VNF instance: its objects and units, what is ready and what has failed,
// where Services direct traffic, what deleted objects hand over to their successors.
//
// It asks the API server for lists and watches, for which cluster it is, and for owners that no
// watch brings, and changes nothing there. It never decides what is to be done.
package watched

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// Cache is what the watches know: one watch a kind, or a kind and namespace ([scope]), whatever the number
// of instances, and of each object only the facts that are needed ([Fact]).
type Cache struct {
	client       dynamic.Interface
	mapper       Mapper
	installation manifest.Installation
	namespaces   []string // that the VIM may be used in; none is the whole cluster
	log          *slog.Logger

	creationFailures []*creationFailures // one for the cluster, or one a namespace
	former           *former
	identity         clusterIdentity
	owners           *owners

	life    context.Context // of the watches: they serve every instance, and end with the driver
	stop    context.CancelFunc
	running sync.WaitGroup // the watches

	mu        sync.RWMutex
	kinds     map[scope]*kindCache
	instances map[string]map[string]*Fact // instance -> key -> fact
	elsewhere map[string]map[string]*Fact // the same of other installations
	scalers   map[string]map[string]*Fact // workload's key -> key -> autoscaler regardless of who made it
	taken     map[string]bool             // the instances whose objects of former versions are ours
	// definitions counts changes of CustomResourceDefinitions: a kind that didn't
	// exist is looked for again when it moves.
	definitions int
	absent      map[schema.GroupKind]absence
	watchers    map[int]func(instance string)
	watcher     int
	// failed says that a watch failed since the watchers were last notified of all
	// instances; missed are those that couldn't be looked at, or worked on, since.
	failed bool
	missed map[string]bool
	// awaited are, by a namespace that isn't there, the instances that need it; those
	// under "" need a definition of some kind.
	awaited map[string]map[string]bool
	// looks are the instances that [Cache.lookAgainSoon] is about to have looked at.
	looks map[string]bool
	// moved is closed and made anew whenever a watch came up or failed.
	moved chan struct{}
}

// Mapper finds the resource of a kind, in one of the versions where any are given. It
// returns an error that [meta.IsNoMatchError] knows where the API server has no such kind.
type Mapper interface {
	Find(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error)
	// Renew is Find that first has the API server asked again what it serves.
	Renew(gk schema.GroupKind) (*meta.RESTMapping, error)
}

// absence is when a kind was found not to exist.
type absence struct {
	definitions int
	until       time.Time
}

// lookAgain is after how long a kind that didn't exist is looked for again,
// where no definition was seen to come.
const lookAgain = 5 * time.Second

// maxAbsent bounds how many kinds are remembered not to exist: an inventory names any.
const maxAbsent = 1024

// syncPatience is how long a reader waits for a VIM that says nothing at all.
const syncPatience = 15 * time.Second

// NewCache makes a cache that watches nothing yet: a kind is watched when it is needed first, in the namespaces
// alone where any are given. The log should carry the VIM's name.
func NewCache(client dynamic.Interface, mapper Mapper, i manifest.Installation, namespaces []string, log *slog.Logger) *Cache {
	c := &Cache{
		client: client, mapper: mapper, installation: i, namespaces: namespaces, log: log, former: newFormer(), owners: newOwners(),
		identity:  clusterIdentity{turn: make(chan struct{}, 1)},
		kinds:     map[scope]*kindCache{},
		instances: map[string]map[string]*Fact{},
		elsewhere: map[string]map[string]*Fact{},
		scalers:   map[string]map[string]*Fact{},
		taken:     map[string]bool{},
		absent:    map[schema.GroupKind]absence{},
		watchers:  map[int]func(string){},
		missed:    map[string]bool{},
		awaited:   map[string]map[string]bool{},
		looks:     map[string]bool{},
		moved:     make(chan struct{}),
	}
	for _, namespace := range c.places() {
		c.creationFailures = append(c.creationFailures, newCreationFailures(namespace, c.told))
	}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

// Close ends the watches and waits until they have ended.
func (c *Cache) Close() {
	c.mu.Lock() // no watch begins between the end and the wait
	c.stop()
	c.mu.Unlock()
	c.running.Wait()
}

// Sync makes sure that the kinds are watched, and waits until their first lists are here: of the namespaces in
// which the caller looks, or of all that are watched where none is given. needed kinds that can't be seen are an
// error; others are left out. Where the API server answers otherwise, it is a [*drivers.UnlistedError] that names the kind.
func (c *Cache) Sync(ctx context.Context, needed map[schema.GroupKind]bool, namespaces ...string) error {
	for gk := range needed {
		if err := c.ensure(gk); err != nil {
			return err
		}
	}

	timer := time.NewTimer(syncPatience)
	defer timer.Stop()
	for {
		c.mu.RLock()
		moved := c.moved
		failed, pending := c.lacking(needed, namespaces)
		c.mu.RUnlock()

		if failed != nil {
			return c.unlisted(ctx, failed)
		}
		if pending == nil {
			return nil
		}
		left := pending.patience()
		if left <= 0 && c.answers(ctx, pending.since) {
			return c.unlisted(ctx, pending)
		}

		select {
		case <-moved:
		case <-patienceOver(left):
		case <-c.life.Done():
			return ErrClosed
		case <-timer.C:
			return fmt.Errorf("%w: no answer to the list of %s within %v", drivers.ErrUnavailable, pending.gk.Kind, syncPatience)
		case <-ctx.Done():
			return fmt.Errorf("%w: waiting for the list of %s: %w", drivers.ErrUnavailable, pending.gk.Kind, ctx.Err())
		}
	}
}

// ensure begins to watch the kind, unless it is watched or unknown to the server.
func (c *Cache) ensure(gk schema.GroupKind) error {
	if c.life.Err() != nil {
		return ErrClosed
	}
	c.mu.RLock()
	watched := c.watches(gk)
	missing, absent := c.absent[gk]
	definitions := c.definitions
	c.mu.RUnlock()
	if watched || absent && missing.definitions == definitions && time.Now().Before(missing.until) {
		return nil
	}
	mapping, err := c.mapper.Find(gk)
	if meta.IsNoMatchError(err) {
		// A kind that doesn't exist has no objects.
		c.mu.Lock()
		if len(c.absent) >= maxAbsent {
			clear(c.absent) // which costs nothing but to look for them again
		}
		c.absent[gk] = absence{definitions, time.Now().Add(lookAgain)}
		c.mu.Unlock()
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up kind %s: %w", gk.Kind, Unavailable(err))
	}
	c.watch(gk, mapping)
	return nil
}

// Served takes note that the kind exists, as one of its objects was written.
func (c *Cache) Served(gk schema.GroupKind) error {
	c.mu.Lock()
	delete(c.absent, gk)
	c.mu.Unlock()
	return c.ensure(gk)
}

func (c *Cache) watch(gk schema.GroupKind, mapping *meta.RESTMapping) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches(gk) || c.life.Err() != nil {
		return
	}
	if len(c.kinds) == 0 {
		for _, events := range c.creationFailures {
			c.running.Go(func() { events.run(c.life, c.client) })
		}
		c.running.Go(func() { c.keepIdentity(c.life) })
	}
	for _, s := range c.scopesOf(gk, mapping) {
		k := &kindCache{cache: c, scope: s, facts: map[string]*Fact{}, since: time.Now()}
		c.kinds[s] = k
		c.running.Go(func() { k.run(c.life, c.client, mapping) })
	}
	delete(c.absent, gk)
}

// signal wakes those that wait in Sync. c.mu is held.
func (c *Cache) signal() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// of returns the facts of an instance: a slice that is the caller's, of facts
// that nobody alters.
func (c *Cache) of(instance string) []*Fact {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.owned(instance)
}

// Get finds an object by its key, whose ever it is, as far as it is watched.
func (c *Cache) Get(gk schema.GroupKind, key string) *Fact {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k := c.holder(gk, key); k != nil {
		return k.facts[key]
	}
	return nil
}

// Written takes note of the answer to a write, so that the next reader sees it
// before the watch brings it.
func (c *Cache) Written(gk schema.GroupKind, obj *unstructured.Unstructured) {
	f := FactOf(c.installation, gk, obj)
	c.mu.Lock()
	k := c.holder(gk, f.Key)
	// The watch may have deleted already an object whose version it has passed: one that
	// is added again would never go.
	if k == nil || !k.synced || f.version != 0 && f.version <= k.version {
		c.mu.Unlock()
		return
	}
	k.put(f)
	c.mu.Unlock()
}

// DeleteIssued takes note that it is Jibe who deletes the incarnation.
func (c *Cache) DeleteIssued(gk schema.GroupKind, key string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.holder(gk, key)
	if k == nil {
		return
	}
	if f := k.facts[key]; f != nil && f.UID == uid && !f.deletedByJibe {
		marked := *f
		marked.deletedByJibe = true
		k.put(&marked)
	}
}

// Deleting takes note that the API server has taken the order to delete an incarnation.
func (c *Cache) Deleting(gk schema.GroupKind, key string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.holder(gk, key)
	if k == nil {
		return
	}
	if f := k.facts[key]; f != nil && f.UID == uid && !f.Deleting {
		marked := *f
		marked.Deleting, marked.ready = true, false
		marked.Reason = "being deleted"
		k.put(&marked)
	}
}

func (c *Cache) subscribe(f func(instance string)) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watcher++
	n := c.watcher
	c.watchers[n] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, n)
	}
}

// notify notifies the watchers of the instances. c.mu is not held.
func (c *Cache) notify(instances ...string) {
	c.mu.RLock()
	watchers := slices.Collect(maps.Values(c.watchers))
	c.mu.RUnlock()
	for _, f := range watchers {
		for _, id := range instances {
			if id != "" {
				f(id)
			}
		}
	}
}

// Missed takes note that the VIM failed an instance, of which it may have no
// object whose watch would show that it is back.
func (c *Cache) Missed(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed[instance] = true
}

// recovered are the instances to notify, once, now that a VIM that was unreachable is seen
// again; none while some of it isn't. A kind that the API server itself can't list doesn't count: that
// may stay so for good, and [kindCache.Replace] notifies its instances when it ends. c.mu is held.
func (c *Cache) recovered() []string {
	if !c.failed && len(c.missed) == 0 {
		return nil
	}
	for _, k := range c.kinds {
		if (k.err != nil || !k.synced) && !k.standsAlone() {
			return nil
		}
	}
	notified := c.missed
	if c.failed {
		for id := range c.instances {
			notified[id] = true
		}
	}
	c.failed, c.missed = false, map[string]bool{}
	return slices.Collect(maps.Keys(notified))
}

// Defined says whether a definition of the kind is known to the watches.
func (c *Cache) Defined(gk schema.GroupKind) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k := c.kinds[scope{gk: manifest.KindCRD}]
	if k == nil {
		return false
	}
	for _, f := range k.facts {
		if f.defines == gk {
			return true
		}
	}
	return false
}
