package forgesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// strayPause is how long after one look for strays the next one begins.
const strayPause = 10 * time.Minute

// wholePause is how often it is looked whether the store is whole.
const wholePause = 250 * time.Millisecond

// Strays removes branches whose proposed requests have no record any more. A forge may carry out a push
// that was given up: its client was told so or had no answer, the request is forgotten, and the branch comes
// nevertheless. Whoever merged it would begin what somebody may have asked for anew since.
type Strays struct {
	Repo      StraysRepo
	Oplog     *oplog.Log
	Proposals *Proposals
	Whole     func() bool // whether the store is known to lack no record
	Log       *slog.Logger
}

// StraysRepo is the desired repository whose branches are looked at.
type StraysRepo interface {
	OwnBranches(ctx context.Context, prefix string, of func(operation string) (bool, error)) ([]string, error)
}

// Run looks at once and then every few minutes, until ctx ends.
func (s *Strays) Run(ctx context.Context) error {
	for {
		pause := strayPause
		if !s.Whole() {
			pause = wholePause // a branch may be all that is left of its operation
		} else if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "branches of forgotten requests can't be looked for now, it is tried again", "pause", pause, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// sweep has those go that are there now.
func (s *Strays) sweep(ctx context.Context) error {
	branches, err := s.Repo.OwnBranches(ctx, lcm.ProposalBranches, func(operation string) (bool, error) { return s.forgotten(ctx, operation) })
	if err != nil {
		return fmt.Errorf("branches %s*: %w", lcm.ProposalBranches, err)
	}
	if !s.Whole() {
		return nil // it isn't any more, and what isn't found says nothing
	}
	for _, branch := range branches {
		s.Log.InfoContext(ctx, "a branch on which a request was proposed came when the request was given up already; it is removed", "branch", branch)
		const why = "The request that this proposes was given up before its branch came: no operation waits for it. Ask for it again."
		_, _ = s.Proposals.Keeper.Withdraw(branch, why, func() { _, _ = s.Proposals.Keeper.Withdraw(branch, why, nil) }) // the keeper logs what keeps it
	}
	return nil
}

// forgotten says whether there is no record of an operation, once it was listed that its branch is there: each has one
// before its branch.
func (s *Strays) forgotten(ctx context.Context, operation string) (bool, error) {
	_, err := s.Oplog.Prepared(ctx, operation) // before the other, which it becomes
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.Oplog.Operation(ctx, operation)
	}
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return false, err
}
