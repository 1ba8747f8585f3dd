package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// defaultRemoteTimeout bounds one exchange with the remote for which a write may have to wait,
// and transferTimeout one that brings commits and for which nobody waits, as the first brings
// the whole history. What is done with them after that takes the time that it takes: a bound
// would have a commit of very many instances never followed.
const (
	defaultRemoteTimeout = time.Minute
	transferTimeout      = 15 * time.Minute
)

// The refs that hold what was fetched.
const (
	fetchedRef   = "refs/jibe/remote/branch"
	aheadRef     = "refs/jibe/remote/ahead" // of pull, which fetches while others do
	fetchedNotes = "refs/notes/jibe-remote"
)

// errHeld is returned while only a person can say what the branch means: its history was
// rewritten, or a remote's would end many instances at once. Nothing of it is read, and nothing
// written, until the branch is repaired or a person accepts it.
var errHeld = fmt.Errorf("%w: the branch is held back", desired.ErrUnavailable)

// asAccept says how a person accepts the branch.
const asAccept = "repair the branch, or accept it with: jibe accept"

// Poke makes the repository look for commits now: a webhook calls it.
func (r *Repo) Poke() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// firstFetch reads the remote once. If the remote is away, the mirror as it was left stands,
// and Health says so. Without a mirror it fails: there is no state to stand on.
func (r *Repo) firstFetch(ctx context.Context) error {
	r.move.Lock()
	err := r.refreshLocked(ctx)
	r.move.Unlock()
	if err != nil {
		return err
	}
	err = r.pull(ctx)
	if err != nil && r.Head() == "" {
		return fmt.Errorf("%w: read the remote for the first time: %w", desired.ErrUnavailable, err)
	}
	if err == nil {
		r.fetchPins(ctx)
	}
	return nil
}

// fetchLoop asks the remote at the poll interval and at each poke, and brings it
// the notes.
func (r *Repo) fetchLoop() {
	tick := time.NewTicker(r.opt.PollInterval)
	defer tick.Stop()
	var again <-chan time.Time // when a remote that couldn't be followed is tried again
	var late <-chan time.Time  // when notes and pins go alone
	var went time.Time         // when they did last
	pause := time.Duration(0)
	for {
		likely := false
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		case <-again:
		case <-r.poke:
			likely = true
		case <-late:
			late = nil
			r.pushRest(r.ctx)
			went = time.Now()
			continue
		}
		err := r.pullOf(r.ctx, likely)
		if again = nil; err != nil {
			r.flushNotes(r.ctx, false) // no commits take them along, and they are to outlive this process
			pause = min(max(2*pause, 10*firstRetry), r.opt.PollInterval)
			again = time.After(pause)
		} else {
			pause = 0
			r.settleLeft(r.ctx)
			if late == nil {
				late = time.After(restPause - time.Since(went))
			}
		}
	}
}

// pull brings the mirror and the index to the remote's commit, and Health says how that went.
// The remote is asked, and its commits come, while others read and write: one that hangs holds
// up nobody.
func (r *Repo) pull(ctx context.Context) error { return r.pullOf(ctx, false) }

// pullOf is pull; likely says that the branch has probably moved.
func (r *Repo) pullOf(ctx context.Context, likely bool) error {
	asked, err := r.ask(ctx)
	if err != nil {
		return err
	}
	defer asked()
	return r.pullAsked(ctx, likely)
}

// pullAccepted is pull where the mirror lacks something that others have accepted. Mostly it has
// that by then, or is about to: whoever is told of a move fetches.
func (r *Repo) pullAccepted(ctx context.Context) error {
	asked, err := r.ask(ctx)
	if err != nil {
		return err
	}
	defer asked()
	if is := r.accepted(ctx); is != "" {
		if has, err := r.contains(ctx, is); err == nil && has {
			return nil
		}
	}
	return r.pullAsked(ctx, true)
}

// ask waits until nobody else fetches the branch: two would meet at one ref, and bring the same.
func (r *Repo) ask(ctx context.Context) (asked func(), err error) {
	select {
	case r.asking <- struct{}{}:
		return func() { <-r.asking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pullAsked is pull for who has asked.
func (r *Repo) pullAsked(ctx context.Context, likely bool) error {
	hash, head, err := r.transfer(ctx, likely)
	r.move.Lock()
	defer r.move.Unlock()
	if err == nil {
		err = r.takeTransferred(ctx, hash, head)
	}
	if now := r.Head(); err == nil && now != r.told {
		r.accept(ctx, now, false)
	}
	if ctx.Err() == nil {
		r.setHealth(healthRemote, err)
	}
	return err
}

// Fetch brings the repository to the remote's commit before it returns; without a remote it is
// [Repo.Refresh]. It is for what mustn't be decided by a mirror that is behind.
func (r *Repo) Fetch(ctx context.Context) error {
	if r.opt.Remote == "" {
		return r.Refresh(ctx)
	}
	if err := r.pull(ctx); err != nil {
		return fmt.Errorf("%w: fetch the desired repository: %w", desired.ErrUnavailable, err)
	}
	return nil
}

// transfer gets the commits that the remote has and the mirror hasn't, for who has asked. It
// returns where the remote's branch is, "" for nowhere, and where the mirror's was when the
// remote was asked. One that is likely to have moved isn't asked before where it is.
func (r *Repo) transfer(ctx context.Context, likely bool) (hash, head string, err error) {
	if head, err = git.ReadRef(r.opt.Dir, r.read.Ref()); err != nil {
		return "", "", err
	}
	if !likely {
		if hash, err = r.remoteRef(ctx, r.read.Ref()); err != nil || hash == "" || hash == head {
			return hash, head, err
		}
	}
	hash, err = r.fetchBranch(ctx, aheadRef, transferTimeout)
	return hash, head, err
}

// fetchBranch is fetch of the branch: "" where the remote hasn't one.
func (r *Repo) fetchBranch(ctx context.Context, into string, within time.Duration) (string, error) {
	hash, err := r.fetch(ctx, r.read.Ref(), into, within)
	if err != nil && strings.Contains(err.Error(), "couldn't find remote ref") {
		return r.remoteRef(ctx, r.read.Ref())
	}
	return hash, err
}

// takeTransferred obeys the remote's branch as transfer found it, under move.
func (r *Repo) takeTransferred(ctx context.Context, hash, asked string) error {
	if hash == asked {
		return r.refreshLocked(ctx)
	}
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	if err != nil {
		return err
	}
	ahead := head == "" && hash != ""
	if head != "" && hash != "" {
		if ahead, err = r.read.IsAncestor(ctx, head, hash); err != nil {
			return err
		}
	}
	if !ahead {
		// A write may have moved both branches since. Only what the remote says now can be held
		// against it.
		return r.tryFetch(ctx)
	}
	return r.obey(ctx, hash, head)
}

// fetchLocked brings the mirror and the index to the remote's commit. The error
// is in Health too.
func (r *Repo) fetchLocked(ctx context.Context) error {
	err := r.tryFetch(ctx)
	if ctx.Err() == nil {
		r.setHealth(healthRemote, err)
	}
	return err
}

func (r *Repo) tryFetch(ctx context.Context) error {
	hash, err := r.remoteRef(ctx, r.read.Ref())
	if err != nil {
		return err
	}
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	if err != nil {
		return err
	}
	if hash != head && hash != "" {
		if hash, err = r.fetch(ctx, r.read.Ref(), fetchedRef, r.opt.remoteTimeout); err != nil {
			return err
		}
	}
	return r.takeFetched(ctx, hash)
}

// takeFetched obeys the remote's branch as it was fetched, "" for none, while nothing moves the
// mirror's.
func (r *Repo) takeFetched(ctx context.Context, hash string) error {
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	switch {
	case err != nil:
		return err
	case hash == head:
		return r.refreshLocked(ctx)
	case hash == "":
		return fmt.Errorf("%w: branch %s is gone; it was at %s (push it again, nothing is changed meanwhile)", errHeld, r.opt.Branch, head)
	}
	if head != "" {
		if err := r.rewritten(ctx, head, hash); err != nil {
			return err
		}
	}
	return r.obey(ctx, hash, head)
}

// obey moves the branch from head to the remote's commit, which contains it, unless only a
// person may decide that. What others have accepted of it isn't judged again.
func (r *Repo) obey(ctx context.Context, hash, head string) error {
	hash, head, err := r.adoptAccepted(ctx, hash, head)
	if err != nil {
		return err
	}
	if hash == head {
		return r.refreshLocked(ctx)
	}
	if err := r.vouched(ctx, head, hash); err != nil {
		return err
	}
	if head != "" {
		if err := r.judgeMove(ctx, head, hash); errors.Is(err, errHeld) {
			return fmt.Errorf("%w (%s)", err, asAccept)
		} else if err != nil {
			return r.unfolds(hash, err)
		}
	} else if err := r.within(ctx, head, hash); err != nil {
		return err
	}
	if err := r.keepFormer(ctx, head, hash); err != nil {
		return err
	}
	if err := r.refs.Move(ctx, r.read.Ref(), hash, head); err != nil {
		return err
	}
	return r.refreshLocked(ctx)
}

// within refuses a commit that differs from head by more than a reader should walk. Commits
// that the branch has already are read without bounds.
func (r *Repo) within(ctx context.Context, head, hash string) error {
	oldRoot, err := r.read.RootOf(ctx, head)
	if err != nil {
		return err
	}
	newRoot, err := r.read.RootOf(ctx, hash)
	if err != nil {
		return err
	}
	_, err = r.read.DiffDirs(ctx, oldRoot, newRoot, read.MaxChanged)
	return r.unfolds(hash, err)
}

// unfolds says that a commit is held back for its size, which nobody can accept.
func (r *Repo) unfolds(hash string, err error) error {
	if errors.Is(err, read.ErrUnfolds) {
		return fmt.Errorf("%w: commit %s: %w (repair the branch)", errHeld, hash, err)
	}
	return err
}

// Accept obeys the branch as it is, after a person has decided that the change for which it,
// or an instance of it, was held back is meant. It returns the problems of the instances that
// are obeyed now.
//
// shown is the branch's commit that the person was shown ([Repo.Held]), "" for whatever it is at.
func (r *Repo) Accept(ctx context.Context, shown string) ([]*desired.Problem, error) {
	if _, err := r.candidate(ctx); err != nil { // what a remote has comes before the lock
		return nil, err
	}
	r.move.Lock()
	defer r.move.Unlock()

	branch, err := true, error(nil)
	if r.opt.Remote != "" {
		err = r.acceptBranch(ctx, shown)
	} else {
		branch, err = r.acceptSetBack(ctx, shown)
	}
	if err != nil {
		return nil, err
	}
	taken, err := r.acceptLost(ctx)
	if err == nil && !branch && len(taken) == 0 {
		err = errors.New("there is nothing to accept: neither the branch nor an instance is held back")
	}
	return taken, err
}

// acceptBranch takes the remote's branch although it was rewritten, or ends many
// instances.
func (r *Repo) acceptBranch(ctx context.Context, shown string) error {
	hash, err := r.fetch(ctx, r.read.Ref(), fetchedRef, r.opt.remoteTimeout)
	if err != nil {
		return err
	}
	if err := stillHeld(shown, hash); err != nil {
		return err
	}
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	if err != nil {
		return err
	}
	if err := r.vouched(ctx, head, hash); err != nil {
		return err
	}
	if err := r.within(ctx, head, hash); err != nil {
		return err
	}
	if err := r.keepFormer(ctx, head, hash); err != nil {
		return err
	}
	if err := r.refs.Move(ctx, r.read.Ref(), hash, head); err != nil {
		return err
	}
	r.histories.Add(1)
	r.accept(ctx, hash, true)
	return r.fetchLocked(ctx)
}

// remoteRef asks the remote where a ref is; "" is nowhere.
func (r *Repo) remoteRef(ctx context.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	began := time.Now()
	out, err := r.read.Git.Run(ctx, "ls-remote", "--quiet", "--", r.opt.Remote, ref)
	if err != nil {
		r.observed("fetch", began, err) // a remote that is away is asked for nothing more
		return "", fmt.Errorf("%w: ask the remote: %w", desired.ErrUnavailable, err)
	}
	for line := range strings.Lines(out) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && name == ref && git.IsHash(hash) {
			return hash, nil
		}
	}
	return "", nil
}

// fetch gets a ref of the remote within a time, and returns where it is.
func (r *Repo) fetch(ctx context.Context, ref, into string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	began := time.Now()
	_, err := r.read.Git.Run(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--", r.opt.Remote, "+"+ref+":"+into)
	r.observed("fetch", began, err)
	if err != nil {
		return "", fmt.Errorf("%w: fetch: %w", desired.ErrUnavailable, err)
	}
	r.maint.packs.Add(1)
	return git.ReadRef(r.opt.Dir, into)
}

// writable refuses writes while the remote's history isn't the one that was read, or while it
// isn't known what became of a push.
func (r *Repo) writable() error {
	if r.opt.Remote != "" {
		if err := r.Health(); errors.Is(err, errHeld) {
			return err
		}
		if d := r.sent.doubt(); d != nil {
			// As text: the doubt itself is returned only to who has to settle it.
			return fmt.Errorf("%w: %s", desired.ErrUnavailable, d.Error())
		}
	}
	return nil
}
