package gitrepo

import (
	"container/list"
	"sync"
)

// lru keeps the most recently used values up to a size in bytes. It is safe for
// concurrent use; values must be immutable.
type lru[V any] struct {
	mu    sync.Mutex
	max   int
	used  int
	order *list.List // of *lruItem[V], most recent first
	items map[string]*list.Element
}

type lruItem[V any] struct {
	key   string
	value V
	size  int
}

func newLRU[V any](max int) *lru[V] {
	return &lru[V]{max: max, order: list.New(), items: map[string]*list.Element{}}
}

func (c *lru[V]) get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		var zero V
		return zero, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*lruItem[V]).value, true
}

// add keeps a value. One larger than a quarter of the cache isn't kept: it would
// push everything else out.
func (c *lru[V]) add(key string, value V, size int) {
	size += len(key) + 128 // the bookkeeping
	if size > c.max/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		it := e.Value.(*lruItem[V])
		c.used += size - it.size
		it.value, it.size = value, size
		c.order.MoveToFront(e)
	} else {
		c.items[key] = c.order.PushFront(&lruItem[V]{key: key, value: value, size: size})
		c.used += size
	}
	for c.used > c.max {
		last := c.order.Back()
		it := c.order.Remove(last).(*lruItem[V])
		delete(c.items, it.key)
		c.used -= it.size
	}
}
