package lcm

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// Told is what git says of one operation: by the commits that Jibe has made for it, and by the facts
// in their notes. Only what the installation's key proves belongs in it.
type Told struct {
	ID, Instance string
	// Place is that of its commit in the history: it grows from each commit to those that follow it. 0
	// is not in the history.
	Place int
	// Begun is the commit of the request that began it, nil where a push or Jibe itself did.
	Begun *Begun
	// Proposed says that the commit stands on a branch of its own, for a pull request.
	Proposed bool
	// Granted is the revision with what was granted, if that made a commit of its own.
	Granted desired.Revision
	// Facts are those of its states, in any order.
	Facts []Facts
	// Settled is the revision of the commit by which its outcome came to git, and Outcome the state
	// that the commit names.
	Settled desired.Revision
	Outcome State
	// SettledFrom is the tree of the directory before that commit.
	SettledFrom string
}

// settles says whether that commit is what the instance was left at. What hooks of a completed operation found is
// also committed on top of what somebody has changed since.
func (t *Told) settles(op *Operation) bool {
	return t.Settled.Commit != "" && (op.State != Completed || t.SettledFrom == op.After.Tree)
}

// onlyProposed says that git has the change on a branch alone, and nothing of an operation that it began.
func (t *Told) onlyProposed() bool { return t.Proposed && len(t.Facts) == 0 && t.Outcome == "" }

// Begun is what the commit of a request says.
type Begun struct {
	At            time.Time // to the second
	Type          Type
	By            string
	Params        json.RawMessage
	PinnedVIM     string
	Before, After desired.Revision
	// Beside is what waited at head, zero where nothing did.
	Beside desired.Revision
}

// latest are the facts of the state that it entered last, nil where none are known. Each is of the clock of
// the machine that recorded it; those say no more than what follows from the states themselves.
func (t *Told) latest() *Facts {
	if len(t.Facts) == 0 {
		return nil
	}
	newest := slices.MaxFunc(t.Facts, func(a, b Facts) int {
		switch {
		case a.State.Ended() && !b.State.Ended():
			return 1
		case b.State.Ended() && !a.State.Ended():
			return -1
		}
		begun := func(f Facts) int { // what an attempt begins with comes before all else of it
			if f.State == Starting || f.State == Processing {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(begun(a), begun(b)), a.Entered.Compare(b.Entered))
	})
	return &newest
}

// started is when it began. A commit knows that to the second: nothing that began within the same
// one, and is known better, came later.
func (t *Told) started() time.Time {
	if f := t.latest(); f != nil {
		return f.Started
	}
	if t.Begun == nil {
		return time.Time{}
	}
	return t.Begun.At.Add(time.Second - time.Nanosecond)
}

// order is that in which two operations of an instance began. Each was operated on a commit that has the
// former one's in its history; on one and the same, Jibe repaired by itself afterwards. The clocks of
// several machines decide where nothing else does.
func order(a, b Told) int {
	automatic := func(t *Told) int {
		if f := t.latest(); f != nil && f.Automatic {
			return 1
		}
		return 0
	}
	return cmp.Or(later(a.onlyProposed(), b.onlyProposed()), cmp.Compare(a.Place, b.Place), cmp.Compare(automatic(&a), automatic(&b)), a.started().Compare(b.started()))
}

// later orders what isn't so before what is.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Rebuild makes the records of an instance and its operations of what git says of them. An operation
// that has begun, and of which git tells no end, is open if it is the last: it is to be planned again,
// under the same id. If another one followed, it did end. Settled and Operated of the instance are what
// they were when the last of them began or ended. The operations are in the order in which they began.
func Rebuild(id string, told []Told) (*Instance, []*Operation) {
	told = slices.Clone(told)
	slices.SortStableFunc(told, order)
	inst := &Instance{ID: id, Seq: uint64(len(told))}
	ops := make([]*Operation, 0, len(told))
	for i := range told {
		t := &told[i]
		op := t.operation(inst.Operated, i == len(told)-1)
		ops = append(ops, op)
		if t.Proposed && (op.State.Ended() || op.Proposal == nil) {
			inst.Withdraw = append(inst.Withdraw, op.ID)
		}
		if op.Proposed() { // it counts when it is merged
			if inst.Operated.Commit == "" {
				inst.Operated, inst.Settled = op.Before, op.Before
			}
			inst.Last, inst.LastState, inst.Open, inst.VNF = op.ID, "", "", op.VNF
			if op.State.Ended() {
				inst.LastState = op.State
			} else {
				inst.Open = op.ID // until it waits for its pull request again
			}
			continue
		}
		inst.Operated, inst.Last, inst.LastState, inst.Open = op.After, op.ID, "", ""
		inst.VNF = op.VNF
		inst.OutstandingCommit = ""
		if op.Type == Instantiate {
			inst.PinnedVIM = op.PinnedVIM
		}
		if !op.State.Ended() {
			inst.Open = op.ID
			continue
		}
		inst.LastState = op.State
		moved := op.Before.Tree != op.After.Tree
		switch {
		case t.settles(op):
			inst.Operated = t.Settled
			if op.State != Failed {
				inst.Settled = t.Settled
			}
		case op.State == Completed:
			inst.Settled = op.After
		case moved:
			inst.OutstandingCommit = op.ID
		case op.State == RolledBack:
			inst.Settled = op.After
		}
	}
	return inst, ops
}

// operation is the record. before is what was operated on when it began, where it doesn't say so itself.
func (t *Told) operation(before desired.Revision, last bool) *Operation {
	op := &Operation{ID: t.ID, Instance: t.Instance, Before: before}
	if b := t.Begun; b != nil {
		op.Type, op.RequestedBy, op.Params, op.PinnedVIM = b.Type, b.By, b.Params, b.PinnedVIM
		op.Before, op.After, op.Started, op.StateEntered = b.Before, b.After, b.At, b.At
		op.Beside = b.Beside
	}
	if t.Granted.Commit != "" {
		op.After = t.Granted
	}
	for _, f := range t.Facts {
		op.NoRollback = cmp.Or(op.NoRollback, f.NoRollback)
		if op.Params == nil {
			op.Params = f.Params
		}
	}
	f := t.latest()
	if f != nil {
		op.Type, op.Started, op.StateEntered, op.Automatic, op.RequestedBy = f.Type, f.Started, f.Entered, f.Automatic, f.By
		op.Before, op.After, op.Attempt, op.Error, op.VNF, op.PinnedVIM = f.Before, f.After, f.Attempt, f.Error, f.VNF, f.PinnedVIM
	}
	op.Journal.Operation, op.Rebuilt = string(op.Type), true
	if f != nil && f.Proposed || t.onlyProposed() {
		op.Proposal = &Proposal{}
	}
	switch {
	case f != nil && f.State.Ended():
		op.State = f.State
	case t.Outcome.Ended():
		op.State = t.Outcome
	case !last:
		op.State = Completed // the next one couldn't have begun before its end
		op.AddToStory(op.StateEntered, "git doesn't say how it ended; another operation has begun since")
	case f != nil && (f.State == FailedTemp || f.State == RollingBack || op.Attempt > 1):
		// A former attempt may have failed by a hook, which the VIM doesn't show.
		op.State, op.Journal.Granted, op.Journal.Touched = f.State, true, true
		op.Journal.Rollback = f.State == RollingBack
	case op.Proposal != nil:
		op.State = Starting
	case op.Type == ModifyInfo:
		op.State, op.Journal.Granted, op.Journal.Rebuilt = Processing, true, true
	default:
		op.State, op.Journal.Rebuilt = Starting, true
	}
	if op.Attempt == 0 {
		op.Attempt = 1
	}
	op.AttemptStarted = op.StateEntered
	op.AddToStory(op.StateEntered, "what the store knew of this operation is lost; this record was made of what git says")
	return op
}
