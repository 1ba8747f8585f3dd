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
func Recover(ctx context.Context, repo desired.Repo, at Locator, operations *oplog.Log, log *slog.Logger) (ids []string, err error) {
	open, err := operations.Unresolved(ctx)
	if err != nil {
		return nil, fmt.Errorf("recover interrupted requests: %w", err)
	}
	for _, op := range open {
		begun, err := Resolve(ctx, repo, at, operations, log, op)
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

// Resolve says what became of a request that was only prepared when its process ended. One whose
// commit was made begins its operation; any other is abandoned, as its client had no answer. It
// may be interrupted and run again.
func Resolve(ctx context.Context, repo desired.Repo, at Locator, operations *oplog.Log, log *slog.Logger, op *lcm.Operation) (begun bool, err error) {
	commit, err := repo.FindTrailer(ctx, op.Before.Commit, desired.TrailerOperation, op.ID)
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
	rev, err := at(ctx, commit, op.Instance)
	if err != nil {
		return false, fmt.Errorf("interrupted operation %s: %w", op.ID, err)
	}
	if _, err := operations.Commit(ctx, op.ID, rev); err != nil {
		return false, fmt.Errorf("begin interrupted operation %s: %w", op.ID, err)
	}
	log.InfoContext(ctx, "interrupted request was committed and goes on", "instance", op.Instance, "operation", op.ID, "revision", commit)
	return true, nil
}
