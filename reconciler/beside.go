package reconciler

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

// waitedBefore says whether head is no more than what waited for its window when the operation was asked
// for, with what the operation has put into that since. It isn't newer than the operation, and doesn't
// take its place: it follows.
func (r *intentReader) waitedBefore(ctx context.Context, op *lcm.Operation, head desired.Revision) (bool, error) {
	if op.Beside.Tree == "" || head.Tree == "" {
		return false, nil
	}
	var at [4]desired.Files
	for i, rev := range []desired.Revision{op.Before, op.After, op.Beside, head} {
		var err error
		if at[i], err = r.revisions.files(ctx, rev); err != nil {
			return false, fmt.Errorf("instance %s at %s: %w", r.id, rev.Commit, err)
		}
	}
	carried, err := desired.Carry(head.Dir, at[0], at[1], at[2])
	if err != nil {
		return false, nil // somebody has made it anew
	}
	return sameFiles(carried, at[3]), nil
}

// besideOf is how a commit of an operation leaves alone what waits at head, nil where nothing waited when
// the operation was asked for. from and to are the contents between which what waits is carried on: where to
// is nil, it is what the commit makes.
func besideOf(ctx context.Context, repo desired.Repo, op *lcm.Operation, from, to desired.Files) *desired.Beside {
	if op.Beside.Tree == "" {
		return nil
	}
	b := &desired.Beside{From: op.After, Subject: "Put back what waits for its window in " + op.After.Dir,
		Change: func(waits, made desired.Files) (desired.Files, error) {
			if to != nil {
				made = to
			}
			return desired.Carry(op.After.Dir, from, made, waits)
		}}
	if head, exists := repo.Lookup(op.Instance); exists {
		if who, err := repo.Author(ctx, head); err == nil {
			b.By = who // as an operation is asked for by the author of its commit
		}
	}
	return b
}
