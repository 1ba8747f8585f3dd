package lcm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The values of Operation.CancelMode (CancelModeType, SOL003 clause 5.5.4.6).
const (
	Forceful = "FORCEFUL"
	Graceful = "GRACEFUL"
)

// States returns all states, in the order of an operation's life.
func States() []State {
	return []State{Prepared, Starting, Processing, Completed, FailedTemp, RollingBack, RolledBack, Failed}
}

// Events returns all events.
func Events() []Event {
	return []Event{Committed, Granted, Refused, Converged, Broke, RetryAsked, RollbackAsked, FailAsked,
		CancelAsked, Superseded}
}

// transitions is the whole state machine (SOL003 v3.3.1 figure 5.6.2.2-1). An event that
// isn't listed is refused.
func transitions(s State) map[Event]State {
	switch s {
	case Prepared:
		return map[Event]State{Committed: Starting}
	case Starting:
		// Nothing was changed at the VIM yet, so a failure leaves what a rollback would.
		return map[Event]State{Granted: Processing, Refused: RolledBack, Broke: RolledBack, CancelAsked: RolledBack}
	case Processing:
		// A cancel only becomes pending: the reconciler first lets go of what it has begun.
		return map[Event]State{Converged: Completed, Broke: FailedTemp, CancelAsked: Processing}
	case FailedTemp:
		return map[Event]State{RetryAsked: Processing, RollbackAsked: RollingBack, FailAsked: Failed, Superseded: Failed}
	case RollingBack:
		return map[Event]State{Converged: RolledBack, Broke: FailedTemp, CancelAsked: RollingBack}
	}
	return nil
}

// Next returns the state that follows s after the event e. Where s doesn't allow e it
// returns [ErrState], wrapped with what a client may ask for instead.
func Next(s State, e Event) (State, error) {
	if to, ok := transitions(s)[e]; ok {
		return to, nil
	}
	return s, fmt.Errorf("%s in state %s is %w: %s", e, s, ErrState, possible(s))
}

// possible says what a client may ask of an operation in state s.
func possible(s State) string {
	if s.Ended() {
		return "the operation has ended"
	}
	var can []string
	for _, e := range []Event{RetryAsked, RollbackAsked, FailAsked, CancelAsked} {
		if _, ok := transitions(s)[e]; ok {
			can = append(can, string(e))
		}
	}
	if len(can) == 0 {
		return "nothing can be asked of it now"
	}
	return "possible is " + strings.Join(can, ", ")
}

// Path returns the states that an operation passes on the shortest way from one state to
// another, without from and with to. It is nil if the two are the same or there is no way.
// A record that skipped states notifies its observers of each state on the path.
func Path(from, to State) []State {
	if from == to {
		return nil
	}
	came := map[State]State{from: from}
	queue := []State{from}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s == to {
			var path []State
			for ; s != from; s = came[s] {
				path = append(path, s)
			}
			slices.Reverse(path)
			return path
		}
		t := transitions(s)
		for _, e := range Events() { // a fixed order, so that the answer is always the same
			next, ok := t[e]
			if _, seen := came[next]; ok && !seen {
				came[next] = s
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// Advance moves the operation by one event, at now. p says why, for an event that
// means failure; it may be nil elsewhere. A failure stays in Error through a retry
// and is cleared by success. An event that the state or the operation's type
// doesn't allow changes nothing and returns [ErrState], wrapped.
//
// A MODIFY_INFO passes STARTING at once, as it asks for no grant (SOL003 clause
// 5.6.2.2), unless a pull request proposes it, which is waited for there.
func (o *Operation) Advance(e Event, now time.Time, p *ProblemDetails) error {
	to, err := Next(o.State, e)
	if err != nil {
		return fmt.Errorf("operation %s: %w", o.ID, err)
	}
	if e == RollbackAsked {
		if err := o.CanRollback(); err != nil {
			return err
		}
	}
	now = now.UTC()
	switch e {
	case Committed:
		o.Attempt = 1
		o.AttemptStarted = now
		o.Journal.Operation = string(o.Type)
		if o.Started.IsZero() {
			o.Started = now
		}
		if o.Type == ModifyInfo && o.Proposal == nil {
			o.Journal.Granted = true
			to = Processing
		}
	case Granted:
		o.Journal.Granted = true
		o.AttemptStarted = now
	case RetryAsked:
		if o.Journal.Rollback {
			// The rollback may have undone what the hooks and posts did, so they are due again.
			o.Journal.Hooks, o.Journal.Posted = nil, nil
		}
		o.Journal.Rollback, o.Journal.Rebuilt = false, false
		o.Journal.Issued = nil
		o.Attempt++
		o.AttemptStarted = now
	case RollbackAsked:
		o.Journal.Rollback, o.Journal.Rebuilt = true, false
		o.Journal.Issued = nil
		o.AttemptStarted = now
	case CancelAsked:
		o.CancelMode = cmp.Or(o.CancelMode, Forceful)
		if to == RolledBack && p == nil {
			p = &ProblemDetails{Status: 409, Title: "Operation cancelled", Detail: "the operation was cancelled before anything was changed"}
		}
	case Broke, Refused:
		if p == nil {
			p = o.unexplained(e)
		}
	}
	if p != nil {
		o.Error = p
	}
	if to == Completed {
		o.Error = nil
	}
	line := string(to)
	if e == CancelAsked && to == o.State {
		line = fmt.Sprintf("cancel asked for (%s)", o.CancelMode)
	}
	if p != nil {
		line += ": " + p.Detail
	}
	o.AddToStory(now, line)
	if to != o.State {
		o.StateEntered = now
		o.CancelMode = "" // a cancel is pending only in the state in which it was asked for
	}
	o.State = to
	return nil
}

// unexplained returns the error of a failure for which no reason was given: an
// operation in FAILED_TEMP or ROLLED_BACK must show one (SOL003 clause 5.5.2.13).
func (o *Operation) unexplained(e Event) *ProblemDetails {
	if o.CancelMode != "" {
		return &ProblemDetails{Status: 409, Title: "Operation cancelled",
			Detail: fmt.Sprintf("the operation was cancelled (%s) in state %s", o.CancelMode, o.State)}
	}
	return &ProblemDetails{Status: 500, Detail: fmt.Sprintf("%s in state %s, without a reason given", e, o.State)}
}

// Cancel asks for the operation's end (SOL003 clause 5.4.17): in STARTING it is
// ROLLED_BACK at once; in PROCESSING and ROLLING_BACK the cancel is pending until
// the reconciler lets go and reports Broke. mode is [Forceful] or [Graceful].
func (o *Operation) Cancel(mode string, now time.Time) error {
	if mode != Forceful && mode != Graceful {
		return fmt.Errorf("operation %s: cancelMode %q is neither %s nor %s", o.ID, mode, Graceful, Forceful)
	}
	if _, err := Next(o.State, CancelAsked); err != nil {
		return fmt.Errorf("operation %s: %w", o.ID, err)
	}
	o.CancelMode = mode
	return o.Advance(CancelAsked, now, nil)
}

// CanRollback returns nil if the operation's type allows a rollback, or if it has removed
// nothing yet, else [ErrState] wrapped with the reason. It doesn't look at the state.
func (o *Operation) CanRollback() error {
	why := o.NoRollback
	if why == "" {
		switch o.Type {
		case Instantiate, ChangePackage, ChangeFlavour, ChangeExtConn, Operate, ModifyInfo, ScaleToLevel:
		case Scale:
			if scalesIn(o.Params) {
				why = "the units that a scale-in removed can't be brought back"
			}
		default:
			why = "what it removed can't be brought back"
		}
	}
	if why == "" || o.preparing() {
		return nil
	}
	return fmt.Errorf("operation %s: rollback of %s is %w: %s; possible is retry, fail", o.ID, o.Type, ErrState, why)
}

// preparing says whether nothing was touched at the VIM yet: at most, hooks have made
// preparations, which the hooks of a rollback undo. It is false for a repair, which has
// nothing to go back to, and for a termination, whose hooks have already begun to take
// down what runs.
func (o *Operation) preparing() bool {
	return !o.Automatic && o.Type != Terminate && !o.Journal.Touched && len(o.Journal.Issued) == 0
}
