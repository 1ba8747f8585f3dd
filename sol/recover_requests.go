package sol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// Locator returns the instance's revision as it stood at a commit.
type Locator func(ctx context.Context, commit, instance string) (desired.Revision, error)

// Recover resolves the requests that the end of the last process interrupted. It MUST run at
// start, before the API serves, and where no other process serves the same store: there, each
// request is resolved ([Resolve]) by who owns its instance. One of which nobody can tell, as the
// remote was cut off in the middle of its push and is still away, stays as it is, and is resolved by
// the reconciler. Recover may be interrupted and run again. ids are those of the instances whose operations began.
func Recover(ctx context.Context, repo desired.Repo, proposals Proposals, at Locator, operations *oplog.Log, log *slog.Logger) (ids []string, err error) {
	open, err := operations.Unresolved(ctx)
	if err != nil {
		return nil, fmt.Errorf("recover interrupted requests: %w", err)
	}
	for _, op := range open {
		begun, err := Resolve(ctx, repo, proposals, at, operations, log, op)
		if errors.Is(err, desired.ErrUnavailable) {
			log.WarnContext(ctx, "whether an interrupted request was committed isn't known while the desired repository is away; its instance waits", "instance", op.Instance, "operation", op.ID, "error", err)
			continue
		}
		if err != nil {
			return ids, err
		}
		if begun {
			ids = append(ids, op.Instance)
		}
	}
	return ids, nil
}

// committed returns what the request's commit made of the instance's directory, or [desired.ErrNotFound]. The commit
// of one that is proposed stands on its branch, and what was merged of that needn't be the same.
func committed(ctx context.Context, repo desired.Repo, proposals Proposals, at Locator, op *lcm.Operation) (desired.Revision, error) {
	if op.Proposal != nil {
		if proposals == nil {
			return desired.Revision{}, fmt.Errorf("%w: whether its branch %s was pushed can't be seen without --forge-token", desired.ErrUnavailable, lcm.ProposalBranch(op.ID))
		}
		return proposals.Proposed(ctx, lcm.ProposalBranch(op.ID), op.Instance)
	}
	commit, err := repo.FindTrailer(ctx, op.Before.Commit, desired.TrailerOperation, op.ID)
	if err != nil {
		return desired.Revision{}, err
	}
	return at(ctx, commit, op.Instance)
}

// Resolve says what became of a request that was only prepared when its process ended. One whose
// commit was made begins its operation; any other is abandoned, as its client had no answer. It
// may be interrupted and run again.
func Resolve(ctx context.Context, repo desired.Repo, proposals Proposals, at Locator, operations *oplog.Log, log *slog.Logger, op *lcm.Operation) (begun bool, err error) {
	rev, err := committed(ctx, repo, proposals, at, op)
	if errors.Is(err, desired.ErrNotFound) {
		if err := operations.Abandon(ctx, op.ID); err != nil {
			return false, fmt.Errorf("forget interrupted operation %s: %w", op.ID, err)
		}
		log.InfoContext(ctx, "interrupted request was not committed and is forgotten", "instance", op.Instance, "operation", op.ID)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the commit of interrupted operation %s: %w", op.ID, err)
	}
	if _, err := operations.Commit(ctx, op.ID, rev); err != nil {
		return false, fmt.Errorf("begin interrupted operation %s: %w", op.ID, err)
	}
	log.InfoContext(ctx, "interrupted request was committed and goes on", "instance", op.Instance, "operation", op.ID, "revision", rev.Commit)
	return true, nil
}
