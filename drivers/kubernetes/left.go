package kubernetes

import (
	"sync"
	"time"
)

// estate remembers for a while what objects that somebody else deleted left to
// their successors: a Service that is made anew keeps its addresses if nobody
// took them. It is a courtesy: a restart forgets it. (What Jibe itself deletes to
// make it anew stands in the operation's journal.)
type estate struct {
	mu sync.Mutex
	of map[string]legacy // by key
}

type legacy struct {
	instance, kept string
	until          time.Time
}

const (
	legacyFor = 10 * time.Minute
	legacies  = 4096
)

func newEstate() *estate { return &estate{of: map[string]legacy{}} }

// bury takes down what the object leaves, if that is anything.
func (e *estate) bury(f *fact) {
	if f.kept == "" || f.instance == "" || f.told {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if len(e.of) >= legacies {
		for key, x := range e.of {
			if x.until.Before(now) {
				delete(e.of, key)
			}
		}
		if len(e.of) >= legacies {
			return
		}
	}
	e.of[f.key] = legacy{f.instance, f.kept, now.Add(legacyFor)}
}

// left is what the last object under the key left to the instance; "" is nothing.
func (e *estate) left(instance, key string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of[key]
	if x.instance != instance || !time.Now().Before(x.until) {
		return ""
	}
	return x.kept
}

func (e *estate) forget(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, key)
}
