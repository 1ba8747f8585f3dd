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
	if _, err := r.read.Commit(ctx, was); err != nil {
		return "", fmt.Errorf("%w, nor does the repository (get it from a clone: git --git-dir=%[2]s fetch CLONE, then git --git-dir=%[2]s update-ref %[3]s %[4]s; "+
			"or accept the branch, which ends and begins VNFs: jibe serve --accept-head %[5]s)", held, r.opt.Dir, r.read.Ref(), was, head)
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
	return "", fmt.Errorf("%w%s (put it back: git --git-dir=%s update-ref %s %s; or accept it with: jibe accept)", held, r.effectOf(ctx, was, head), r.opt.Dir, r.read.Ref(), was)
}

// forwards returns the commit that takes effect of a local branch that moved on. What came through a push or a landing was
// judged before, and Jibe's own commits need no judge; any other change was made on the host, and met no hook.
func (r *Repo) forwards(ctx context.Context, was, head string, start bool) (string, error) {
	err := r.judgeSteps(ctx, was, head)
	if !errors.Is(err, errHeld) {
		return head, err
	}
	if start { // the next refresh holds it
		return was, nil
	}
	if err := r.rememberCommit(ctx, was); err != nil { // at once, as above
		r.log.Warn("the next start may not notice that the branch ends many VNFs", "revision", was, "error", err)
	}
	return "", fmt.Errorf("%w (put it back: git --git-dir=%s update-ref %s %s; or accept it with: jibe accept)", err, r.opt.Dir, r.read.Ref(), was)
}

// judgeSteps judges each step from one commit to a later one that wasn't pushed through Jibe's hook, has not landed, and isn't
// Jibe's own. Steps are judged one by one: a start may find many, and what each ended by itself was meant.
func (r *Repo) judgeSteps(ctx context.Context, was, head string) error {
	tip := head
	for head != was {
		push, err := r.pushedBy(ctx, head)
		if err != nil {
			return err
		}
		if push != nil && push.Old != "" {
			head = push.Old
			continue
		}
		data, err := r.read.Objects.Get(ctx, git.KindCommit, head)
		if err != nil {
			return r.read.Damaged("commit "+head, err)
		}
		c, err := r.read.Commit(ctx, head)
		if err != nil {
			return err
		}
		if len(c.Parents) > 0 && r.sealed(data) {
			head = c.Parents[0]
			continue
		}

		// A merge may have what is in effect as its second parent, and any content: then it is one step from there.
		if len(c.Parents) == 0 {
			return r.judgeMove(ctx, was, tip)
		}
		if follows, err := r.has(ctx, was, c.Parents[0]); err != nil {
			return err
		} else if !follows {
			return r.judgeMove(ctx, was, head)
		}
		if err := r.judgeMove(ctx, c.Parents[0], head); err != nil {
			return err
		}
		head = c.Parents[0]
	}
	return nil
}

// followsOn is [Repo.has]. It starts no git process for a commit directly on top of the other, as most pushes are.
func (r *Repo) followsOn(ctx context.Context, was, head string) (bool, error) {
	if c, err := r.read.Commit(ctx, head); err == nil && slices.Contains(c.Parents, was) {
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
		_, err = r.read.Git.Run(ctx, "update-ref", "-d", inEffectRef)
	}
	if err != nil {
		r.log.Warn("a commit that is no longer in effect stays pinned", "ref", inEffectRef, "error", err)
	}
}

// acceptSetBack follows a local branch that is held, and reports whether it was. r.move is held.
func (r *Repo) acceptSetBack(ctx context.Context, shown string) (bool, error) {
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	if err == nil {
		err = stillHeld(shown, head)
	}
	if err != nil || head == "" || head == r.Head() {
		return false, err
	}

	if err := r.keepFormer(ctx, r.Head(), head); err != nil {
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
