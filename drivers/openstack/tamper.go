package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"sync"
)

// ours remembers at which of its updates a stack was found to be what its tag says, or
// was updated by this process: what Heat tells of the template is compared once an
// update, and never with an update of our own. Heat may tell something in other words,
// and Jibe must not update a stack for ever because of that.
type ours struct {
	mu    sync.Mutex
	stack map[string]string // stack id -> updated_time
}

func (o *ours) is(s *stack) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.stack[s.ID]
	return ok && at == s.Updated
}

func (o *ours) put(id, updated string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stack == nil {
		o.stack = map[string]string{}
	}
	o.stack[id] = updated
}

// forget drops what is known of stacks that are gone.
func (o *ours) forget(now *snapshot) {
	there := map[string]bool{}
	for _, stacks := range now.stacks {
		for _, s := range stacks {
			there[s.ID] = true
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.stack, func(id, _ string) bool { return !there[id] })
}

// tampered says whether the stack was made by Jibe and then changed by hand.
func (d *Driver) tampered(s *stack) bool {
	said := s.tag(tagBody)
	if said == "" || s.live == nil || s.deleting() || d.ours.is(s) {
		return false
	}
	is, err := s.live.hash()
	if err != nil || is != said {
		return true
	}
	d.ours.put(s.ID, s.Updated)
	return false
}

// hash identifies what a stack is made of, as it stands in its tag. Hidden parameters are
// left out: Heat doesn't tell them, and a hash would tell of them.
func (b *liveBody) hash() (string, error) {
	parameters := nonNil(maps.Clone(b.Parameters))
	declared, _ := b.Template["parameters"].(map[string]any)
	for name := range parameters {
		if schema, _ := declared[name].(map[string]any); schema["hidden"] == true {
			delete(parameters, name)
		}
	}
	same, err := plain([]any{b.Template, nonNil(b.Files), parameters})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(same) // map keys in order
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), err
}
