package sol

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// idle returns the present intent if nothing else is under way on the instance. Prepare
// checks the operation log's part of that again, and the write that of git.
func (a *api) idle(ctx context.Context, k *known, beside bool) (*desired.Instance, error) {
	rec := k.record
	if rec.Prepared != "" {
		return nil, oplog.ErrBusy{Instance: k.id, Operation: rec.Prepared, State: lcm.Prepared}
	}
	if rec.Proposed != "" {
		return nil, oplog.ErrBusy{Instance: k.id, Operation: rec.Proposed, State: lcm.Starting}
	}
	if rec.Open != "" {
		open, err := a.Operations.Operation(ctx, rec.Open)
		if err != nil {
			return nil, err
		}
		if !open.Automatic || open.State != lcm.FailedTemp {
			return nil, oplog.ErrBusy{Instance: k.id, Operation: open.ID, State: open.State}
		}
	}
	if rec.OutstandingCommit != "" {
		return nil, oplog.ErrBusy{Instance: k.id, Operation: rec.OutstandingCommit, State: rec.LastState}
	}
	if !k.inHead {
		return nil, rest.Problem(http.StatusConflict, "VNF instance %s was removed from the desired repository", k.id)
	}
	now, err := a.Repo.Read(ctx, k.head.Revision)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	if k.head.Tree == rec.Operated.Tree {
		return now, nil
	}
	// A commit waits for its operation, which goes first.
	var was *desired.Instance
	if rec.Operated.Tree != "" {
		if was, err = a.Repo.Read(ctx, rec.Operated); err != nil {
			return nil, fmt.Errorf("instance %s: %w", k.id, err)
		}
	}
	if t, _, due := lcm.Classify(was, now); due {
		if why, _, err := a.View.MayBegin(ctx, k.id, k.head.Dir, t); err == nil && why != "" {
			if beside && was != nil {
				return was, a.beside(ctx, k, now, was, waiting{t, why})
			}
			return nil, rest.Problem(http.StatusConflict, "commit %s changed VNF instance %s, and its %s waits: %s; revert the commit, or ask again when it has ended", k.head.Commit, k.id, t, why)
		}
		return nil, rest.Problem(http.StatusConflict, "commit %s changed VNF instance %s, and its %s has not begun yet: ask again when it has ended", k.head.Commit, k.id, t)
	}
	if was != nil || len(now.References()) > 0 {
		// A commit that didn't pass admission may be refused. No request builds on it.
		if err := a.View.Check(ctx, was, now); err != nil {
			return nil, rest.Problem(http.StatusConflict, "commit %s of VNF instance %s is not obeyed: %v", k.head.Commit, k.id, err)
		}
	}
	return now, nil
}
