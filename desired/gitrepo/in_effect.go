package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// inEffectRef pins the commit in effect while a local branch that was set back is held: without a ref that leads to it, the
// next repack would remove it.
const inEffectRef = "refs/jibe/in-effect"

const (
	// rememberEvery bounds how long the store may lag behind the branch. A later start compares with the commit in the
	// store, and every newer branch contains an older one, so lag delays no write and holds no branch by mistake.
	rememberEvery = 250 * time.Millisecond
	// rememberLast bounds the last write, at Close.
	rememberLast = 5 * time.Second
)

// inEffect returns the commit of a local branch that takes effect. was is the commit in effect, head that of the branch.
// A branch that doesn't contain was has been set back: manually, or with the whole folder. The push hook refuses such a
// push, but sees no such change; following it would terminate VNFs that the branch lacks, and instantiate those that
// ended since. So it is held, as a rewritten branch of a remote is, until it is put back or accepted.
//
// At the start, was is "" and the store has the commit: inEffect returns that commit, and the next refresh holds the branch.
// A remote's branch was judged before the mirror moved ([Repo.obey]).
func (r *Repo) inEffect(ctx context.Context, was, head string) (string, error) {
	if r.opt.Remote != "" {
		return head, nil
	}
	start := was == ""
	if start {
		was = r.accepted(ctx)
	}
	if was == "" || was == head {
		return head, nil
	}
	follows, err := r.followsOn(ctx, was, head)
	if err != nil {
		return "", err
	}
	if follows {
		return r.forwards(ctx, was, head, start)
	}

	held := fmt.Errorf("%w: its history was rewritten: %s was at %s and is at %s, which doesn't contain it", errHeld, r.opt.Branch, was, head)
	if _, err := r.commit(ctx, was); err != nil {
		return "", fmt.Errorf("%w, nor does the repository (get it from a clone: git --git-dir=%[2]s fetch CLONE, then git --git-dir=%[2]s update-ref %[3]s %[4]s; "+
			"or accept the branch, which ends and begins VNFs: jibe serve --accept-head %[5]s)", held, r.opt.Dir, r.ref(), was, head)
	}
	if start {
		return was, nil
	}

	if err := r.pinInEffect(ctx, was); err != nil {
		r.log.Warn("the commit in effect may be lost in the next repack", "revision", was, "error", err)
	}
	if err := r.rememberCommit(ctx, was); err != nil { // at once: this process may be killed before the next turn of remember
		r.log.Warn("the next start may not notice that the branch was set back", "revision", was, "error", err)
	}
	return "", fmt.Errorf("%w%s (put it back: git --git-dir=%s update-ref %s %s; or accept it with: jibe accept)", held, r.effectOf(ctx, was, head), r.opt.Dir, r.ref(), was)
}

// forwards returns the commit that takes effect of a local branch that moved on. What came through a push or a landing was
// judged before, and Jibe's own commits need no judge; any other change was made on the host, and met no hook.
func (r *Repo) forwards(ctx context.Context, was, head string, start bool) (string, error) {
	if judged, err := r.isJudged(ctx, was, head); err != nil || judged {
		return head, err
	}
	err := r.judgeMove(ctx, was, head)
	if !errors.Is(err, errHeld) {
		return head, err
	}
	if start { // the next refresh holds it
		return was, nil
	}
	if err := r.rememberCommit(ctx, was); err != nil { // at once, as above
		r.log.Warn("the next start may not notice that the branch ends many VNFs", "revision", was, "error", err)
	}
	return "", fmt.Errorf("%w (put it back: git --git-dir=%s update-ref %s %s; or accept it with: jibe accept)", err, r.opt.Dir, r.ref(), was)
}

// maxJudgedSteps bounds the commits that isJudged looks at. Jibe writes fewer between two moments at which the store
// remembers where the branch is.
const maxJudgedSteps = 10_000

// isJudged reports whether every step from one commit to a later one was pushed through Jibe's hook, landed, or is Jibe's own.
func (r *Repo) isJudged(ctx context.Context, was, head string) (bool, error) {
	for range maxJudgedSteps {
		if head == was {
			return true, nil
		}
		push, err := r.pushedBy(ctx, head)
		if err != nil {
			return false, err
		}
		if push != nil {
			if head = push.Old; head == "" {
				return false, nil
			}
			continue
		}
		data, err := r.objects.Get(ctx, git.KindCommit, head)
		if err != nil {
			return false, r.damaged("commit "+head, err)
		}
		c, err := r.commit(ctx, head)
		if err != nil || !r.sealed(data) || len(c.Parents) == 0 {
			return false, err
		}
		head = c.Parents[0]
	}
	return false, nil
}

// followsOn is [Repo.has]. It starts no git process for a commit directly on top of the other, as most pushes are.
func (r *Repo) followsOn(ctx context.Context, was, head string) (bool, error) {
	if c, err := r.commit(ctx, head); err == nil && slices.Contains(c.Parents, was) {
		return true, nil
	}
	return r.has(ctx, was, head)
}

func (r *Repo) pinInEffect(ctx context.Context, commit string) error {
	now, err := git.ReadRef(r.opt.Dir, inEffectRef)
	if err != nil || now == commit {
		return err
	}
	return r.refs.Move(ctx, inEffectRef, commit, now)
}

// unpinInEffect removes the pin once the branch is followed again.
func (r *Repo) unpinInEffect(ctx context.Context) {
	now, err := git.ReadRef(r.opt.Dir, inEffectRef)
	if err == nil && now != "" {
		_, err = r.git.Run(ctx, "update-ref", "-d", inEffectRef)
	}
	if err != nil {
		r.log.Warn("a commit that is no longer in effect stays pinned", "ref", inEffectRef, "error", err)
	}
}

// acceptSetBack follows a local branch that is held, and reports whether it was. r.move is held.
func (r *Repo) acceptSetBack(ctx context.Context, shown string) (bool, error) {
	head, err := git.ReadRef(r.opt.Dir, r.ref())
	if err == nil {
		err = stillHeld(shown, head)
	}
	if err != nil || head == "" || head == r.Head() {
		return false, err
	}

	// The decision is durable first: after a crash in between, a start must not bring back what was just ended.
	if err := r.rememberCommit(ctx, head); err != nil {
		return false, err
	}
	r.histories.Add(1)
	if err := r.refreshAccepting(ctx, head); err != nil {
		return false, fmt.Errorf("%w (restart Jibe with --accept-head %s)", err, head)
	}
	r.unpinInEffect(ctx)

	return true, nil
}

// remember writes each commit in effect to the store, for the next start. Moves within [rememberEvery] share a write.
func (r *Repo) remember() {
	for r.ctx.Err() == nil {
		r.mu.RLock()
		moved := r.moved
		r.mu.RUnlock()
		if err := r.rememberCommit(r.ctx, r.Head()); err != nil && r.ctx.Err() == nil {
			r.log.Warn("the next start may not notice that the branch was set back", "revision", r.Head(), "error", err)
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
		r.log.Warn("the next start may not notice that the branch was set back", "revision", r.Head(), "error", err)
	}
}

func (r *Repo) rememberCommit(ctx context.Context, commit string) error {
	if r.opt.Accepted == nil || commit == "" {
		return nil
	}
	for range 3 { // remember and a refresh may write at the same time
		was, err := r.opt.Accepted.Load(ctx)
		if err != nil || was == commit {
			return err
		}
		if moved, err := r.opt.Accepted.Move(ctx, was, commit); err != nil || moved {
			return err
		}
	}
	return fmt.Errorf("%w: another process changes the record of branch %s (only one jibe serve may use this store without --remote)", desired.ErrUnavailable, r.opt.Branch)
}
