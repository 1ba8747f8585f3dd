package reconciler

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// nextOperation is for an instance of which an operation is in progress.
func nextOperation(s *Situation) Action {
	if !s.Seen.Has(PartSuspension) {
		return look(PartSuspension)
	}
	if s.Suspended {
		return Action{Do: Halt, For: "suspend: true to go"} // its end is a commit, which brings the instance back here
	}

	x := &s.Attempt
	if s.Operation.Proposed() {
		if !s.Seen.Has(PartProposed) {
			return look(PartProposed)
		}
		if !x.Pending {
			return rest(x.Again, "")
		}

		return nextAttempt(s)
	}
	if a, waits := nextNeeds(s); waits {
		return a
	}

	return nextAttempt(s)
}

// awaitsOthers reports whether nothing of an operation has begun, so that it can wait for other instances. A container
// update has no STARTING; a repair waits for none.
func awaitsOthers(op *lcm.Operation) bool {
	return !op.Automatic && (op.State == lcm.Starting || op.Type == lcm.ModifyInfo && op.State == lcm.Processing && !begun(op))
}

// nextNeeds has an operation wait for other instances before anything of it begins. What stands is repaired meanwhile.
func nextNeeds(s *Situation) (a Action, waits bool) {
	op, x := s.Operation, &s.Attempt
	if !awaitsOthers(op) || s.Done.Has(DoneFree) {
		return a, false
	}
	if !s.Seen.Has(PartNeeds) {
		return look(PartNeeds), true
	}
	if x.Awaits == "" {
		return Action{Do: FreeOperation}, waitsForInstances(op)
	}
	if !s.Seen.Has(PartOvertaking) {
		return look(PartOvertaking), true
	}
	if x.Overtaken {
		return Action{Do: End, Cause: causeConflict, GaveWay: op.State != lcm.Starting, Problem: &lcm.ProblemDetails{Status: http.StatusConflict,
			Title: title(op), Detail: fmt.Sprintf("gives way to the newer commit %.12s, as it still waits for %s", x.Newer.Commit, x.Awaits)}}, true
	}
	if op.CancelMode != "" {
		return cancel(op), true
	}
	if now, told := op.Waiting(); !x.Told && (!told || now.For != x.Awaits) {
		return Action{Do: TellWait, For: x.Awaits}, true
	}

	return lookWithin(nextCare(s), neededAgain), true
}

// nextCare repairs what stands while the open operation waits.
func nextCare(s *Situation) Action {
	x := &s.Attempt
	var a Action
	switch {
	case !s.Seen.Has(PartCare):
		return look(PartCare)
	case x.Caring:
		a = nextAttempt(s)
	case x.Care:
		a = nextDrift(s)
	default:
		a = rest(0, "") // nothing runs yet
	}
	if a.Do == Rest {
		a.For = x.Awaits
	}

	return a
}

// cancel ends an attempt on request.
func cancel(op *lcm.Operation) Action {
	return Action{Do: End, Cause: causeCancelled, Problem: &lcm.ProblemDetails{Status: 500, Title: title(op), Detail: "cancelled on request (" + op.CancelMode + ")"}}
}

// nextAttempt carries an operation on by its plan.
func nextAttempt(s *Situation) Action {
	x := &s.Attempt
	op := x.Operation
	if op.Unproven && op.State != lcm.RollingBack {
		return Action{Do: EndUnproven}
	}
	switch {
	case !s.Seen.Has(PartTarget):
		return look(PartTarget)
	case x.Batches >= staleBatches:
		return rest(stalePause, "")
	case !s.Seen.Has(PartPlan):
		return look(PartPlan)
	}

	return nextPlanned(s)
}

// nextPlanned is for what comes first in the plan: the grant, steps that no VIM shows, and else its first stage.
func nextPlanned(s *Situation) Action {
	x := &s.Attempt
	op := x.Operation
	switch {
	case len(x.Steps) > 0 && x.Steps[0].Action == plan.Grant:
		return Action{Do: ObtainGrant}
	case op.Proposed():
		return Action{Do: Park}
	case len(x.Steps) == 0:
		return Action{Do: Complete}
	case x.Steps[0].Action == plan.Hook, x.Steps[0].Action == plan.Drain:
		return Action{Do: DoUnseen}
	case op.Type == lcm.ModifyInfo && len(op.Journal.Issued) == 0 && !s.Seen.Has(PartAdmission):
		return look(PartAdmission)
	}

	return nextStage(s)
}

// nextStage is for the first stage of the plan: it is started or waited for, unless the attempt is cancelled or a newer
// commit is to take its operation's place.
func nextStage(s *Situation) Action {
	x := &s.Attempt
	op := x.Operation
	x.Batch = plan.Next(x.Steps)
	waiting := !slices.ContainsFunc(x.Batch, func(step plan.Step) bool { return step.Action != plan.Wait })
	if op.CancelMode != "" && (op.CancelMode != lcm.Graceful || !waiting || x.Left <= 0) {
		return cancel(op)
	}
	if a, newer := nextPreempted(s, waiting); newer {
		return a
	}
	if waiting {
		return nextWait(s)
	}

	return nextBatch(s)
}

// nextPreempted ends an attempt for a newer commit that is to take its operation's place. A repair gives way only
// where it waits.
func nextPreempted(s *Situation, waiting bool) (a Action, newer bool) {
	x := &s.Attempt
	op := x.Operation
	switch {
	case op.Automatic && !waiting:
		return a, false
	case op.Automatic && !s.Seen.Has(PartMoved):
		return look(PartMoved), true
	case op.Automatic:
		return Action{Do: End, Cause: causeConflict, Problem: &lcm.ProblemDetails{Status: http.StatusConflict, Title: title(op),
			Detail: "gives way to a newer commit while it waits: " + x.Batch[0].String()}}, x.MovedOn
	case !s.Seen.Has(PartOvertaking):
		return look(PartOvertaking), true
	}

	return Action{Do: End, Cause: causeConflict, GaveWay: true, Problem: &lcm.ProblemDetails{Status: http.StatusConflict, Title: title(op),
		Detail: fmt.Sprintf("gives way to the newer commit %.12s, before: %s", x.Newer.Commit, x.Batch[0])}}, x.Overtaken
}

// nextWait decides how long to wait for the batch, or that it is in vain.
func nextWait(s *Situation) Action {
	x := &s.Attempt
	if x.Left <= 0 {
		return Action{Do: EndOverdue}
	}
	if !s.Seen.Has(PartFailure) {
		return look(PartFailure)
	}
	reason := failureOf(x.Batch)
	if reason == "" {
		return rest(x.Left, strings.TrimPrefix(x.Batch[0].String(), "wait "))
	}
	if x.Stood < x.Grace {
		return rest(min(x.Left, x.Grace-x.Stood), reason)
	}

	return Action{Do: End, Cause: causeVIM, Problem: &lcm.ProblemDetails{Status: 500, Title: title(x.Operation), Detail: reason}}
}

// failureOf is the first failure of what the batch waits for, "" where there is none.
func failureOf(batch []plan.Step) string {
	i := slices.IndexFunc(batch, func(s plan.Step) bool { return s.Failure != "" })
	if i < 0 {
		return ""
	}

	return batch[i].Object + ": " + batch[i].Failure
}

// nextBatch starts the batch, once that is recorded. One that is due again and again although it was started is started
// with growing pauses, and a repair of what is undone each time ends.
func nextBatch(s *Situation) Action {
	x := &s.Attempt
	switch {
	case x.Issued && x.Quiet > 0:
		return rest(x.Quiet, "")
	case x.Issued && (x.Contended && x.Times > 0 || x.Operation.Automatic && x.Times > patientRepeats):
		return Action{Do: EndUndone}
	case x.Issued:
		return Action{Do: Start}
	case x.Left <= 0:
		return Action{Do: End, Cause: causeTimeout, Problem: overdue(x.Operation, x.Limit, x.Batch, nil)}
	}

	return Action{Do: Issue}
}
