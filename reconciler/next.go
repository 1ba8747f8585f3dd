package reconciler

import (
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// Next returns what is to be done for one instance. It is pure: no I/O, no clock, no driver. A pass carries the action
// out, adds what came of it to the situation, and asks again until the answer ends the pass.
//
// What is owed to others comes first, then what git asks for, then what runs: by the time that an operation begins,
// nothing that an earlier one has left is still to be done.
func Next(s Situation) Action {
	if !s.Seen.Has(PartRecord) {
		return look(PartRecord)
	}
	if a, owed := nextOwed(&s); owed {
		return a
	}
	if s.Record.Open != "" && !s.Seen.Has(PartOperation) {
		return look(PartOperation)
	}

	op := s.Operation
	if s.Record.Care != "" && (op == nil || !waitsForInstances(op)) {
		return Action{Do: EndSideRepair}
	}
	if !s.Seen.Has(PartBehind) {
		return look(PartBehind)
	}
	if s.Behind {
		return rest(behindPause, "commits that other replicas decided by")
	}
	// Not before all commits are here that the operation was decided by.
	if active := op != nil && op.State != lcm.FailedTemp; active && !s.Seen.Has(PartProof) {
		return look(PartProof)
	}
	if s.Foreign != nil {
		return Action{Do: EndForeign}
	}

	var a Action
	if op == nil || op.State == lcm.FailedTemp {
		a = nextIdle(&s)
	} else {
		a = nextOperation(&s)
	}

	return lookWithin(a, s.Proposal.Again)
}

// nextOwed is what is still to be done of requests and operations before.
func nextOwed(s *Situation) (a Action, owed bool) {
	r := s.Record
	switch {
	case r.Prepared != "" && s.RequestWaits:
		return Action{Do: LeaveToRequest}, true
	case r.Prepared != "" && !s.Done.Has(DoneRequest):
		return Action{Do: ResolveRequest}, true
	case r.OutstandingCommit != "":
		return Action{Do: CommitOutcome}, true
	case len(r.Withdraw) > 0 && s.Forge && !s.Done.Has(DoneWithdraw):
		return Action{Do: ClosePullRequests}, true
	case r.Proposed != "" && !s.Seen.Has(PartProposal):
		return look(PartProposal), true
	}

	return Action{}, false
}

// lookWithin has an instance whose pass ends looked at again within a time, 0 for any.
func lookWithin(a Action, most time.Duration) Action {
	if a.Do.ends() {
		a.Wait = within(a.Wait, most)
	}

	return a
}

// within is a time to look again, 0 for when something moves, and most at the latest, 0 for no such time.
func within(again, most time.Duration) time.Duration {
	if most > 0 && (again == 0 || again > most) {
		return most
	}

	return again
}

// lookAgain is after how long the instance is looked at again at the latest, whatever the pass ends with; 0 for no such
// time. It is for what no event tells.
func (s *Situation) lookAgain() time.Duration {
	if s.Seen.Has(PartCare) {
		return neededAgain
	}

	return s.Proposal.Again
}

// ends reports whether the pass ends with an action of the verb, whatever comes of it.
func (v Verb) ends() bool {
	switch v {
	case Rest, LeaveToRequest, FillIn, LeaveAlone, RefuseRepair, Halt, Park, End, EndOverdue, EndUndone, EndUnproven, EndForeign, Complete:
		return true
	}

	return false
}

// nextIdle is for an instance of which no operation is in progress: what head asks for, else what has drifted.
func nextIdle(s *Situation) Action {
	head := HeadMerged
	if !s.Proposal.Merged {
		if !s.Seen.Has(PartHead) {
			return look(PartHead)
		}

		var a Action
		var decided bool
		if s.Head.Tree == s.Record.Operated.Tree {
			a, decided = nextInSync(s)
			head = HeadInSync
		} else {
			head, a, decided = nextChange(s)
		}
		if decided {
			return a
		}
	}
	if failed := s.failed(); failed != nil && failed.GaveWay {
		return Action{Do: Retry} // the commit that it gave way to has gone, or can't begin any more
	}

	return nextRest(s, head)
}

// nextInSync is for a head that is what was operated on last.
func nextInSync(s *Situation) (a Action, decided bool) {
	if s.failed() != nil {
		return a, false
	}
	if !s.Exists {
		return Action{Do: ForgetRecord}, s.known()
	}
	if s.Done.Has(DonePinAtRest) {
		return a, false
	}
	if !s.Seen.Has(PartPinsAtRest) {
		return look(PartPinsAtRest), true
	}

	return Action{Do: PinAtRest}, len(s.Change.Edits) > 0
}
