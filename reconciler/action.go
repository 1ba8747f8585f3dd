package reconciler

import (
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// Action is what [Next] answers: one thing that a pass does before it asks again. Each is safe to repeat, as the next
// pass begins from facts.
type Action struct {
	Do Verb
	// Part is what is to be read ([Look]).
	Part Part
	// Wait is after how long to look again, 0 when something moves ([Rest], [Halt]).
	Wait time.Duration
	// For is what is waited for, for people; "" where that is nothing.
	For string
	// Head says what becomes of git's head ([Look] at [PartRest]).
	Head HeadVerdict
	// State is what is done about a drift ([ShowDrift]), and Why why no repair begins ([RefuseRepair]).
	State DriftState
	Why   string
	// Err is why head can't be brought about ([Reject]).
	Err error
	// Override reports whether an operation begins outside of its windows ([Begin]).
	Override bool
	// Cause and Problem are why an attempt ends ([End]); GaveWay reports whether a newer commit takes its place.
	Cause   cause
	Problem *lcm.ProblemDetails
	GaveWay bool
}

// Verb is a kind of action.
type Verb uint8

// The verbs.
const (
	Look Verb = iota // read a part of the situation
	Rest             // end the pass

	ResolveRequest    // find out what became of a request whose member is gone
	LeaveToRequest    // end the pass, as a member is at the request
	CommitOutcome     // commit what an operation has ended with
	ClosePullRequests // close the pull requests of operations that have ended
	EndSideRepair     // end a repair, as the operation that waited goes on
	ForgetRecord      // drop the record of an instance that git no longer has

	Reject       // note why head can't be brought about
	FillIn       // commit what the author of head left open
	PinAtRest    // commit the id and VIM of what runs
	CreateRecord // record an instance that a push brought
	FastForward  // move the record to head without an operation
	RollBack     // roll the failed operation back, as head asks for what was before
	Begin        // begin the operation that leads to head
	Retry        // carry an operation on whose successor has gone

	LeaveAlone   // end the pass, as there is nothing to compare with
	ShowDrift    // show what has drifted
	RefuseRepair // show why no repair begins, and end the pass
	BeginRepair  // begin a repair
	RetryRepair  // try a failed repair again

	Halt          // stop the operation's clock, and end the pass
	TellWait      // record what the operation waits for
	FreeOperation // record that the operation waits for no instance any more
	ObtainGrant   // obtain the grant, and record it
	Park          // have a proposed operation wait for its pull request
	DoUnseen      // run hooks, and wait for drains: steps that no VIM shows
	Issue         // record that a batch is started
	Start         // hand a batch to the driver

	End         // end the attempt
	EndOverdue  // end the attempt with what the VIM says of the object that was waited for
	EndUndone   // end the attempt, as what it does is undone each time
	EndUnproven // end the attempt, as its record was changed
	EndForeign  // end the attempt, as git proves no revision that its record names
	Complete    // end the operation, as what is wanted is there
	verbCount
)

var verbNames = [verbCount]string{
	"look at", "rest", "resolve request", "leave to request", "commit outcome", "close pull requests", "end side repair", "forget record",
	"reject", "fill in", "pin at rest", "create record", "fast-forward", "roll back", "begin", "retry",
	"leave alone", "show drift", "refuse repair", "begin repair", "retry repair",
	"halt", "tell wait", "free operation", "obtain grant", "park", "do unseen steps", "issue", "start",
	"end", "end overdue", "end undone", "end unproven", "end foreign", "complete",
}

func (v Verb) String() string { return verbNames[v] }

// HeadVerdict is what becomes of git's head while no operation leads to it.
type HeadVerdict uint8

// The verdicts.
const (
	HeadInSync   HeadVerdict = iota // it is what was operated on last
	HeadInEffect                    // nothing is to be done for it
	HeadWaits                       // it waits for its window
	HeadBlocked                     // it can't be brought about
	HeadMerged                      // what it brings waits as its proposal does
)

// heldBack reports whether what was operated on last stands although head differs.
func (h HeadVerdict) heldBack() bool { return h >= HeadWaits }

func look(p Part) Action { return Action{Do: Look, Part: p} }

func rest(wait time.Duration, what string) Action { return Action{Do: Rest, Wait: wait, For: what} }
