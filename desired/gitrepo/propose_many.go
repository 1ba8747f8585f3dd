package gitrepo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// ProposeMany makes one commit on the directories of many instances, as [Repo.WriteMany] does, but on
// another branch than the one that is followed: for a pull request. The branch is made anew on top of
// head, whatever it had before, and moves only where nobody else moves it meanwhile. With a remote it is
// the remote's branch. It has no files beside the instances'. Where nothing differs, nothing is pushed.
func (r *Repo) ProposeMany(ctx context.Context, branch string, w desired.WriteMany) (desired.Written, error) {
	if len(w.Files) > 0 || message.Line(w.Subject) == "" {
		return desired.Written{}, errors.New("propose changes of many instances: a subject is needed, and no other files can be changed")
	}
	w.Change = func(map[string][]byte, []desired.Revised) (map[string][]byte, error) { return nil, nil }
	ref := "refs/heads/" + branch
	if ref == r.read.Ref() {
		return desired.Written{}, fmt.Errorf("propose changes of many instances: %s is the branch that runs", branch)
	}
	if ok, err := r.canBe(ctx, ref); err != nil {
		return desired.Written{}, fmt.Errorf("propose on branch %s: %w", branch, err)
	} else if !ok {
		return desired.Written{}, fmt.Errorf("propose changes of many instances: %q can't be a branch", message.Clip(branch))
	}
	k, err := r.nextPush(ctx)
	if err != nil {
		return desired.Written{}, fmt.Errorf("propose on branch %s: %w: wait for the next push: %w", branch, desired.ErrUnavailable, err)
	}
	out, err := r.tryProposeMany(ctx, ref, w, k)
	k.end(false)
	if errors.Is(err, git.ErrRefLocked) {
		if _, stale := git.BreakStaleLocks(r.opt.Dir, ref); stale != nil {
			err = errors.Join(err, stale)
		}
	}
	if errors.Is(err, git.ErrRefMoved) || errors.Is(err, git.ErrRefLocked) {
		err = fmt.Errorf("%w: %w", desired.ErrUnavailable, err) // it is tried again
	}
	if err != nil {
		return desired.Written{}, fmt.Errorf("propose on branch %s: %w", branch, err)
	}
	return out, nil
}

func (r *Repo) tryProposeMany(ctx context.Context, ref string, w desired.WriteMany, k permit) (out desired.Written, err error) {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.refreshLocked(ctx); err != nil {
		return out, err
	}
	if err := r.writable(); err != nil {
		return out, err
	}
	var tip string
	if r.opt.Remote == "" {
		tip, err = git.ReadRef(r.opt.Dir, ref)
	} else {
		tip, err = r.remoteRef(ctx, ref)
	}
	if err != nil {
		return out, err
	}
	b := r.newBatch(ctx, nil)
	if out, err = b.applyMany(&w); err != nil || out.Commit == "" {
		return out, err
	}
	if err := b.Pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
		return out, fmt.Errorf("%w: write the objects of %s: %w", desired.ErrUnavailable, out.Commit, err)
	}
	r.maint.packs.Add(1)
	if r.opt.Remote == "" {
		return out, r.refs.Move(ctx, ref, out.Commit, tip)
	}
	defer k.end(true)
	return out, r.pushProposed(ctx, ref, out.Commit, tip)
}
