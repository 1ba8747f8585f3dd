package sol

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// waiting is the operation for which head waits.
type waiting struct {
	typ lcm.Type
	// why is for people.
	why string
}

// beside has a request build on what was operated on last, was, as head, now, waits for its window. It
// refuses what can't be left alone.
func (a *api) beside(ctx context.Context, k *known, now, was *desired.Instance, waits waiting) error {
	refused := func(why string) error {
		return rest.Problem(http.StatusConflict, "commit %s changed VNF instance %s, and its %s waits: %s; %s", k.head.Commit, k.id, waits.typ, waits.why, why)
	}
	if err := suspended(now); err != nil {
		return err
	}
	rec := k.record
	if rec.LastState == lcm.Failed && rec.Operated.Tree != rec.Settled.Tree && was.Held == "" {
		return refused("what was operated on last has failed: revert the commit, or ask again when it has ended")
	}
	if rec.Operated.Dir != k.head.Dir {
		return refused("it also moves the instance from " + rec.Operated.Dir + ": revert the commit, or ask again when it has ended")
	}
	if err := a.View.Prove(ctx, k.id, rec.Operated); errors.As(err, new(*desired.UnprovenError)) {
		return rest.Problem(http.StatusConflict, "VNF instance %s: %v", k.id, err)
	} else if err != nil {
		return fmt.Errorf("instance %s: %w", k.id, err)
	}
	reason, _, err := a.Repo.Override(ctx, k.head.Revision)
	if err != nil {
		return fmt.Errorf("override of commit %s: %w", k.head.Commit, err)
	}
	if reason != "" {
		return rest.Problem(http.StatusConflict, "commit %s changed VNF instance %s, and its %s has not begun yet: ask again when it has ended", k.head.Commit, k.id, waits.typ)
	}
	k.base, k.waits = rec.Operated, &waits
	return nil
}

// leave has the draft, which was made of what was operated on last, leave alone what waits at head.
func (a *api) leave(ctx context.Context, k known, d *Draft) {
	d.Trailers = append(d.Trailers, desired.BesideTrailer(k.head.Revision))
	d.Body += fmt.Sprintf("Built on commit %.12s, which was operated on last: %s of commit %.12s waits.\n", k.base.Commit, k.waits.typ, k.head.Commit)
	d.beside = &desired.Beside{
		From: k.base, Subject: "Put back what waits for its window in " + k.head.Dir,
		Body: fmt.Sprintf("It is the %s of commit %.12s, and what the request has changed beside it.", k.waits.typ, k.head.Commit),
		Change: func(waits, made desired.Files) (desired.Files, error) {
			return desired.Carry(k.head.Dir, d.Old, made, waits)
		},
	}
	who, err := a.Repo.Author(ctx, k.head.Revision)
	if err != nil {
		a.Log.WarnContext(ctx, "author of a commit unknown", "revision", k.head.Commit, "error", err)
		return
	}
	d.beside.By = who // as its operation is asked for by the author of its commit
}

// stands refuses a write that builds on what isn't what was operated on last any more. Nothing is begun on
// the instance between the answer and the end of the write, as the request is prepared.
func (a *api) stands(ctx context.Context, k known) error {
	if k.waits == nil {
		return nil
	}
	rec, err := a.Operations.Instance(ctx, k.id)
	if err != nil {
		return err
	}
	if rec.Operated.Tree != k.base.Tree {
		return ErrMoved
	}
	return nil
}
