// Package lcm is the VNF lifecycle management operation occurrence: its record
// and its state machine (SOL003 v3.3.1 clauses 5.5.2.13 and 5.6.2). It is pure:
// it does no I/O and takes time as an argument. Package lcm/oplog is the only
// writer of the records.
package lcm

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
)

// Type is an LcmOperationType (SOL003 clause 5.5.4.3).
type Type string

// The types, in falling order of dominance.
const (
	Terminate     Type = "TERMINATE"
	Instantiate   Type = "INSTANTIATE"
	ChangePackage Type = "CHANGE_VNFPKG"
	ChangeFlavour Type = "CHANGE_FLAVOUR"
	ChangeExtConn Type = "CHANGE_EXT_CONN"
	Operate       Type = "OPERATE"
	Scale         Type = "SCALE"
	ScaleToLevel  Type = "SCALE_TO_LEVEL"
	Heal          Type = "HEAL"
	ModifyInfo    Type = "MODIFY_INFO"
)

// State is an LcmOperationStateType (SOL003 clause 5.5.4.4), or Prepared.
type State string

// The states.
const (
	// Prepared is invisible to clients: the request was accepted, but it isn't known
	// whether its commit is durable.
	Prepared    State = "PREPARED"
	Starting    State = "STARTING"
	Processing  State = "PROCESSING"
	Completed   State = "COMPLETED"
	FailedTemp  State = "FAILED_TEMP"
	RollingBack State = "ROLLING_BACK"
	RolledBack  State = "ROLLED_BACK"
	Failed      State = "FAILED"
)

// Ended says whether the state is one that an operation never leaves.
func (s State) Ended() bool { return s == Completed || s == RolledBack || s == Failed }

// Event is what moves an operation from one state to another.
type Event string

// The events.
const (
	Committed     Event = "committed"  // Prepared: the commit is durable
	Granted       Event = "granted"    // Starting: go ahead
	Refused       Event = "refused"    // Starting: the grant or the VIM refuses
	Converged     Event = "converged"  // what runs is what was desired
	Broke         Event = "broke"      // a step failed for good, or the deadline passed
	RetryAsked    Event = "retry"      // SOL003 clause 5.4.14
	RollbackAsked Event = "rollback"   // 5.4.15
	FailAsked     Event = "fail"       // 5.4.16
	CancelAsked   Event = "cancel"     // 5.4.17
	Superseded    Event = "superseded" // a newer commit took the place of a failed one
)

// ErrState is returned by Next for an event that the state doesn't allow; the
// API answers 409.
var ErrState = errors.New("not possible in this state")

// ProblemDetails is the data type of that name (SOL013 clause 6.3, RFC 7807).
// It says why an operation failed, or why a request was refused.
type ProblemDetails struct {
	Status int    `json:"status"`
	Title  string `json:"title,omitempty"`
	Detail string `json:"detail"`
}

// operationSpace makes the ids of operations that were born of a commit: the
// same commit and instance always give the same id, so that one is born once.
var operationSpace = uuid.MustParse("7d0c3a52-7d0f-5b86-9d53-0a3f5c1e6f2b")

// OperationID is the id of the operation that a pushed commit causes on an instance.
func OperationID(commit, instance string) string {
	return uuid.NewSHA1(operationSpace, []byte(commit+"/"+instance)).String()
}

// Operation is one VNF LCM operation occurrence.
type Operation struct {
	ID           string    `json:"id"`
	Instance     string    `json:"instance"`
	Type         Type      `json:"type"`
	State        State     `json:"state"`
	StateEntered time.Time `json:"stateEntered"`
	Started      time.Time `json:"started"`
	// Automatic is isAutomaticInvocation: Jibe began the operation by itself.
	Automatic bool `json:"automatic,omitempty"`
	// Contended says that somebody undoes the repair again and again. The operation then
	// goes back to FAILED_TEMP after each repair, and is retried with growing pauses.
	Contended bool `json:"fight,omitempty"`
	// Repairs are the keys of the objects that an automatic repair is begun for. Period is, of a
	// contended one, the longest time in which a former repair was undone.
	Repairs []string      `json:"repairs,omitempty"`
	Period  time.Duration `json:"period,omitempty"`
	// Member is the member whose request it is of, while it is Prepared: as long as that one
	// lives, nobody else may say what became of it. "" is one that is gone.
	Member string `json:"member,omitempty"`
	// RequestedBy is the API user, or the author of the commit.
	RequestedBy string `json:"requestedBy,omitempty"`
	// Before is what the instance was left at when the operation was born: the last operated revision, or the
	// last settled one where it took the place of an operation that didn't come to its end. After is the one
	// that it brings about. An empty Tree means that nothing should exist.
	Before desired.Revision `json:"before"`
	After  desired.Revision `json:"after"`
	// Beside is what waited at head for its window when the operation was asked for: it builds on Before, and
	// leaves that where it is. Zero where nothing waited.
	Beside desired.Revision `json:"beside,omitzero"`
	// Params is operationParams as the API shows it, free of secrets.
	Params json.RawMessage `json:"params,omitempty"`
	// Attempt counts from 1; a retry raises it.
	Attempt        int       `json:"attempt,omitempty"`
	AttemptStarted time.Time `json:"attemptStarted,omitzero"`
	// Journal holds what plan.Compute can't observe at the VIM.
	Journal plan.Journal `json:"journal"`
	// Proposal says how a pull request proposes the change; nil where it was committed at once.
	Proposal *Proposal `json:"proposal,omitempty"`
	// Grant is what an NFVO said; nil where none was asked, or hasn't answered.
	Grant *Grant          `json:"grant,omitempty"`
	Error *ProblemDetails `json:"error,omitempty"`
	// UnitsBefore are the units observed when the operation started, UnitsAfter those
	// observed when it was last recorded: resourceChanges is their difference.
	UnitsBefore []plan.Unit `json:"unitsBefore,omitempty"`
	UnitsAfter  []plan.Unit `json:"unitsAfter,omitempty"`
	// ResourcesBefore and ResourcesAfter are the resources of those units
	// (plan.Observed.Resources), observed at the same moments.
	ResourcesBefore []plan.Resource `json:"resourcesBefore,omitempty"`
	ResourcesAfter  []plan.Resource `json:"resourcesAfter,omitempty"`
	// VIM is the connection (vimConnectionId) of those of them that name none: the main VIM of
	// the instance.
	VIM string `json:"vim,omitempty"`
	// ChangedInfo is VnfInfoModifications (SOL003 clause 5.5.2.12a), for MODIFY_INFO.
	ChangedInfo json.RawMessage `json:"changedInfo,omitempty"`
	// PkgChange is ModificationsTriggeredByVnfPkgChange, for an operation that changes
	// the package. The API shows it when the operation is COMPLETED.
	PkgChange json.RawMessage `json:"pkgChange,omitempty"`
	// ExtLinks are the networks outside the VNF to which the operation changes the
	// connection ([ChangedLinks]). The API shows them as changedExtConnectivity when the
	// operation is COMPLETED.
	ExtLinks []desired.ExtVirtualLink `json:"extLinks,omitempty"`
	// HookProcess identifies the process of the hook under way, so that a restarted Jibe
	// can end it.
	HookProcess json.RawMessage `json:"hookProcess,omitempty"`
	// HookMember is the member that runs it.
	HookMember string `json:"hookMember,omitempty"`
	// HandOver is what hooks of this operation hand over to the next hook, encrypted.
	HandOver string `json:"handOver,omitempty"`
	// Coordinations are those that this operation asked for, RejectedCoordinations those that were
	// put off, and Warnings what whoever coordinated had to say.
	Coordinations         []Coordination         `json:"coordinations,omitempty"`
	RejectedCoordinations []RejectedCoordination `json:"rejectedCoordinations,omitempty"`
	Warnings              []string               `json:"warnings,omitempty"`
	// Modified is how hooks of this operation change the instance's entries and the VIMs
	// that it provides. VIMs are committed just before the operation is COMPLETED, entries
	// just after.
	Modified Entries `json:"modified,omitzero"`
	// Rebuilt says that the record was lost and made again of what git says ([Rebuild]): any hook
	// may have been begun before.
	Rebuilt bool `json:"rebuilt,omitempty"`
	// Unproven says that the record was found without a proof that this installation wrote it, and what
	// [Operation.Distrust] takes away isn't there any more.
	Unproven bool `json:"unproven,omitempty"`
	// DrainFrom is when the drain under way began.
	DrainFrom time.Time `json:"drainFrom,omitzero"`
	// Story lists what the operation has done so far, for people.
	Story []StoryLine `json:"story,omitempty"`
	// VNF is what notifications say about the instance, as of the operation's start.
	VNF VNF `json:"vnf"`
	// CancelMode is FORCEFUL or GRACEFUL while a cancel is pending, else "".
	CancelMode string `json:"cancelMode,omitempty"`
	// NoRollback is why the operation can't be rolled back although its type could be,
	// such as one commit that scales in beside other changes; see [NoRollbackLevels].
	NoRollback string `json:"noRollback,omitempty"`
	// PinnedVIM is the VIM that Jibe filled in as vim: for an INSTANTIATE that named none.
	PinnedVIM string `json:"pinnedVim,omitempty"`
	// GaveWay says that it rests in FAILED_TEMP for a newer commit to take its place. It is carried on
	// where that commit has gone.
	GaveWay bool `json:"gaveWay,omitempty"`
	// Unseen says that it was ROLLED_BACK as its VIM was away for all the time that it may stay in STARTING: nothing of
	// it had begun, and it may be asked for again when the VIM is back.
	Unseen bool `json:"unseen,omitempty"`
	// SupersededBy is the operation that took this one's place in FAILED_TEMP.
	SupersededBy string `json:"supersededBy,omitempty"`
}

// VNF names the instance and its product, for the filters of subscriptions.
type VNF struct {
	Name            string `json:"name,omitempty"`
	VnfdID          string `json:"vnfdId,omitempty"`
	Provider        string `json:"provider,omitempty"`
	ProductName     string `json:"productName,omitempty"`
	SoftwareVersion string `json:"softwareVersion,omitempty"`
	VnfdVersion     string `json:"vnfdVersion,omitempty"`
}

// Instance is the store's record of a VNF instance.
type Instance struct {
	ID string `json:"id"`
	// Seq counts the operations begun on the instance; part of the ETag.
	Seq uint64 `json:"seq"`
	// Open is the operation that hasn't ended, "" when none.
	Open string `json:"open,omitempty"`
	// Care is the repair of what runs while Open waits and has begun nothing, "" when none is under way.
	Care string `json:"care,omitempty"`
	// Prepared is the operation whose commit isn't known to be durable yet.
	Prepared string `json:"prepared,omitempty"`
	// Proposed is the operation that waits in STARTING for its pull request to be merged. It isn't Open: nothing
	// of it is under way, and what runs is looked after meanwhile. No other request is taken.
	Proposed string `json:"proposed,omitempty"`
	// Withdraw are the operations whose pull request and branch have still to go: they have ended, or were merged.
	Withdraw []string `json:"withdraw,omitempty"`
	// Operated is the revision of the last operation that was begun. A head that differs
	// from it asks for something new.
	Operated desired.Revision `json:"operated"`
	// Settled is the last revision that was brought about in full. The API shows its
	// vnfdId, scaleStatus and instantiationState.
	Settled desired.Revision `json:"settled"`
	// PinnedVIM is the VIM that Jibe filled in as vim: because the request to instantiate
	// named none. Terminating the VNF removes it from the file.
	PinnedVIM string `json:"pinnedVim,omitempty"`
	// VIMs holds the identity of each VIM at which the VNF was instantiated, by the name
	// that the instance has for it. A VIM without an identity has no entry.
	VIMs map[string]string `json:"vims,omitempty"`
	// GoneVIMs are the names of VIMs that an administrator has said to be gone for good while none answered under them. A
	// termination ends without them; one that answers is no longer among them.
	GoneVIMs []string `json:"goneVims,omitempty"`
	// OutstandingCommit is an ended operation whose outcome isn't in git yet: its outstanding commit
	// restores the content of Before after RolledBack, does so with held: <operation> after
	// Failed, and sets what hooks modified after Completed.
	OutstandingCommit string `json:"owed,omitempty"`
	// Last is the last operation, ended or not; LastState its state when it ended.
	Last      string `json:"last,omitempty"`
	LastState State  `json:"lastState,omitempty"`
	// Units are those observed at the last record. The API shows them until the VIM's
	// cache has synced.
	Units []plan.Unit `json:"units,omitempty"`
	// Resources are those of Units, observed at the same moment.
	Resources []plan.Resource `json:"resources,omitempty"`
	// VNF names the product as of the last operation, for the notification of the
	// identifier's deletion.
	VNF VNF `json:"vnf,omitzero"`
}
