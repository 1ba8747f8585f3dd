package openstack

import (
	"maps"
	"sync"
	"time"
)

// knownUpdates remembers, by stack, the last of its updates after which the stack was found
// to be what its tag says, or which this process made itself. The template that
// Heat has is compared once an update, and never after an update of this process: Heat may
// return it in another form than it was sent, and Jibe must not update a stack for ever
// because of that.
type knownUpdates struct {
	mu    sync.Mutex
	stack map[string]time.Time // when the stack under the id was updated; zero for never
}

// has says whether the stack's last update is the known one.
func (k *knownUpdates) has(s *stack) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.stack[s.ID]
	return ok && at.Equal(s.UpdatedTime)
}

func (k *knownUpdates) put(id string, updated time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stack == nil {
		k.stack = map[string]time.Time{}
	}
	k.stack[id] = updated
}

// forget drops what is known of stacks that are gone.
func (k *knownUpdates) forget(now *snapshot) {
	there := map[string]bool{}
	for _, stacks := range now.stacks {
		for _, s := range stacks {
			there[s.ID] = true
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.stack, func(id string, _ time.Time) bool { return !there[id] })
}

// changedByHand says whether the stack was made by Jibe and then changed by somebody else.
func (d *Driver) changedByHand(s *stack) bool {
	tagged := s.tag(tagBody)
	if tagged == "" || s.live == nil || s.deleting() || d.known.has(s) {
		return false
	}
	hash, err := s.live.hash()
	if err != nil || hash != tagged {
		return true
	}
	d.known.put(s.ID, s.UpdatedTime)
	return false
}
