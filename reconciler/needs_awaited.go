package reconciler

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// InstanceWait is an operation that waits for other instances.
type InstanceWait struct {
	Instance, Operation string
	Type                lcm.Type
	// For is what it waits for, for people.
	For string
	// Since is when the wait began, by the operation's record.
	Since time.Time
}

// awaited holds which operations wait for other instances, and what wakes them. It is a view of facts: a
// restart sees them anew. It is safe for concurrent use.
type awaited struct {
	mu sync.Mutex
	of map[string]*wakened
	by map[string]map[string]struct{} // by key: the instances that it wakes
}

// wakened is an instance that is woken when something happens to one of the keys: ids and directories
// of instances.
type wakened struct {
	keys []string
	wait InstanceWait // its Operation is "" where it isn't known yet whether it waits
}

func newAwaited() *awaited {
	return &awaited{of: map[string]*wakened{}, by: map[string]map[string]struct{}{}}
}

// wakenBy has the instance woken by these keys and no others.
func (a *awaited) wakenBy(instance string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := &wakened{keys: keys}
	if was := a.of[instance]; was != nil {
		next.wait = was.wait
		a.drop(instance)
	}
	a.of[instance] = next
	for _, key := range keys {
		if a.by[key] == nil {
			a.by[key] = map[string]struct{}{}
		}
		a.by[key][instance] = struct{}{}
	}
}

// tell notes what the operation of an instance that is woken waits for.
func (a *awaited) tell(op *lcm.Operation, what string) {
	w, _ := op.Waiting()
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.of[op.Instance]; x != nil {
		x.wait = InstanceWait{Instance: op.Instance, Operation: op.ID, Type: op.Type, For: what, Since: w.Since}
	}
}

// done is for an instance that waits for nobody.
func (a *awaited) done(instance string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(instance)
}

// drop forgets the instance. a.mu is held.
func (a *awaited) drop(instance string) {
	x := a.of[instance]
	if x == nil {
		return
	}
	delete(a.of, instance)
	for _, key := range x.keys {
		if delete(a.by[key], instance); len(a.by[key]) == 0 {
			delete(a.by, key)
		}
	}
}

// any says whether anybody waits.
func (a *awaited) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.of) > 0
}

// waiting are the instances that one of the keys wakes, in order.
func (a *awaited) waiting(keys ...string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]struct{}{}
	for _, key := range keys {
		for instance := range a.by[key] {
			all[instance] = struct{}{}
		}
	}
	return sortedKeys(all)
}

// WaitingForInstances lists the operations of this process that wait for other instances, by instance.
func (v *View) WaitingForInstances() []InstanceWait {
	a := v.r.awaited
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []InstanceWait
	for _, x := range a.of {
		if x.wait.Operation != "" {
			list = append(list, x.wait)
		}
	}
	slices.SortFunc(list, func(a, b InstanceWait) int { return strings.Compare(a.Instance, b.Instance) })
	return list
}
