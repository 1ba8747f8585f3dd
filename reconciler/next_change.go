package reconciler

import (
	"path"

	"github.com/jibe-vnfm/jibe/desired"
)

// nextChange is for a head that differs from what was operated on last. decided is false where nothing begins by it:
// what stands is looked at then, and head says why.
func nextChange(s *Situation) (head HeadVerdict, a Action, decided bool) {
	x := &s.Change
	if x.Blocked {
		return HeadBlocked, a, false
	}
	if !s.Seen.Has(PartIntents) {
		return 0, look(PartIntents), true
	}
	if x.After != nil && x.After.Suspend {
		return HeadInEffect, a, false
	}
	if problem := desired.ForeignGrant(path.Join(s.Head.Dir, desired.GrantedFile), x.Before, x.After); problem != nil {
		return 0, Action{Do: Reject, Err: problem}, true
	}

	if a, back := nextPushedBack(s); back {
		return HeadInEffect, a, a.Do != Rest
	}
	if a, decided := nextAllowed(s); decided {
		return 0, a, true
	}
	if s.Seen.Has(PartSeenWindow) && x.Window.Why != "" && !s.Seen.Has(PartWindow) {
		return HeadWaits, a, false
	}
	if a, decided := nextComplete(s); decided {
		return 0, a, true
	}

	return nextSuccessor(s)
}

// nextPushedBack is for a push on an instance in FAILED_TEMP that wants what was before the operation: that is its
// rollback. Where that was tried and failed, a person decides from here on.
func nextPushedBack(s *Situation) (a Action, back bool) {
	failed := s.failed()
	if failed == nil {
		return a, false
	}
	if !s.Seen.Has(PartFailed) {
		return look(PartFailed), true
	}
	if !takenBack(s.Change.FailedFrom, s.Change.FailedTo, s.Change.After) || failed.CanRollback() != nil {
		return a, false
	}
	if failed.Journal.Rollback {
		return rest(0, ""), true
	}

	return Action{Do: RollBack}, true
}

// nextAllowed reads what can keep head from being looked at any further: references that it may not bring, and a
// window for which it was seen to wait already.
func nextAllowed(s *Situation) (a Action, decided bool) {
	switch {
	case !s.Seen.Has(PartPermit):
		return look(PartPermit), true
	case s.Change.SeenWaiting != "" && !s.Seen.Has(PartSeenWindow):
		return look(PartSeenWindow), true
	}

	return a, false
}

// nextComplete has whatever the author of head left open filled in. Where head is to run, it must be feasible first: no
// commit is made of what would be refused.
func nextComplete(s *Situation) (a Action, decided bool) {
	if !s.Seen.Has(PartOverride) {
		return look(PartOverride), true
	}
	after := s.Change.After
	if after == nil {
		return a, false
	}
	if desired.IsInstantiated(after.State) && !s.Seen.Has(PartFeasible) {
		return look(PartFeasible), true
	}
	if !s.Seen.Has(PartPins) {
		return look(PartPins), true
	}

	return Action{Do: FillIn}, len(s.Change.Edits) > 0
}

// nextSuccessor begins the operation that leads to head, where one is needed and may begin.
func nextSuccessor(s *Situation) (head HeadVerdict, a Action, decided bool) {
	x := &s.Change
	if !s.Seen.Has(PartSuccessor) {
		return 0, look(PartSuccessor), true
	}
	if x.After != nil && s.Record.Seq == 0 && s.Record.Operated.Tree == "" && !s.Done.Has(DoneRecord) {
		return 0, Action{Do: CreateRecord}, true
	}
	if !x.Due {
		return 0, Action{Do: FastForward}, true
	}
	if !s.Seen.Has(PartRequest) {
		return 0, look(PartRequest), true
	}
	if x.Begun {
		return 0, Action{Do: LeaveAlone}, true // its request has just begun it, and has the instance looked at
	}
	if x.Requested { // it was let in when it was accepted
		return 0, Action{Do: Begin}, true
	}

	if !s.Seen.Has(PartWindow) {
		return 0, look(PartWindow), true
	}
	closed := x.Window.Why != ""
	if closed && x.Override.reason == "" {
		return HeadWaits, a, false
	}

	return 0, Action{Do: Begin, Override: closed}, true
}
