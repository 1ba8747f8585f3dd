package watched

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// identityAge is for how long the cluster is taken to be the one that it last said it is.
	identityAge = time.Minute
	// identityPatience bounds one request for the identity.
	identityPatience = 30 * time.Second
)

// clusterIdentity is which cluster answers at the VIM's address: the UID of the namespace kube-system, which
// every cluster has from its beginning to its end.
type clusterIdentity struct {
	// turn is held while the API server is asked, so that callers that come together share one answer.
	turn chan struct{}

	mu    sync.Mutex
	began time.Time // of the last request
	uid   string    // "" where it isn't known, or can't be seen
	err   error
}

// Identity returns which cluster the facts are of, as of a minute ago at most; "" where that can't
// be seen with the VIM's credentials. What Observe reports is never of another cluster than the next
// Identity says.
func (c *Cache) Identity(ctx context.Context) (string, error) {
	return c.identify(ctx, time.Now().Add(-identityAge))
}

// identify returns which cluster it is, by a request that began after the time. If it is another one than
// before, all facts are dropped, and all instances are looked at again.
func (c *Cache) identify(ctx context.Context, after time.Time) (string, error) {
	if c.client == nil {
		return "", nil
	}
	if uid, err, known := c.identity.since(after); known {
		return uid, err
	}
	select {
	case c.identity.turn <- struct{}{}:
		defer func() { <-c.identity.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("look at namespace %s: %w", metav1.NamespaceSystem, Unavailable(ctx.Err()))
	}
	if uid, err, known := c.identity.since(after); known {
		return uid, err
	}

	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, identityPatience)
	defer cancel()
	ns, err := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(asking, metav1.NamespaceSystem, metav1.GetOptions{})

	was := c.identity.known()
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return c.identity.note(began, was, nil) // what it was before still counts
	case err != nil:
		err = fmt.Errorf("look at namespace %s: %w", metav1.NamespaceSystem, Unavailable(err))
		if ctx.Err() != nil {
			return "", err // the caller's time was up, which says nothing about the cluster
		}
		return c.identity.note(began, was, err)
	}

	is := string(ns.GetUID())
	if was != "" && was != is {
		c.log.Warn("another cluster answers at the VIM's address: what was known of the former one is dropped", "was", was, "is", is)
		c.startOver()
	}
	return c.identity.note(began, is, nil)
}

// since returns the answer to a request that began after the time, if there was one.
func (i *clusterIdentity) since(after time.Time) (uid string, err error, known bool) { //nolint:revive // the error is a part of the answer
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.began.After(after) || i.err != nil && time.Since(i.began) > retryMost {
		return "", nil, false
	}
	return i.answer(), i.err, true
}

// known returns which cluster it was last, "" where that was never seen.
func (i *clusterIdentity) known() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uid
}

// note notes the answer to a request, and returns it.
func (i *clusterIdentity) note(began time.Time, uid string, err error) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.began, i.uid, i.err = began, uid, err
	return i.answer(), i.err
}

// answer is "" where the cluster couldn't be asked last. i.mu is held.
func (i *clusterIdentity) answer() string {
	if i.err != nil {
		return ""
	}
	return i.uid
}

// startOver drops all facts, as they are of another cluster, and has every kind listed again. All
// instances that had any are notified once that is done.
func (c *Cache) startOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.instances {
		c.missed[id] = true
	}
	for _, k := range c.kinds {
		for _, f := range k.facts {
			k.unlink(f)
		}
		clear(k.facts)
		k.version, k.synced, k.void, k.since = 0, false, true, time.Now()
		k.relist()
	}
	for _, events := range c.creationFailures {
		events.relist()
	}
	clear(c.absent)
	clear(c.taken)
	c.definitions++
	c.signal()
}

// keepIdentity asks which cluster it is, once a minute, until ctx ends. A cluster of which no watch ends, as
// it was replaced behind the same connection, is noticed by this.
func (c *Cache) keepIdentity(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(identityAge - rand.N(identityAge/4)):
		}
		// An error is that of a VIM that can't be reached, which the watches show.
		_, _ = c.identify(ctx, time.Now().Add(-identityAge/2))
	}
}
