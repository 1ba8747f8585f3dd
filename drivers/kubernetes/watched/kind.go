package watched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// kindCache holds the facts of one kind, or of one kind in one namespace. Cache.mu guards it.
type kindCache struct {
	cache *Cache
	scope
	facts   map[string]*Fact // by key
	version uint64           // the newest that the watch has brought
	synced  bool
	err     error     // why the server isn't seen now
	since   time.Time // when err began, or the wait for the first list; zero while the kind is seen
	tried   time.Time // when it was last asked for in vain
	end     func()    // ends the present watch
	// goneUntil is for how long the kind counts as gone, unless definitions have changed since goneAt.
	goneUntil time.Time
	goneAt    int
	// void says that what the present watch brings is of a former cluster.
	void bool
}

// put replaces the fact under its key unless it is older, and says whether
// anything that matters changed. Cache.mu is held.
func (k *kindCache) put(f *Fact) bool {
	old := k.facts[f.Key]
	if old != nil && old.UID == f.UID {
		if f.version < old.version {
			return false
		}
		f.deletedByJibe = f.deletedByJibe || old.deletedByJibe
		if old.Deleting && !f.Deleting {
			f.Deleting, f.ready, f.Reason = true, false, old.Reason
		}
		f.traffic, f.slice = f.traffic.carriedOn(old.traffic), f.slice.carriedOn(old.slice)
	} else {
		f.traffic = f.traffic.carriedOn(nil)
	}
	if old != nil && (old.Instance != f.Instance || old.Elsewhere != f.Elsewhere || old.scales != f.scales) {
		k.unlink(old)
	}
	k.facts[f.Key] = f
	link(k.cache.instances, f.Instance, f)
	link(k.cache.elsewhere, f.Elsewhere, f)
	link(k.cache.scalers, f.scales, f)
	if k.gk == manifest.KindCRD && (old == nil || old.ready != f.ready) {
		k.cache.definitions++
	}
	return old == nil || !old.same(f)
}

// drop forgets the incarnation. Cache.mu is held.
func (k *kindCache) drop(key string, uid types.UID) bool {
	old := k.facts[key]
	if old == nil || old.UID != uid {
		return false
	}
	delete(k.facts, key)
	k.unlink(old)
	k.cache.former.add(old)
	return true
}

func (k *kindCache) unlink(f *Fact) {
	unlink(k.cache.instances, f.Instance, f)
	unlink(k.cache.elsewhere, f.Elsewhere, f)
	unlink(k.cache.scalers, f.scales, f)
}

func link(all map[string]map[string]*Fact, instance string, f *Fact) {
	if instance == "" {
		return
	}
	if all[instance] == nil {
		all[instance] = map[string]*Fact{}
	}
	all[instance][f.Key] = f
}

func unlink(all map[string]map[string]*Fact, instance string, f *Fact) {
	of := all[instance]
	if of[f.Key] == f {
		delete(of, f.Key)
	}
	if len(of) == 0 {
		delete(all, instance)
	}
}

// Add, Update, Delete, Replace, Resync and Bookmark are what a reflector calls.

// Add takes an object that the watch brought.
func (k *kindCache) Add(obj any) error { return k.Update(obj) }

// Update takes an object that the watch brought.
func (k *kindCache) Update(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch of %s brought a %T", k.gk.Kind, obj)
	}
	f := FactOf(k.cache.installation, k.gk, u)
	k.cache.mu.Lock()
	if k.void {
		k.cache.mu.Unlock()
		return nil
	}
	k.version = max(k.version, f.version)
	notified := append(k.cache.scaled(f), f.Instance)
	if old := k.facts[f.Key]; old != nil && (old.Instance != f.Instance || old.scales != f.scales) {
		notified = append(append(notified, old.Instance), k.cache.scaled(old)...) // which have lost it
	}
	changed := k.put(f) && k.cache.wakes(f)
	if changed {
		notified = append(notified, k.cache.awaiting(f)...)
	}
	k.cache.mu.Unlock()
	if changed {
		k.cache.notify(notified...)
	}
	return nil
}

// Delete takes an object that the watch saw go.
func (k *kindCache) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch of %s brought a %T", k.gk.Kind, obj)
	}
	f := FactOf(k.cache.installation, k.gk, u)
	k.cache.mu.Lock()
	if k.void {
		k.cache.mu.Unlock()
		return nil
	}
	k.version = max(k.version, f.version)
	gone := k.drop(f.Key, f.UID) && k.cache.wakes(f)
	notified := append(k.cache.scaled(f), f.Instance)
	k.cache.mu.Unlock()
	if gone {
		k.cache.notify(notified...)
	}
	return nil
}

// Replace takes a whole list, after which the kind counts as seen. A list that is
// older than what was known is that of a server that was set back (its store was
// restored): then the list is what there is. Which cluster it is of is asked after it was read: a list of
// another cluster than the other facts is never taken.
func (k *kindCache) Replace(list []any, version string) error {
	if _, err := k.cache.identify(k.cache.life, time.Now()); err != nil {
		k.failing(err)
		return err
	}
	facts := make(map[string]*Fact, len(list))
	for _, obj := range list {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			f := FactOf(k.cache.installation, k.gk, u)
			facts[f.Key] = f
		}
	}
	var moved []string
	k.cache.mu.Lock()
	if k.void {
		k.cache.mu.Unlock()
		return errAgain
	}
	at := parseVersion(version)
	setBack := version != "" && at < k.version
	if k.version = max(k.version, at); setBack {
		k.version = at
	}
	for key, old := range k.facts {
		// The list lacks objects that were written after it was made, and those without a label.
		if _, listed := facts[key]; (setBack || !listed && !old.stray && old.version <= at) && k.drop(key, old.UID) && k.cache.wakes(old) {
			moved = append(append(moved, old.Instance), k.cache.scaled(old)...)
		}
	}
	for _, f := range facts {
		if k.put(f) && k.cache.wakes(f) {
			moved = append(append(append(moved, f.Instance), k.cache.awaiting(f)...), k.cache.scaled(f)...)
		}
	}
	if k.err != nil { // what is unchanged was stale meanwhile, and its instances couldn't be looked at
		moved = append(moved, k.instances()...)
	}
	k.synced, k.err, k.since = true, nil, time.Time{}
	k.cache.signal()
	moved = append(moved, k.cache.recovered()...)
	k.cache.mu.Unlock()
	slices.Sort(moved)
	k.cache.notify(slices.Compact(moved)...)
	return nil
}

// Resync has nothing to do: readers see every change when it comes.
func (k *kindCache) Resync() error { return nil }

// Bookmark takes note of how far the watch is.
func (k *kindCache) Bookmark(version string) error {
	k.cache.mu.Lock()
	defer k.cache.mu.Unlock()
	if !k.void {
		k.version = max(k.version, parseVersion(version))
	}
	return nil
}

// failing records why the server can't be asked for the kind. The latest reason counts, from the first on.
func (k *kindCache) failing(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		return
	}
	k.cache.mu.Lock()
	defer k.cache.mu.Unlock()

	was := k.err
	k.err, k.tried = err, time.Now()
	if was != nil {
		return
	}
	if k.since.IsZero() {
		k.since = time.Now()
	}
	k.cache.failed = true
	k.cache.log.Warn("a watch of the VIM failed and is tried again", "kind", k.String(), "error", err)
	k.cache.signal()
	k.tellLater()
}

func parseVersion(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
