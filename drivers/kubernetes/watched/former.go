package watched

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// former remembers for a while what objects that somebody else deleted hand over to
// their successors, by the key of the object: a Service that is made anew keeps its
// addresses if nobody took them. It is a courtesy: a restart forgets it. (What Jibe itself
// deletes to make it anew stands in the operation's journal.)
type former struct {
	handovers *lru.Cache[string, handover]
}

// handover is what an object of the instance hands over, in the form of plan.Step.Keep.
type handover struct {
	instance, kept string
	until          time.Time
}

const (
	// formerFor is for how long a successor may take over what the object had.
	formerFor = 10 * time.Minute
	// maxFormer bounds how many objects are remembered; the oldest are forgotten first.
	maxFormer = 4096
)

func newFormer() *former {
	handovers, err := lru.New[string, handover](maxFormer)
	if err != nil {
		panic(err) // the size isn't positive
	}
	return &former{handovers}
}

// add notes what the deleted object hands over, if it is anything and Jibe didn't delete it.
func (o *former) add(f *Fact) {
	if f.kept != "" && f.Instance != "" && !f.deletedByJibe {
		o.handovers.Add(f.Key, handover{f.Instance, f.kept, time.Now().Add(formerFor)})
	}
}

// Handover is what the last object under the key hands over to its successor in the
// instance, in the form of plan.Step.Keep; "" is nothing.
func (c *Cache) Handover(instance, key string) string {
	x, ok := c.former.handovers.Peek(key)
	if !ok || x.instance != instance || !time.Now().Before(x.until) {
		return ""
	}
	return x.kept
}

// ForgetHandover forgets what the last object under the key hands over.
func (c *Cache) ForgetHandover(key string) { c.former.handovers.Remove(key) }
