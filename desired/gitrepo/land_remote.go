package gitrepo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// landOnRemote pushes on what is to land in the mirror of a remote, and moves the mirror's branch behind
// it. It runs on the writer's goroutine, so that one push of this process is under way at a time.
// What came of a push whose answer is lost is found out before it returns, as for any write.
func (r *Repo) landOnRemote(ctx context.Context, u check.RefUpdate, l Landing) error {
	t, err := r.takeTurn()
	if err != nil {
		return err
	}
	defer t.end()
	err = r.pushOn(ctx, u, l, t.permit)
	if d, ok := errors.AsType[*doubtError](err); ok {
		err = r.settle(context.WithoutCancel(ctx), d, t)
	}
	return err
}

// pushOn is landOnRemote where the push is answered.
func (r *Repo) pushOn(ctx context.Context, u check.RefUpdate, l Landing, k permit) error {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.mayLand(ctx, u, l); err != nil {
		return err
	}
	// What was accepted is carried out, also if its pusher goes away now.
	ctx = context.WithoutCancel(ctx)
	if err := r.push(ctx, u.New, u.Old, rest{}, k); err != nil {
		return err
	}
	if u.Old == "" {
		if err := markBorn(r.opt.Dir); err != nil {
			return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	if err := r.refs.Move(ctx, u.Ref, u.New, u.Old); err != nil {
		return r.sent.open(u.New, u.Old, err) // it is there, and the mirror has to follow
	}
	if err := r.refreshLocked(ctx); err != nil { // it has landed; Health says it, and follow tries again
		r.log.Error("a landed commit isn't followed yet", "revision", u.New, "error", err)
	}
	return nil
}
