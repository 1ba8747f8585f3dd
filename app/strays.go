package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/forge/proposal"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// strayPause is how long after one look for strays the next one begins.
const strayPause = 10 * time.Minute

// wholePause is how often it is looked whether the store is whole.
const wholePause = 250 * time.Millisecond

// strays removes branches on which requests were proposed that nobody knows of any more. A forge may carry out a push
// that was given up: its client was told so or had no answer, the request is forgotten, and the branch comes
// nevertheless. Whoever merged it would begin what somebody may have asked for anew since.
type strays struct {
	repo   *gitrepo.Repo
	oplog  *oplog.Log
	keeper *proposal.Keeper
	whole  func() bool // whether the store is known to lack no record
	log    *slog.Logger
}

// run looks at once and then every few minutes, until ctx ends.
func (s *strays) run(ctx context.Context) error {
	for {
		pause := strayPause
		if !s.whole() {
			pause = wholePause // a branch may be all that is left of its operation
		} else if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "branches of forgotten requests can't be looked for now, it is tried again", "pause", pause, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// sweep has those go that are there now.
func (s *strays) sweep(ctx context.Context) error {
	branches, err := s.repo.OwnBranches(ctx, lcm.ProposalBranches, func(operation string) (bool, error) { return s.forgotten(ctx, operation) })
	if err != nil {
		return fmt.Errorf("branches %s*: %w", lcm.ProposalBranches, err)
	}
	if !s.whole() {
		return nil // it isn't any more, and what isn't found says nothing
	}
	for _, branch := range branches {
		s.log.InfoContext(ctx, "a branch on which a request was proposed came when the request was given up already; it is removed", "branch", branch)
		const why = "The request that this proposes was given up before its branch came: no operation waits for it. Ask for it again."
		_, _ = s.keeper.Withdraw(branch, why, func() { _, _ = s.keeper.Withdraw(branch, why, nil) }) // the keeper logs what keeps it
	}
	return nil
}

// forgotten says whether there is no record of an operation, once it was listed that its branch is there: each has one
// before its branch.
func (s *strays) forgotten(ctx context.Context, operation string) (bool, error) {
	_, err := s.oplog.Prepared(ctx, operation) // before the other, which it becomes
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.oplog.Operation(ctx, operation)
	}
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return false, err
}
