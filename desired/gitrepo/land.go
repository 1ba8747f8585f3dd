package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Landing is a commit of this repository that is to be on the desired branch, whatever came there
// since its author fetched.
type Landing struct {
	Commit string
	// Plain has the commit land only on top of the branch as it stands, as what is pushed to the branch
	// itself does: it is never merged.
	Plain bool
	// Judge holds an update of the branch against the rules; the new commit can be read. It runs again
	// where the branch has moved, and its error ends the landing. Where it was about another head than
	// the update's old commit, it is a [git.ErrRefMoved].
	Judge func(ctx context.Context, u check.RefUpdate) error
	// Accept is called with what Judge has passed, when nothing but the move itself is left to do. It
	// makes durable who asked for it. It mustn't use the repository but for [Repo.Pushing].
	Accept func(ctx context.Context, u check.RefUpdate) error
}

// landFreely is how often a landing is tried beside the other writers. Then it has them wait for it.
const landFreely = 2

// landAlone bounds how long the other writers wait for one landing, and maxLandings how often it is
// tried meanwhile: then only pushes can still move the branch.
const (
	landAlone   = 30 * time.Second
	maxLandings = 50
)

// Land brings a commit to the desired branch: as it is where the branch hasn't moved, else by a merge
// of Jibe's own, with the commit as its second parent. It returns when that is durable, with what the
// branch was and is; both are the same where it has the commit already. An [*desired.InvalidError]
// says what is in conflict. Where it fails nothing was changed, but for objects that nothing leads to. With
// a remote, the commit is on the remote's branch first.
func (r *Repo) Land(ctx context.Context, l Landing) (u check.RefUpdate, err error) {
	if _, err := r.read.Commit(ctx, l.Commit); err != nil {
		return u, fmt.Errorf("land: %w", err)
	}
	for range landFreely {
		if u, err = r.tryLand(ctx, l, r.writeAlone); !movedOrLocked(err) {
			return u, err
		}
	}
	aerr := r.writeAlone(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, landAlone)
		defer cancel()
		for n := range maxLandings {
			if u, err = r.tryLand(ctx, l, func(_ context.Context, do func() error) error { return do() }); !movedOrLocked(err) {
				break
			}
			if err := wait(ctx, turnDelay(n)); err != nil {
				break
			}
		}
		if movedOrLocked(err) || errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: too many pushes at once: push again (%w)", desired.ErrUnavailable, err)
		}
		return err
	})
	return u, aerr
}

func movedOrLocked(err error) bool {
	return errors.Is(err, git.ErrRefMoved) || errors.Is(err, git.ErrRefLocked)
}

// tryLand lands on the branch as it stands. alone runs what mustn't meet other writes.
func (r *Repo) tryLand(ctx context.Context, l Landing, alone func(context.Context, func() error) error) (check.RefUpdate, error) {
	if err := r.Fetch(ctx); err != nil {
		return check.RefUpdate{}, err
	}
	u := check.RefUpdate{Ref: r.read.Ref(), Old: r.Head(), New: l.Commit}
	if u.Old != "" {
		if has, err := r.read.IsAncestor(ctx, l.Commit, u.Old); err != nil || has {
			return check.RefUpdate{Ref: u.Ref, Old: u.Old, New: u.Old}, err
		}
		follows, err := r.read.IsAncestor(ctx, u.Old, l.Commit)
		if err == nil && !follows && l.Plain {
			return u, &desired.InvalidError{Problems: []*desired.Problem{{File: u.Ref, Message: "another commit was faster than this push",
				Remedy: "fetch first, then push again; or have it merged: " + check.LandingCommand(l.Commit, r.opt.Branch)}}}
		}
		if err == nil && !follows {
			u.New, err = r.mergeLanded(ctx, u.Old, l.Commit)
		}
		if err != nil {
			return u, err
		}
	}
	if err := l.Judge(ctx, u); err != nil {
		return u, err
	}
	if r.opt.Remote == "" {
		return u, r.moveLanded(ctx, u, l)
	}
	return u, alone(ctx, func() error { return r.landOnRemote(ctx, u, l) })
}

// mergeLanded makes the commit that merges another one into head. Nothing leads to it yet.
func (r *Repo) mergeLanded(ctx context.Context, head, commit string) (string, error) {
	m := &merger{Reader: r.read, git: r.read.Git, own: r.sealed, onto: r.opt.Branch}
	by, err := m.merge(ctx, head, commit)
	if err != nil {
		return "", err
	}
	if len(by.conflicts) > 0 {
		return "", &desired.InvalidError{Problems: by.conflicts}
	}
	data, err := r.read.Objects.Get(ctx, git.KindCommit, commit)
	if err != nil {
		return "", r.read.Damaged("commit "+commit, err)
	}
	subject, _ := message.Said(data)
	w := desired.Write{Subject: fmt.Sprintf("Merge %q into %s", message.Clip(strings.ToValidUTF8(message.Line(subject), "?")), r.opt.Branch),
		Body: fmt.Sprintf("It was pushed to refs/for/%s when that had moved on.", r.opt.Branch)}
	made := by.pack.Add(git.KindCommit, r.opt.Verify.Sign(r.encode(by.tree, head, w, commit)))
	if err := by.pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
		return "", fmt.Errorf("%w: write the objects of %s: %w", desired.ErrUnavailable, made, err)
	}
	r.maint.packs.Add(1)
	return made, nil
}

// mayLand has a landing accepted, where the branch still stands at what it was made on. r.move is held.
func (r *Repo) mayLand(ctx context.Context, u check.RefUpdate, l Landing) error {
	if err := r.refreshLocked(ctx); err != nil {
		return err
	}
	if err := r.writable(); err != nil {
		return err
	}
	if head := r.Head(); head != u.Old {
		return fmt.Errorf("%w: it is at %s", git.ErrRefMoved, head)
	}
	return l.Accept(ctx, u)
}

// moveLanded moves the branch, unless it stands elsewhere than what was judged.
func (r *Repo) moveLanded(ctx context.Context, u check.RefUpdate, l Landing) error {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.mayLand(ctx, u, l); err != nil {
		return err
	}
	// What was accepted is carried out, also if its pusher goes away now.
	ctx = context.WithoutCancel(ctx)
	if u.Old == "" {
		if err := markBorn(r.opt.Dir); err != nil {
			return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	err := r.refs.Move(ctx, u.Ref, u.New, u.Old)
	switch {
	case errors.Is(err, git.ErrRefLocked):
		if err := r.breakLocks(); err != nil {
			return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
		return err
	case errors.Is(err, git.ErrRefMoved):
		return err
	case err != nil:
		if now, rerr := git.ReadRef(r.opt.Dir, u.Ref); rerr != nil || now != u.New {
			return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	if err := r.refreshAccepting(ctx, u.New); err != nil { // it has landed; Health says it, and follow tries again
		r.log.Error("a landed commit isn't followed yet", "revision", u.New, "error", err)
	}
	return nil
}
