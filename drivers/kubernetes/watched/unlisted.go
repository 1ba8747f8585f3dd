package watched

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// One kind may be out of sight while the API server answers for all others: the webhook that converts it is gone, a
// right was denied. The instances that have such objects can't be looked at then. All others go on.

const (
	// unlistedAfter is for how long a kind that no list was answered for, without an error, may be a slow one.
	unlistedAfter = 10 * time.Second
	// answerAge is how old the API server's last answer about something else may be, and answerPatience how long
	// a reader waits for one.
	answerAge, answerPatience = 10 * time.Second, time.Second
)

// outOfSight is a kind that can't be seen now.
type outOfSight struct {
	scope
	since time.Time
	tried time.Time // when it was last asked for in vain
	err   error     // nil while its first list is awaited
}

// lacking returns a kind that is needed in one of the namespaces and can't be seen, and one whose first list is
// awaited; nil for none. c.mu is held.
func (c *Cache) lacking(needed map[schema.GroupKind]bool, namespaces []string) (failed, pending *outOfSight) {
	for gk, need := range needed {
		for k := range c.within(gk, namespaces) {
			if k.err == nil && k.synced {
				continue
			}
			at := &outOfSight{k.scope, k.since, k.tried, k.err}
			throttled := apierrors.IsTooManyRequests(k.err) && time.Since(k.since) < unlistedAfter // it asked to be asked again
			switch {
			case throttled && k.synced:
			case k.err == nil, throttled:
				if pending == nil || at.patience() < pending.patience() {
					pending = at
				}
			case need || !isForbidden(k.err):
				if failed == nil || at.String() < failed.String() { // always the same one of several
					failed = at
				}
			}
		}
	}
	return failed, pending
}

// patience returns for how much longer the kind's first list may be a slow one. The kinds that every VIM has are
// awaited as the VIM is: theirs are long where it is large.
func (o *outOfSight) patience() time.Duration {
	if manifest.InfoOf(o.gk).Always {
		return syncPatience
	}
	return unlistedAfter - time.Since(o.since)
}

// patienceOver returns a channel that is ready after the time; never where that is up already.
func patienceOver(left time.Duration) <-chan time.Time {
	if left <= 0 {
		return nil
	}
	return time.After(left)
}

// unlisted returns why the kind can't be seen: an error of the kind alone where the API server answers otherwise, and
// of the VIM where it doesn't.
func (c *Cache) unlisted(ctx context.Context, k *outOfSight) error {
	err := k.err
	if err == nil {
		err = fmt.Errorf("no answer to the list since %s", k.since.UTC().Format(time.RFC3339))
	}
	if k.namespace != "" {
		err = fmt.Errorf("namespace %s: %w", k.namespace, err)
	}
	if !k.awaited() && c.answers(ctx, k.since) {
		return &drivers.UnlistedError{Kind: manifest.KindName(k.gk), Since: k.since, Err: err}
	}
	return fmt.Errorf("watch %s: %w", k.gk.Kind, Unavailable(err))
}

// awaited reports whether the last error was of the connection, and the list that was begun since may be a slow one:
// an outage leaves its error until the first list after it is there.
func (o *outOfSight) awaited() bool {
	var said apierrors.APIStatus
	if o.err == nil || isForbidden(o.err) || errors.As(o.err, &said) {
		return false
	}
	return manifest.InfoOf(o.gk).Always || time.Since(o.tried) < unlistedAfter
}

// answers reports whether the API server has answered a request that began after the time, and not long ago.
func (c *Cache) answers(ctx context.Context, since time.Time) bool {
	if least := time.Now().Add(-answerAge); least.After(since) {
		since = least
	}
	asking, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	_, err := c.identify(asking, since)
	return err == nil
}

// standsAlone reports whether it is for the kind alone that it can't be seen, as far as its last error tells. c.mu is held.
func (k *kindCache) standsAlone() bool {
	if k.err == nil {
		return !manifest.InfoOf(k.gk).Always && time.Since(k.since) >= unlistedAfter
	}
	var said apierrors.APIStatus
	return isForbidden(k.err) || errors.As(k.err, &said) && time.Since(k.since) >= unlistedAfter
}

// instances are those that have objects of the kind. k.cache.mu is held.
func (k *kindCache) instances() []string {
	found := map[string]bool{}
	for _, f := range k.facts {
		if f.Instance != "" {
			found[f.Instance] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// tellLater has the instances with objects of the kind looked at once it has been out of sight for a while: no watch
// reports that their state is stale. k.cache.mu is held.
func (k *kindCache) tellLater() {
	since := k.since
	time.AfterFunc(unlistedAfter, func() {
		k.cache.mu.RLock()
		var stale []string
		if k.err != nil && k.since.Equal(since) && k.cache.life.Err() == nil {
			stale = append(k.instances(), slices.Collect(maps.Keys(k.cache.missed))...)
		}
		k.cache.mu.RUnlock()
		slices.Sort(stale)
		k.cache.notify(slices.Compact(stale)...)
	})
}
