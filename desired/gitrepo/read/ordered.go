package read

import (
	"iter"

	"github.com/tidwall/btree"
)

// ordered is a map in the order of its keys, of which a copy costs nothing: the two share what
// neither changes later. Reading it needs no more than that nobody changes or copies it at the
// same time.
type ordered[V any] struct{ tree btree.Map[string, V] }

// Get returns the value, the zero one where there is none.
func (o *ordered[V]) Get(key string) V {
	v, _ := o.tree.Get(key)
	return v
}

func (o *ordered[V]) Find(key string) (V, bool) { return o.tree.Get(key) }

func (o *ordered[V]) set(key string, v V) { o.tree.Set(key, v) }

func (o *ordered[V]) remove(key string) { o.tree.Delete(key) }

func (o *ordered[V]) Len() int { return o.tree.Len() }

func (o *ordered[V]) copy() ordered[V] { return ordered[V]{*o.tree.IsoCopy()} }

// All are the entries by key. The map mustn't be changed meanwhile.
func (o *ordered[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { o.tree.Scan(yield) }
}

// After are the entries whose keys follow key. The map mustn't be changed meanwhile.
func (o *ordered[V]) After(key string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		o.tree.Ascend(key, func(k string, v V) bool { return k == key || yield(k, v) })
	}
}
