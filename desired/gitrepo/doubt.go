package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// doubtError is returned for a push of which it isn't known whether the remote took it, or
// still will: the connection was cut, or time was up.
type doubtError struct {
	to, from string
	err      error
}

func (e *doubtError) Error() string {
	return fmt.Sprintf("whether the remote took commit %s isn't known until it answers: push: %v", e.to, e.err)
}

func (e *doubtError) Unwrap() []error { return []error{desired.ErrUnavailable, e.err} }

// maxDoubtPause bounds the pause between two attempts to settle a doubt.
const maxDoubtPause = 10 * time.Second

// settle finds out what became of a push, however long that takes: whoever waits for the write
// gets no answer that could turn out wrong. nil means that the remote has the commit, and
// git.ErrRefMoved that it hasn't and never will, so that the batch may be built anew. Only where
// the repository closes the doubt is left to the next process, and returned.
//
// The repository isn't locked meanwhile. The turn is given back before a pause: others may
// reach the remote.
func (r *Repo) settle(ctx context.Context, d *doubtError, t turn) error {
	r.log.Warn("the outcome of a push isn't known", "revision", d.to, "error", d.err)
	for pause := firstRetry; ; pause = min(2*pause, maxDoubtPause) {
		landed, err := r.ascertain(ctx, d, true)
		if err == nil {
			err = r.followResolved(ctx, d, landed)
		}
		if err == nil {
			r.sent.close(true)
			if landed {
				return nil
			}
			return fmt.Errorf("%w: commit %s didn't get to the remote in time", git.ErrRefMoved, d.to)
		}
		r.setHealth(healthRemote, fmt.Errorf("%w: %w", d, err))
		t.end()
		if wait(r.ctx, pause) != nil {
			r.sent.close(false)
			return d
		}
	}
}

// ascertain asks the remote once. The commit that it doesn't have is pushed again where repeat is
// set: it is the same commit from the same place, so that of both pushes one moves the branch at
// most. Else the branch is moved past it by a commit that changes nothing, after which the first
// push must fail whenever it arrives. An error says that nothing is known yet.
func (r *Repo) ascertain(ctx context.Context, d *doubtError, repeat bool) (landed bool, err error) {
	now, err := r.remoteRef(ctx, r.read.Ref())
	if err != nil {
		return false, err
	}
	switch now {
	case d.to:
		return true, nil
	case "":
		if d.from != "" {
			return false, nil
		}
	case d.from:
	default:
		if now, err = r.fetch(ctx, r.read.Ref(), fetchedRef, transferTimeout); err != nil {
			return false, err
		}
		return r.read.IsAncestor(ctx, d.to, now)
	}
	if repeat || d.from == "" {
		outcome, err := r.sendNext(ctx, d.to, d.from)
		switch outcome {
		case pushTaken:
			return true, nil
		case pushUnknown:
			return false, err
		}
		// It is refused now: by a hook, or because the first push has arrived.
		if now, err = r.remoteRef(ctx, r.read.Ref()); err != nil {
			return false, err
		}
		if now != d.from {
			return r.ascertain(ctx, d, false)
		}
		if d.from == "" {
			return false, errors.New("the remote refuses the branch's first commit")
		}
	}
	return false, r.pass(ctx, d)
}

// pass moves the remote's branch past a push in doubt.
func (r *Repo) pass(ctx context.Context, d *doubtError) error {
	root, err := r.read.RootOf(ctx, d.from)
	if err != nil {
		return err
	}
	pack := git.NewPack()
	w := desired.Write{Subject: "Give up a push whose outcome isn't known",
		Body: fmt.Sprintf("Commit %s didn't arrive. This one changes nothing: it makes sure that the other can't arrive any more.", d.to)}
	marker := pack.Add(git.KindCommit, r.opt.Verify.Sign(r.encode(root, d.from, w)))
	if err := pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
		return err
	}
	r.maint.packs.Add(1)
	outcome, err := r.sendNext(ctx, marker, d.from)
	if outcome == pushTaken {
		return nil
	}
	// The doubt is still the former commit's.
	return errors.Join(err, r.sent.keep(d.to, d.from))
}

// sendNext pushes once, as soon as the next push may begin. Where the repository closes before,
// nothing is known.
func (r *Repo) sendNext(ctx context.Context, to, from string) (pushOutcome, error) {
	k, err := r.pace.wait(r.ctx)
	if err != nil {
		return pushUnknown, err
	}
	defer k.end(true)
	return r.send(ctx, to, from, rest{})
}

// followResolved brings the mirror to where the remote is. What Jibe itself has committed was
// judged before. Commits of others that can't be followed are no doubt: pull says so in Health.
func (r *Repo) followResolved(ctx context.Context, d *doubtError, landed bool) error {
	if landed {
		if err := r.followOwn(ctx, d.to, d.from); err != nil {
			return err
		}
	}
	_ = r.pull(ctx)
	return nil
}

// followOwn moves the mirror to a commit that the remote has taken.
func (r *Repo) followOwn(ctx context.Context, to, from string) error {
	if err := r.breakLocks(); err != nil {
		return err
	}
	r.move.Lock()
	defer r.move.Unlock()
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	if err != nil {
		return err
	}
	if head == from {
		if err := r.refs.Move(ctx, r.read.Ref(), to, from); err != nil {
			return err
		}
	}
	r.accept(ctx, to, false)
	return r.refreshLocked(ctx)
}

// settleLeft settles the doubt that a former process left. Nobody waits for that write any
// more: if it didn't get to the remote, it is given up.
func (r *Repo) settleLeft(ctx context.Context) {
	d := r.sent.claim()
	if d == nil {
		return
	}
	landed, err := r.ascertain(ctx, d, false)
	if err == nil {
		err = r.followResolved(ctx, d, landed)
	}
	r.sent.close(err == nil)
	if err != nil {
		r.log.Warn("the outcome of the last process's push isn't known yet", "revision", d.to, "error", err)
		return
	}
	r.log.Info("the outcome of the last process's push is known", "revision", d.to, "taken", landed)
}

// pushRecord is the file that says which push is under way. It is written in place, as it is
// written before each push.
type pushRecord struct {
	name string

	mu       sync.Mutex
	former   *doubtError // of this process, or one before it
	settling bool        // somebody is at it
}

// keep makes durable that a push begins.
func (p *pushRecord) keep(to, from string) error {
	if from == "" {
		from = git.ZeroHash
	}
	f, err := os.OpenFile(p.name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("record a push: %w", err)
	}
	_, err = f.WriteAt([]byte(to+" "+from+"\n"), 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("record a push: %w", err)
	}
	return nil
}

// forget is best effort: a push that is remembered in vain is looked into at the next start.
func (p *pushRecord) forget() { _ = os.Truncate(p.name, 0) }

// recall reads what a former process has left.
func (p *pushRecord) recall() error {
	text, err := os.ReadFile(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which push was under way: %w", err)
	}
	to, from, ok := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	if !ok || !git.IsHash(to) || !git.IsHash(from) {
		return nil // it was being written: the push hadn't begun
	}
	if from == git.ZeroHash {
		from = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.former = &doubtError{to: to, from: from, err: errors.New("the process ended")}
	return nil
}

// open begins a doubt, which the caller has to settle.
func (p *pushRecord) open(to, from string, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &doubtError{to: to, from: from, err: err}
	p.former, p.settling = d, true
	return d
}

// doubt is the doubt that isn't settled, nil where there is none. Nothing is pushed meanwhile
// but what settles it.
func (p *pushRecord) doubt() *doubtError {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.former
}

// claim returns the doubt for the caller to settle, nil where there is none or somebody is at it.
func (p *pushRecord) claim() *doubtError {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.former == nil || p.settling {
		return nil
	}
	p.settling = true
	return p.former
}

// close ends what open or claim began.
func (p *pushRecord) close(settled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settling = false; settled {
		p.former = nil
		p.forget()
	}
}
