package gitrepo

import (
	"context"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// acceptedWithin bounds a question to [Accepted]. Where it isn't answered, the remote's branch
// is judged as if nobody else had.
const acceptedWithin = 5 * time.Second

// Accepted is the commit that several mirrors of one remote take for the branch's: it is judged
// once, by whoever fetched or pushed it first, and the others adopt it.
type Accepted interface {
	// Load returns the commit, "" where none was accepted yet.
	Load(ctx context.Context) (commit string, err error)
	// Move puts a commit in the place of another, and says whether that was still there.
	Move(ctx context.Context, from, to string) (bool, error)
	// Watch calls moved whenever the commit may have been moved, by whomever, until ctx ends.
	Watch(ctx context.Context, moved func()) error
}

// accepted returns the accepted commit, "" where there is none, or nobody to ask.
func (r *Repo) accepted(ctx context.Context) string {
	if r.opt.Accepted == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	commit, err := r.opt.Accepted.Load(ctx)
	if err != nil {
		r.log.Warn("what other processes have accepted of the branch isn't known", "error", err)
		return ""
	}
	return commit
}

// acceptOwn is accept of a commit that was just pushed on top of another. This mirror has it: it
// isn't fetched when the move is told of.
func (r *Repo) acceptOwn(ctx context.Context, commit, parent string) {
	if r.opt.Accepted == nil {
		return
	}
	r.pushedLast.Store(&commit)
	ctx, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	if moved, err := r.opt.Accepted.Move(ctx, parent, commit); err == nil && moved {
		r.told = commit
		return
	}
	r.accept(ctx, commit, false)
}

// accept tells the others of a commit that was judged, or pushed. Best effort: the next pull
// does it again. With anew it counts whatever the others have.
func (r *Repo) accept(ctx context.Context, commit string, anew bool) {
	if r.opt.Accepted == nil || commit == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	for {
		now, err := r.opt.Accepted.Load(ctx)
		if err == nil && now != "" && now != commit && !anew {
			// One that is no ancestor is further on, or belongs to a history that others took.
			var older bool
			if older, err = r.has(ctx, now, commit); err == nil && !older {
				return
			}
		}
		moved := now == commit
		if err == nil && !moved {
			moved, err = r.opt.Accepted.Move(ctx, now, commit)
		}
		if err != nil {
			r.log.Warn("other processes aren't told of the branch's commit, the next fetch does", "revision", commit, "error", err)
			return
		}
		if moved {
			r.told = commit
			return
		}
	}
}

// has says whether a commit is in the history of another, which the mirror has in full. One
// that the mirror lacks isn't.
func (r *Repo) has(ctx context.Context, commit, in string) (bool, error) {
	if commit == in {
		return true, nil
	}
	ok, err := r.read.IsAncestor(ctx, commit, in)
	if git.ExitCode(err) == 128 {
		return false, nil
	}
	return ok, err
}

// adoptAccepted moves the branch from head as far towards the remote's commit as others have
// accepted it, without judging that again, and returns where it is then and where the remote is.
func (r *Repo) adoptAccepted(ctx context.Context, hash, head string) (newHash, newHead string, err error) {
	is := r.accepted(ctx)
	if is == "" || is == head {
		return hash, head, nil
	}
	if head != "" {
		behind, err := r.has(ctx, is, head)
		if err == nil && behind {
			behind, err = r.has(ctx, head, hash) // else the branch was taken back
		}
		if err != nil || behind {
			return hash, head, err
		}
	}
	has, err := r.has(ctx, is, hash)
	if err != nil {
		return hash, head, err
	}
	if !has {
		// It may have been pushed since the remote was asked.
		if hash, err = r.fetch(ctx, r.read.Ref(), fetchedRef, r.opt.remoteTimeout); err != nil {
			return hash, head, err
		}
		if has, err = r.has(ctx, is, hash); err != nil {
			return hash, head, err
		}
	}
	if !has {
		return hash, head, fmt.Errorf("%w: its history was rewritten: %s was accepted at %s and is at %s, which doesn't contain it (%s)", errHeld, r.opt.Branch, is, hash, asAccept)
	}
	if err := r.vouched(ctx, head, is); err != nil {
		return hash, head, err
	}
	if err := r.within(ctx, head, is); err != nil {
		return hash, head, err
	}
	if err := r.keepFormer(ctx, head, is); err != nil {
		return hash, head, err
	}
	if err := r.refs.Move(ctx, r.read.Ref(), is, head); err != nil {
		return hash, head, err
	}
	r.histories.Add(1)
	r.told = is
	return hash, is, nil
}

// rewritten refuses a history that lacks the mirror's head, unless a person has accepted it
// elsewhere.
func (r *Repo) rewritten(ctx context.Context, head, hash string) error {
	if ok, err := r.read.IsAncestor(ctx, head, hash); err != nil || ok {
		return err
	}
	if is := r.accepted(ctx); is != "" {
		theirs, err := r.has(ctx, is, hash)
		if err != nil {
			return err
		}
		ours, err := r.has(ctx, is, head)
		if err != nil {
			return err
		}
		// What others have accepted may be behind because they weren't told yet, or because a
		// person has accepted that the branch was taken back.
		if theirs && (!ours || r.told == head) {
			r.log.Warn("the remote's history was rewritten, and accepted by a person elsewhere", "revision", is, "former", head)
			return nil
		}
	}
	return fmt.Errorf("%w: its history was rewritten: %s was at %s and is at %s, which doesn't contain it%s (%s)", errHeld, r.opt.Branch, head, hash, r.effectOf(ctx, head, hash), asAccept)
}

// watchAccepted fetches when another process has moved the branch.
func (r *Repo) watchAccepted() {
	for pause := firstRetry; r.ctx.Err() == nil; pause = min(2*pause, r.opt.PollInterval) {
		err := r.opt.Accepted.Watch(r.ctx, func() {
			pause = firstRetry
			is := r.accepted(r.ctx)
			if own := r.pushedLast.Load(); own != nil && *own == is {
				return
			}
			if is != "" && is != r.Head() {
				r.Poke()
			}
		})
		if r.ctx.Err() == nil {
			r.log.Warn("moves of the branch by other processes are seen at the next fetch only", "error", err)
		}
		_ = wait(r.ctx, pause)
	}
}

// Knows implements [desired.Repo].
func (r *Repo) Knows(ctx context.Context, commit string) (bool, error) {
	if r.opt.Accepted == nil || r.opt.Remote == "" {
		return true, nil // nobody else decides by this branch
	}
	if commit != "" {
		if ok, err := r.contains(ctx, commit); err != nil || ok {
			return ok, err
		}
	}
	// All that was decided stands in what is accepted, but for what a person has taken out of
	// the history.
	ctx, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	is, err := r.opt.Accepted.Load(ctx)
	if err != nil {
		return false, fmt.Errorf("%w: which commit is accepted: %w", desired.ErrUnavailable, err)
	}
	if is != "" {
		ok, err := r.contains(ctx, is)
		if err != nil || ok {
			return ok, err
		}
	} else if commit == "" {
		return true, nil
	}
	r.Poke()
	return false, nil
}

// contains says whether head is the commit or has it in its history.
func (r *Repo) contains(ctx context.Context, commit string) (bool, error) {
	head := r.Head()
	if head == "" {
		return false, nil
	}
	if commit == head {
		return true, nil
	}
	if of, ok := r.known.Get(commit); ok && of == r.histories.Load() {
		return true, nil
	}
	history := r.histories.Load()
	ok, err := r.has(ctx, commit, head)
	if err != nil {
		return false, fmt.Errorf("%w: look for commit %s: %w", desired.ErrUnavailable, commit, err)
	}
	if ok {
		r.known.Add(commit, history, 1)
	}
	return ok, nil
}

// CatchUp waits until the mirror has all that is accepted when it is called, or ctx ends. Where
// nobody else writes to the branch, it has.
func (r *Repo) CatchUp(ctx context.Context) error {
	if r.opt.Accepted == nil || r.opt.Remote == "" {
		return nil
	}
	is, err := r.opt.Accepted.Load(ctx)
	if err != nil {
		return fmt.Errorf("%w: which commit is accepted: %w", desired.ErrUnavailable, err)
	}
	if is == "" {
		return nil
	}
	return r.WaitFor(ctx, is)
}

// WaitFor implements [desired.Repo].
func (r *Repo) WaitFor(ctx context.Context, commit string) error {
	for {
		r.mu.RLock()
		moved := r.moved
		r.mu.RUnlock()
		ok, err := r.contains(ctx, commit)
		if err != nil || ok {
			return err
		}
		if r.opt.Remote != "" {
			r.Poke()
		} else if err := r.Refresh(ctx); err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: commit %s isn't here yet: %w", desired.ErrUnavailable, commit, ctx.Err())
		case <-r.ctx.Done():
			return objects.ErrClosed
		}
	}
}
