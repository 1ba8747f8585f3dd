package reconciler

import (
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// WaitingFor answers why an instance waits, "" where it doesn't. It is pure, as [Next] is: whatever ends a pass says what
// is waited for, and what an operation waits for beside its VIM stands in its record.
func WaitingFor(s Situation) string { return reasonOf(Next(s), s) }

// reasonOf is [WaitingFor] where Next has answered a.
func reasonOf(a Action, s Situation) string {
	switch a.Do {
	case End, EndOverdue, EndUndone, EndUnproven, EndForeign, Complete:
		return "" // what comes next is for the next pass to say
	}
	if a.For != "" {
		return a.For
	}
	for _, op := range [...]*lcm.Operation{s.Attempt.Operation, s.Operation} {
		if op == nil {
			continue
		}
		if w, waits := op.Waiting(); waits {
			return w.For
		}
	}

	return s.Proposal.For
}

// Reason is why an instance waits.
type Reason struct {
	For string
	// Since is when this process saw it wait for that first.
	Since time.Time
}

// reasons holds why instances wait. It is a view of facts: a restart sees them again.
type reasons struct {
	mu sync.Mutex
	of map[string]Reason
}

func newReasons() *reasons { return &reasons{of: make(map[string]Reason)} }

// note takes down what an instance waits for, "" for nothing.
func (x *reasons) note(instance, what string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if what == "" {
		delete(x.of, instance)
	} else if x.of[instance].For != what {
		x.of[instance] = Reason{what, now}
	}
}

// WaitingFor is why an instance waits, as the last pass of this process has found; false where it doesn't.
func (v *View) WaitingFor(instance string) (Reason, bool) {
	x := v.r.reasons
	x.mu.Lock()
	defer x.mu.Unlock()
	why, waits := x.of[instance]

	return why, waits
}
