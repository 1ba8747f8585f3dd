package gitrepo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// inEffectRef keeps the commit that is in effect, and all that led to it, while the branch stands elsewhere: no other ref
// may lead there, and what none leads to goes with the next repack.
const inEffectRef = "refs/jibe/in-effect"

// Where a local branch is remembered: rememberEvery is how long a move may be unknown to a process that comes after a
// crash, and rememberLast bounds the last one at the end of this process.
const (
	rememberEvery = 250 * time.Millisecond
	rememberLast  = 5 * time.Second
)

// inEffect is the commit of a local branch that takes effect, where was is in effect and the branch is at head. A branch
// that doesn't follow what is in effect was set back, by hand or with its whole folder: what it lacks would be terminated,
// and what it still has begun again. The hook refuses such a push, and nobody else asks: it is held, as a remote's is, until
// it is put back or a person accepts it. was is "" at the start, where the store remembers: the commit from then is read
// again, for which it must still be there.
//
// A remote's branch is judged before the mirror's moves ([Repo.obey]).
func (r *Repo) inEffect(ctx context.Context, was, head string) (string, error) {
	if r.opt.Remote != "" || head == r.agreed {
		return head, nil
	}
	start := was == ""
	if start {
		was = r.accepted(ctx)
	}
	if was == "" || was == head {
		return head, nil
	}
	if follows, err := r.followsOn(ctx, was, head); err != nil || follows {
		return head, err
	}

	held := fmt.Errorf("%w: its history was rewritten: %s was at %s and is at %s, which doesn't contain it", errHeld, r.opt.Branch, was, head)
	if _, err := r.commit(ctx, was); err != nil {
		return "", fmt.Errorf("%w, nor does %s (fetch it there from a clone that has it, and set the branch to it: git update-ref %s %s; "+
			"or start with --accept-head %s, which ends and begins VNFs as that commit says)", held, r.opt.Dir, r.ref(), was, head)
	}
	if start {
		return was, nil
	}
	if err := r.keepInEffect(ctx, was); err != nil {
		r.log.Warn("the commit in effect goes with the next repack", "revision", was, "error", err)
	}
	if err := r.rememberCommit(ctx, was); err != nil { // now: this process may be killed before its turn comes
		r.log.Warn("the process after this one wouldn't notice that the branch was set back", "error", err)
	}
	return "", fmt.Errorf("%w%s (put it back: git --git-dir=%s update-ref %s %s; or accept it with: jibe accept)", held, r.effectOf(ctx, was, head), r.opt.Dir, r.ref(), was)
}

// followsOn is has, which for a commit on top of another, as most pushes are, needs no process of git.
func (r *Repo) followsOn(ctx context.Context, was, head string) (bool, error) {
	if c, err := r.commit(ctx, head); err == nil && slices.Contains(c.Parents, was) {
		return true, nil
	}
	return r.has(ctx, was, head)
}

func (r *Repo) keepInEffect(ctx context.Context, commit string) error {
	r.kept = true
	now, err := git.ReadRef(r.opt.Dir, inEffectRef)
	if err != nil || now == commit {
		return err
	}
	return r.refs.Move(ctx, inEffectRef, commit, now)
}

// letGo forgets the commit that was kept, once the branch stands where it is followed.
func (r *Repo) letGo(ctx context.Context) {
	if !r.kept {
		return
	}
	now, err := git.ReadRef(r.opt.Dir, inEffectRef)
	if err == nil && now != "" {
		_, err = r.git.Run(ctx, "update-ref", "-d", inEffectRef)
	}
	if err != nil {
		r.log.Warn("a commit that was in effect is kept without need", "ref", inEffectRef, "error", err)
	}
	r.kept = false
}

// acceptSetBack takes a local branch that is held, and says whether it was. r.move is held.
func (r *Repo) acceptSetBack(ctx context.Context, shown string) (bool, error) {
	head, err := git.ReadRef(r.opt.Dir, r.ref())
	if err == nil {
		err = stillHeld(shown, head)
	}
	if err != nil || head == "" || head == r.Head() {
		return false, err
	}
	r.agreed = head
	defer func() { r.agreed = "" }() // it may be set back to the same commit once more
	r.histories.Add(1)
	if err := r.refreshLocked(ctx); err != nil {
		return false, fmt.Errorf("%w (start Jibe again with --accept-head %s)", err, head)
	}
	r.letGo(ctx)
	return true, r.rememberCommit(ctx, head)
}

// remember has the store know of each commit in effect, so that the process after this one knows where the branch was. It
// does so a moment after the branch moved, for all moves until then.
func (r *Repo) remember() {
	for r.ctx.Err() == nil {
		r.mu.RLock()
		moved := r.moved
		r.mu.RUnlock()
		if err := r.rememberCommit(r.ctx, r.Head()); err != nil && r.ctx.Err() == nil {
			r.log.Warn("a branch that is set back while no server runs would not be noticed", "error", err)
		}
		select {
		case <-moved:
		case <-r.ctx.Done():
		}
		_ = wait(r.ctx, rememberEvery)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), rememberLast)
	defer cancel()
	if err := r.rememberCommit(ctx, r.Head()); err != nil {
		r.log.Warn("the last commit in effect isn't remembered", "error", err)
	}
}

func (r *Repo) rememberCommit(ctx context.Context, commit string) error {
	if r.opt.Accepted == nil || commit == "" {
		return nil
	}
	for range 3 { // the other goroutine may have been faster
		was, err := r.opt.Accepted.Load(ctx)
		if err != nil || was == commit {
			return err
		}
		if moved, err := r.opt.Accepted.Move(ctx, was, commit); err != nil || moved {
			return err
		}
	}
	return fmt.Errorf("%w: another process keeps the record of branch %s", desired.ErrUnavailable, r.opt.Branch)
}
