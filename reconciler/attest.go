package reconciler

import "github.com/jibe-vnfm/jibe/lcm"

// attest has git keep the states of an operation by which it is found again should the store lose it.
// Everything that this process records of operations comes by here, whoever asked for it.
func (r *Reconciler) attest(op *lcm.Operation) {
	line, facts, ok := op.Attest(op.ID == OperationID(op.After.Commit, op.Instance))
	if !ok {
		return
	}
	r.Repo.Attest(op.After.Commit, line, facts)
	if op.State.Ended() && op.Grant != nil && op.Grant.Asked != "" {
		r.Repo.Attest(op.Grant.Asked, line, facts) // where its author looks
	}
}
