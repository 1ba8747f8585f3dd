// Package lru keeps the most recently used values up to a size in bytes, which the
// library that it stands on doesn't count.
package lru

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// overhead is what an entry costs besides its value and its key, in bytes.
const overhead = 128

// Cache keeps values by key. It is safe for concurrent use; values must be immutable.
type Cache[V any] struct {
	mu      sync.Mutex
	order   *simplelru.LRU[string, item[V]]
	most    int
	largest int
	used    int
}

type item[V any] struct {
	value V
	size  int
}

// New makes a cache of at most most bytes. A value of more than largest bytes isn't
// kept.
func New[V any](most, largest int) *Cache[V] {
	c := &Cache[V]{most: most, largest: largest}
	// The size is positive, which is all that can be wrong.
	c.order, _ = simplelru.NewLRU(math.MaxInt, func(_ string, it item[V]) { c.used -= it.size })
	return c
}

// Get returns the value, which is the most recently used one from now on.
func (c *Cache[V]) Get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, ok := c.order.Get(key)
	return it.value, ok
}

// Add keeps a value of size bytes, and drops those that were used least recently
// where there are too many.
func (c *Cache[V]) Add(key string, value V, size int) {
	size += len(key) + overhead
	if size > c.largest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Remove(key)
	c.order.Add(key, item[V]{value, size})
	for c.used += size; c.used > c.most; {
		c.order.RemoveOldest()
	}
}

// Clear drops all values.
func (c *Cache[V]) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Purge()
}
