package oplog

import (
	"maps"
	"slices"
	"sync"
)

// locks gives each instance to one writer at a time.
type locks struct {
	mu sync.Mutex
	of map[string]*lock
}

type lock struct {
	sync.Mutex
	users int // who has it or waits for it
}

// used returns the instances that are being written, or wait for that.
func (l *locks) used() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.of))
}

// lock waits until nobody else has the instance; unlock gives it back.
func (l *locks) lock(instance string) (unlock func()) {
	l.mu.Lock()
	if l.of == nil {
		l.of = map[string]*lock{}
	}
	one := l.of[instance]
	if one == nil {
		one = new(lock)
		l.of[instance] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.of, instance)
		}
	}
}
