package reconciler

import (
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/internal/trace"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// phase is what an operation is at, as metrics and traces tell it.
type phase string

// The phases.
const (
	phaseNeeds  phase = "needs"  // other instances are awaited
	phaseGrant  phase = "grant"  // the policy is asked, or the NFVO's answer awaited
	phaseMerge  phase = "merge"  // somebody is to merge the pull request
	phaseHook   phase = "hook"   // a hook runs, or a coordination action is awaited
	phaseApply  phase = "apply"  // objects and units are made, changed, started or stopped
	phaseWait   phase = "wait"   // the VIM is at work
	phaseSwitch phase = "switch" // traffic is directed elsewhere
	phaseDrain  phase = "drain"  // connections are left time to end
	phasePrune  phase = "prune"  // what is no longer desired is deleted
)

// phaseOf is the phase of a batch of steps.
func phaseOf(batch []plan.Step) phase {
	for _, s := range batch {
		switch {
		case s.Action == plan.Wait:
		case s.Action == plan.Grant:
			return phaseGrant
		case s.Action == plan.Hook:
			return phaseHook
		case s.Action == plan.Drain:
			return phaseDrain
		case s.Action == plan.Reselect, s.Directs:
			return phaseSwitch
		case s.Action == plan.Delete, s.Action == plan.DeleteUnit:
			return phasePrune
		default:
			return phaseApply
		}
	}
	return phaseWait
}

// phases remember what each operation under way is at. A restart loses that: the phase then
// counts from the first look of the new process.
type phases struct {
	now func() time.Time
	// left is told of each phase that an operation has left.
	left func(op *lcm.Operation, was phaseSince, until time.Time)

	// span is the span that a phase of the operation belongs to.
	span func(op *lcm.Operation) trace.SpanID

	mu sync.Mutex
	of map[string]phaseSince // by operation
}

type phaseSince struct {
	phase
	since time.Time
	// span is that of the state in which the operation was then.
	span trace.SpanID
}

// enter notes that the operation is at the phase.
func (x *phases) enter(op *lcm.Operation, p phase) {
	now := x.now()
	x.mu.Lock()
	was, known := x.of[op.ID]
	if was.phase == p {
		x.mu.Unlock()
		return
	}
	if p == "" {
		delete(x.of, op.ID)
	} else {
		x.of[op.ID] = phaseSince{p, now, x.span(op)}
	}
	x.mu.Unlock()
	if known {
		x.left(op, was, now)
	}
}

// leftPhase counts the time of a phase.
func (r *Reconciler) leftPhase(op *lcm.Operation, was phaseSince, until time.Time) {
	r.Metrics.left(op.Type, was.phase, until.Sub(was.since))
	r.traces.phase(op, was, until)
}

// changed ends the phase of an operation that rests or has ended.
func (x *phases) changed(op *lcm.Operation) {
	if op.State == lcm.FailedTemp || op.State.Ended() {
		x.enter(op, "")
	}
}
