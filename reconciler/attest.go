package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// attest has git keep the states of an operation by which it is found again should the store lose it.
// Everything that this process records of operations comes by here, whoever asked for it.
func (r *Reconciler) attest(op *lcm.Operation) {
	line, facts, ok := op.Attest(op.ID == lcm.OperationID(op.After.Commit, op.Instance))
	if !ok {
		return
	}
	r.Repo.Attest(op.After.Commit, line, facts)
	if op.State.Ended() && op.Grant != nil && op.Grant.Asked != "" {
		r.Repo.Attest(op.Grant.Asked, line, facts) // where its author looks
	}
}

// attestedAgain is how old an operation may be for whoever takes its instance over to attest it again:
// longer than a git server is away, and notes are tried again.
const attestedAgain = time.Hour

// attestAgain has git keep what the member that had the instance before may have been killed with: notes wait for a
// moment, and for a git server that is away. One that is there already isn't repeated.
func (r *Reconciler) attestAgain(ctx context.Context, id string) {
	for e := range r.Oplog.OperationEntries(oplog.OperationQuery{Instance: id, From: r.Now().Add(-attestedAgain)}) {
		op, err := r.Oplog.Operation(ctx, e.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was pruned meanwhile
		}
		if err != nil {
			r.Log.WarnContext(ctx, "git isn't told again of an operation of an instance that was taken over: its history may lack it if the store loses its record too",
				"instance", id, "operation", e.ID, "error", err)
			continue
		}
		r.attest(op)
	}
}
