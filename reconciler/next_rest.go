package reconciler

import (
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
)

// nextRest looks at what runs while nothing is in progress. Where head is held back, it is looked at again when its
// window opens, or what stands in its way may have gone.
func nextRest(s *Situation, head HeadVerdict) Action {
	if !s.Seen.Has(PartRest) {
		return Action{Do: Look, Part: PartRest, Head: head}
	}

	var a Action
	if failed := s.failed(); failed != nil && !failed.Automatic {
		a = rest(0, "a person: "+string(failed.Type)+" failed")
	} else {
		a = nextDrift(s)
	}
	if head == HeadWaits || head == HeadBlocked {
		a = lookWithin(a, desired.Waits{Wait: s.Change.wait()}.Again(s.Now, headAgain))
	}
	switch {
	case a.Do != Rest:
	case head == HeadWaits:
		a.For = s.Change.Window.Why
	case head == HeadBlocked:
		a.For = "its file to be changed, or what stands in its way to go (its problem says what)"
	}

	return a
}

// comparable reports whether there is something with which what runs can be compared.
func (s *Situation) comparable() bool {
	x := &s.Rest
	open := ""
	if x.Failed != nil {
		open = x.Failed.ID
	}
	r := x.Record

	return (s.Exists || x.HeldBack) && r.Prepared == "" && r.OutstandingCommit == "" && r.Open == open && r.Operated.Tree != ""
}

// driftPolicy is what is done about a drift, "" where there is nothing to compare with now.
func (s *Situation) driftPolicy() DriftState {
	in := s.Rest.Stands
	switch {
	case in.Suspend:
		return DriftSuspended
	case s.Rest.At.Tree != s.Rest.Record.Operated.Tree:
		return "" // something new is wanted, and comes first
	case in.Held != "":
		return DriftHeld
	case in.Drift == desired.DriftReport:
		return DriftReported
	}

	return DriftRepairing
}

// nextDrift compares what runs with what stands, and repairs it unless a drift is to be shown only.
func nextDrift(s *Situation) Action {
	x := &s.Rest
	if !s.comparable() {
		return Action{Do: LeaveAlone}
	}
	if !s.Seen.Has(PartStanding) {
		return look(PartStanding)
	}
	policy := s.driftPolicy()
	if policy == "" {
		return Action{Do: LeaveAlone}
	}
	if a, decided := nextSight(s); decided {
		return a
	}

	if !s.Done.Has(DoneShow) {
		return Action{Do: ShowDrift, State: policy}
	}
	switch {
	case policy == DriftSuspended:
		return rest(0, "suspend: true to go from its "+desired.InstanceFile)
	case policy != DriftRepairing:
		return rest(0, "")
	case x.Failed != nil:
		return nextRetry(s)
	case len(x.Due) == 0:
		return rest(0, "")
	}

	return nextRepair(s)
}

// nextSight reads what runs, as far as it takes to know whether it differs.
func nextSight(s *Situation) (a Action, decided bool) {
	x := &s.Rest
	if !s.Seen.Has(PartSight) {
		return look(PartSight), true
	}
	if x.Unseen {
		return rest(x.Pause, "its VIM to be seen"), true
	}
	if x.Unconfirmed && !s.Seen.Has(PartIdentity) {
		return look(PartIdentity), true
	}
	if len(x.Due) > 0 && !x.Examined && !s.Seen.Has(PartExamination) {
		return look(PartExamination), true
	}

	return a, false
}

// nextRepair begins a repair, unless the last one wasn't granted, its hooks can't run, or its window is closed.
func nextRepair(s *Situation) Action {
	x := &s.Rest
	switch {
	case !s.Seen.Has(PartLastRepair):
		return look(PartLastRepair)
	case x.Refused > 0:
		return rest(x.Refused, "a pause to end, as the last repair wasn't granted")
	case !s.Seen.Has(PartHooks):
		return look(PartHooks)
	case x.Hooks != "":
		return Action{Do: RefuseRepair, Why: x.Hooks, Wait: awayAgain} // a commit that allows them comes before
	case !s.Seen.Has(PartRepairWindow):
		return look(PartRepairWindow)
	case x.Window.Why != "":
		return Action{Do: RefuseRepair, Why: x.Window.Why, Wait: x.Again, For: x.Window.Why}
	}

	return Action{Do: BeginRepair}
}

// nextTry is when the failed repair is tried again, though nothing moves. What another program undoes each time waits for
// long, unless something is absent meanwhile.
func (x *RestFacts) nextTry() time.Time {
	pause := x.Pausing
	if x.Failed.Contended && x.Lacks {
		pause = min(pause, lackPause)
	}

	return x.Resting.Add(pause)
}

// nextRetry tries an automatic operation that failed once more: when its pause is over, when everything is right
// without it, when something new is wrong, or when what stood in its way has gone.
func nextRetry(s *Situation) Action {
	x := &s.Rest
	next := x.nextTry()
	wait := next.Sub(s.Now)
	repaired := len(x.Due) == 0 && !x.Failed.Contended
	news := len(x.Failed.Journal.Issued) > 0 && slices.ContainsFunc(plan.Next(x.Due), func(step plan.Step) bool { return !x.Failed.Journal.IssuedOn(step.Object) })
	if wait <= 0 || repaired || news {
		return Action{Do: RetryRepair}
	}
	if !s.Seen.Has(PartFreed) {
		return look(PartFreed)
	}
	if x.Freed {
		return Action{Do: RetryRepair}
	}
	if x.Ask > 0 {
		wait = min(wait, x.Ask)
	}

	return rest(wait, "its next repair, at "+next.UTC().Format(time.RFC3339))
}
