package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// kindCache holds the facts of one kind. cache.mu guards it.
type kindCache struct {
	cache   *cache
	gk      schema.GroupKind
	facts   map[string]*fact // by key
	version uint64           // the newest that the watch has brought
	synced  bool
	err     error // why the server isn't seen now
}

// put replaces the fact under its key unless it is older, and says whether
// anything that matters changed. cache.mu is held.
func (k *kindCache) put(f *fact) bool {
	old := k.facts[f.key]
	if old != nil && old.uid == f.uid {
		if f.version < old.version {
			return false
		}
		f.told = f.told || old.told
		if old.deleting && !f.deleting {
			f.deleting, f.ready, f.reason = true, false, old.reason
		}
		f.lead = f.lead.carried(old.lead)
	} else {
		f.lead = f.lead.carried(nil)
	}
	if old != nil && old.instance != f.instance {
		k.unlink(old)
	}
	k.facts[f.key] = f
	if f.instance != "" {
		of := k.cache.instances[f.instance]
		if of == nil {
			of = map[string]*fact{}
			k.cache.instances[f.instance] = of
		}
		of[f.key] = f
	}
	if k.gk == kindCRD && (old == nil || old.ready != f.ready) {
		k.cache.definitions++
	}
	return old == nil || !old.same(f)
}

// drop forgets the incarnation. cache.mu is held.
func (k *kindCache) drop(key string, uid types.UID) bool {
	old := k.facts[key]
	if old == nil || old.uid != uid {
		return false
	}
	delete(k.facts, key)
	k.unlink(old)
	k.cache.former.add(old)
	return true
}

func (k *kindCache) unlink(f *fact) {
	of := k.cache.instances[f.instance]
	if of[f.key] == f {
		delete(of, f.key)
	}
	if len(of) == 0 {
		delete(k.cache.instances, f.instance)
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
	f := factOf(k.gk, u)
	k.cache.mu.Lock()
	k.version = max(k.version, f.version)
	told := []string{f.instance}
	if old := k.facts[f.key]; old != nil && old.instance != f.instance {
		told = append(told, old.instance) // which has lost it
	}
	changed := k.put(f) && k.cache.wakes(f)
	if changed {
		told = append(told, k.cache.awaiting(f)...)
	}
	k.cache.mu.Unlock()
	if changed {
		k.cache.notify(told...)
	}
	return nil
}

// Delete takes an object that the watch saw go.
func (k *kindCache) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch of %s brought a %T", k.gk.Kind, obj)
	}
	f := factOf(k.gk, u)
	k.cache.mu.Lock()
	k.version = max(k.version, f.version)
	gone := k.drop(f.key, f.uid) && k.cache.wakes(f)
	k.cache.mu.Unlock()
	if gone {
		k.cache.notify(f.instance)
	}
	return nil
}

// Replace takes a whole list, after which the kind counts as seen. A list that is
// older than what was known is that of a server that was set back (its store was
// restored): then the list is what there is.
func (k *kindCache) Replace(list []any, version string) error {
	facts := make(map[string]*fact, len(list))
	for _, obj := range list {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			f := factOf(k.gk, u)
			facts[f.key] = f
		}
	}
	var moved []string
	k.cache.mu.Lock()
	at := parseVersion(version)
	setBack := version != "" && at < k.version
	if k.version = max(k.version, at); setBack {
		k.version = at
	}
	for key, old := range k.facts {
		// What was written after the list was made isn't in it.
		if _, listed := facts[key]; (setBack || !listed && old.version <= at) && k.drop(key, old.uid) && k.cache.wakes(old) {
			moved = append(moved, old.instance)
		}
	}
	for _, f := range facts {
		if k.put(f) && k.cache.wakes(f) {
			moved = append(append(moved, f.instance), k.cache.awaiting(f)...)
		}
	}
	k.synced, k.err = true, nil
	k.cache.signal()
	moved = append(moved, k.cache.back()...)
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
	k.version = max(k.version, parseVersion(version))
	return nil
}

// seen records whether the server answers.
func (k *kindCache) seen(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		return
	}
	k.cache.mu.Lock()
	if (err == nil) != (k.err == nil) {
		if k.err = err; err != nil {
			k.cache.missed = true
			k.cache.log.Warn("a watch of the VIM failed and is tried again", "kind", k.gk.Kind, "error", err)
		}
		k.cache.signal()
	}
	var back []string
	if err == nil {
		back = k.cache.back()
	}
	k.cache.mu.Unlock()
	k.cache.notify(back...)
}

func parseVersion(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
