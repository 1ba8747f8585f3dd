package reconciler

import (
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// Situation is what a pass knows of one instance when it asks [Next] what to do. It is plain data: nothing in it can
// be called, and what it points to is never changed. Parts of it are read when Next asks for them ([Look]), so that a
// pass of an instance at rest reads no more than it needs.
type Situation struct {
	// Now is the time of the pass, and Seen has the parts that were read.
	Now  time.Time
	Seen Parts

	// Record is the instance's record ([PartRecord]). A record that doesn't exist is zero.
	Record *lcm.Instance
	// Forge reports whether this process can close pull requests.
	Forge bool
	// Operation is the open one, nil where none is ([PartOperation]).
	Operation *lcm.Operation
	// Behind reports whether others have decided by commits that this process doesn't have yet ([PartBehind]).
	Behind bool
	// Foreign is why git doesn't prove a revision that the operation's record names, nil where it does ([PartProof]).
	Foreign error
	// Suspended reports whether head says so while an operation is in progress ([PartSuspension]).
	Suspended bool
	// Head is the instance's directory at the branch's head, and Exists reports whether there is one ([PartHead]).
	Head   desired.Revision
	Exists bool

	// RequestWaits reports whether a living member is still at the request that is prepared.
	RequestWaits bool
	// Proposal is what became of what is proposed ([PartProposal]).
	Proposal ProposalFacts

	Change  ChangeFacts
	Rest    RestFacts
	Attempt AttemptFacts

	// Done are the actions of this pass that are for once.
	Done Done
}

// ProposalFacts are what became of a proposed change.
type ProposalFacts struct {
	// Merged reports whether the change is in the branch and its operation can't begin yet: nothing else begins by it.
	Merged bool
	// Again is after how long to look at the latest, 0 where nothing is proposed.
	Again time.Duration
	// For is what its operation waits for, as its record has it.
	For string
}

// ChangeFacts are the difference between head and what was operated on last.
type ChangeFacts struct {
	// Before and After are the intents, nil where there is none ([PartIntents]).
	Before, After *desired.Instance
	// SeenWaiting is the type of operation that was seen to wait for its window at this very head.
	SeenWaiting lcm.Type
	// WaitUntil is when what waits on the instance may begin, zero for no time in sight.
	WaitUntil time.Time
	// FailedFrom and FailedTo are the intents between which the operation in FAILED_TEMP leads ([PartFailed]).
	FailedFrom, FailedTo *desired.Instance
	// Blocked reports whether head can't be brought about: why is noted as its problem.
	Blocked bool
	// Override is what lets it begin outside of its windows ([PartOverride]).
	Override override
	// Edits are what is left to be filled in ([PartPins]).
	Edits []desired.KeyValue
	// Next is the operation that leads to head; Due reports whether one is needed ([PartSuccessor]).
	Next *lcm.Operation
	Due  bool
	// Requested reports whether head is the commit of a request whose record was lost, and Begun whether the
	// request itself has begun it meanwhile ([PartRequest]).
	Requested, Begun bool
	// Window is what an operation of the type meets ([PartWindow]).
	Window WindowFacts
}

// WindowFacts are the verdict of windows and freezes on a type of operation.
type WindowFacts struct {
	Type lcm.Type
	// Why is why it can't begin now, "" where it can.
	Why   string
	Until time.Time
}

// RestFacts are what a look at an instance on which nothing is in progress found.
type RestFacts struct {
	// Record is the record by which it is looked at: another one where an operation waits and what stands is repaired.
	Record *lcm.Instance
	// Failed is the automatic operation in FAILED_TEMP, nil for none.
	Failed *lcm.Operation
	// HeldBack reports whether what was operated on last stands although head differs.
	HeldBack bool
	// Waiting is the operation in whose wait the look is, "" for none.
	Waiting string
	// Stands is the intent that is compared with what runs ([PartStanding]).
	Stands *desired.Instance
	// At is the revision of Stands.
	At desired.Revision
	// Unseen reports whether the VIM can't be seen now, and Pause when to look again then ([PartSight],
	// [PartIdentity]).
	Unseen bool
	Pause  time.Duration
	// Unconfirmed reports whether it isn't known yet that the VIMs are those at which it was instantiated.
	Unconfirmed bool
	// Due are the steps that would repair what differs; Examined reports whether that is known field by field.
	Due      []plan.Step
	Examined bool
	// Resting is since when Failed is in its state, and Pausing how long it rests.
	Resting time.Time
	Pausing time.Duration
	// Lacks reports whether something that should be there is absent.
	Lacks bool
	// Freed reports whether the VIM takes again what it refused ([PartFreed]), and Ask after how long to ask it again.
	Freed bool
	Ask   time.Duration
	// Refused is until when no repair begins, as the last one wasn't granted ([PartLastRepair]).
	Refused time.Duration
	// Hooks is why the repair's hooks can't run, "" where they can ([PartHooks]).
	Hooks string
	// Window is what the repair meets ([PartRepairWindow]); Again is when to ask again.
	Window WindowFacts
	Again  time.Duration
}

// AttemptFacts are what is known of the operation in progress.
type AttemptFacts struct {
	// Operation is the one that is carried on: the open one, or a repair while that waits.
	Operation *lcm.Operation
	// Awaits is the other instances that the open operation waits for, "" for none ([PartNeeds]), and Told reports
	// whether its record says so.
	Awaits string
	Told   bool
	// Care reports whether it is looked at what stands while the open operation waits, Caring whether a repair of
	// that is in progress ([PartCare]).
	Care, Caring bool
	// Pending reports whether it is only proposed, and may be looked at up to its grant; Again is when to look again
	// where it may not ([PartProposed]).
	Pending bool
	Again   time.Duration
	// Newer is head, and Overtaken reports whether it takes the operation's place ([PartOvertaking]).
	Newer     desired.Revision
	Overtaken bool
	// Limit is how much time an attempt has, and Left what is left of it.
	Limit, Left time.Duration
	// Steps are the plan ([PartPlan]). Batch are those of it that are next.
	Steps, Batch []plan.Step
	// MovedOn reports whether git has something new that can begin ([PartMoved]).
	MovedOn bool
	// Stood is how long the failure stands that is waited for ([PartFailure]), and Grace how long it may.
	Stood, Grace time.Duration
	// Issued reports whether it is recorded that the batch is started. Times counts how often it was started
	// before, and Quiet is how long to wait before it is started again.
	Issued bool
	Times  int
	Quiet  time.Duration
	// Batches counts the batches of this pass.
	Batches int
	// Contended reports whether what the attempt does is undone each time.
	Contended bool
}

// Part is a part of a [Situation] that is read at once.
type Part uint8

// The parts, in the order in which they are first asked for.
const (
	PartRecord Part = iota
	PartProposal
	PartOperation
	PartBehind
	PartProof
	PartSuspension
	PartHead
	PartPinsAtRest
	PartIntents
	PartFailed
	PartPermit
	PartSeenWindow
	PartOverride
	PartFeasible
	PartPins
	PartSuccessor
	PartRequest
	PartWindow
	PartRest
	PartStanding
	PartSight
	PartIdentity
	PartExamination
	PartFreed
	PartLastRepair
	PartHooks
	PartRepairWindow
	PartProposed
	PartNeeds
	PartOvertaking
	PartCare
	PartTarget
	PartPlan
	PartAdmission
	PartMoved
	PartFailure
	partCount
)

var partNames = [partCount]string{
	"record", "proposal", "operation", "behind", "proof", "suspension", "head", "pins-at-rest", "intents", "failed", "permit", "seen-window", "override",
	"feasible", "pins", "successor", "request", "window", "rest", "standing", "sight", "identity", "examination", "freed", "last-repair", "hooks",
	"repair-window", "proposed", "needs", "overtaking", "care", "target", "plan", "admission", "moved", "failure",
}

func (p Part) String() string { return partNames[p] }

// Parts is a set of parts.
type Parts uint64

// Has reports whether the part is among them.
func (s Parts) Has(p Part) bool { return s&(1<<p) != 0 }

// With returns the set with the part.
func (s Parts) With(p Part) Parts { return s | 1<<p }

// Without returns the set without the parts.
func (s Parts) Without(parts ...Part) Parts {
	for _, p := range parts {
		s &^= 1 << p
	}

	return s
}

// Done is a set of actions that a pass carries out once at most.
type Done uint8

// They are these.
const (
	DoneRequest   Done = 1 << iota // the prepared request is resolved
	DoneWithdraw                   // pull requests that have ended were closed, as far as the forge answered
	DonePinAtRest                  // what runs is pinned, or couldn't be
	DoneRecord                     // the instance has a record
	DoneFree                       // the operation waits for no instance any more
	DoneShow                       // the drift is shown
)

// Has reports whether the action was carried out.
func (d Done) Has(x Done) bool { return d&x != 0 }

// failed is the operation in FAILED_TEMP, nil where there is none.
func (s *Situation) failed() *lcm.Operation {
	if s.Operation != nil && s.Operation.State == lcm.FailedTemp {
		return s.Operation
	}

	return nil
}

// known reports whether the store has a record of the instance.
func (s *Situation) known() bool {
	return s.Record.Seq > 0 || s.Record.Operated.Tree != "" || s.Record.Last != ""
}
