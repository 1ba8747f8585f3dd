package packages

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// ErrAway is returned by [Catalogue.Edit] where the git server of the package repository can't be
// reached, or gives no answer. What was asked for may be asked for again: nothing is done twice.
var ErrAway = errors.New("the git server of the package repository is away")

const (
	// pushTries is how often one commit is pushed that the server hasn't, though it gave no reason.
	pushTries = 5
	// pushPause is how long it waits before the first of these is repeated, and so much longer before each other.
	pushPause = 50 * time.Millisecond
	// settleTime is how long the server is asked what came of a push, also where nobody waits for
	// it any more.
	settleTime = 30 * time.Second
)

// remoteBranch is one on a git server. Each commit is made in the catalogue's own store and pushed
// by compare-and-swap: it gets there only on top of the commit that it was made for.
type remoteBranch struct {
	c    *Catalogue
	home desired.Repository
}

func (b remoteBranch) ref() string { return "refs/heads/" + b.home.Branch }

// fetched is the ref that holds the branch as it was fetched last.
func (b remoteBranch) fetched() string { return upstream + b.home.Name + "/heads/" + b.home.Branch }

// at fetches, so that what is decided next is decided on what the server has, and brings the
// catalogue up to date with it.
func (b remoteBranch) at(ctx context.Context) (string, error) {
	err := b.c.fetch(ctx, upstream, []desired.Repository{b.home})
	now, rerr := git.ReadRef(b.c.git.Dir, b.fetched())
	switch _, byGit := errors.AsType[*git.Error](err); {
	case rerr != nil:
		return "", rerr
	case err != nil && strings.Contains(err.Error(), "couldn't find remote ref"):
		if now != "" {
			return "", fmt.Errorf("%w: its branch %s is gone, which was at %s: push it again", ErrReadOnly, b.home.Branch, now)
		}
		return "", nil // an empty repository
	case byGit:
		return "", fmt.Errorf("%w, and nothing was changed: %w", ErrAway, err)
	case err != nil:
		return "", err
	}
	if now != b.c.index.Load().at {
		err = b.read(ctx)
	}
	return now, err
}

func (b remoteBranch) read(ctx context.Context) error {
	b.c.reading.Lock()
	defer b.c.reading.Unlock()
	return b.c.readAll(ctx, b.c.Repositories(), false)
}

func (b remoteBranch) move(ctx context.Context, from, commit string) error {
	// Where this process is killed, the next one removes the ref with those of proposals.
	ref := b.c.proposing + "commit-" + rand.Text()
	defer func() {
		if err := b.c.deleteRefs(context.WithoutCancel(ctx), []string{ref}); err != nil {
			b.c.log.WarnContext(ctx, "the ref of a commit that was pushed is not removed", "ref", ref, "error", err)
		}
	}()
	if err := importCommit(ctx, b.c.workshop(b.home), ref, commit); err != nil {
		return err
	}
	to, err := git.ReadRef(b.c.git.Dir, ref)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		refused, perr := b.send(ctx, from, to)
		if perr == nil {
			return b.landed(ctx, from, to)
		}
		done, err := b.settle(ctx, from, to, perr)
		switch {
		case err != nil:
			return err
		case done:
			return b.landed(ctx, from, to)
		case refused != "":
			return fmt.Errorf("%w: its git server refuses the commit, %s: %w", ErrReadOnly, refused, perr)
		case try == pushTries || ctx.Err() != nil:
			return fmt.Errorf("%w, the commit was not there when it was asked last: %w", ErrAway, perr)
		}
		select { // somebody else may be moving the branch at this moment
		case <-time.After(time.Duration(try) * pushPause):
		case <-ctx.Done():
		}
	}
}

// send pushes once. Where the server itself has refused that, it says why.
func (b remoteBranch) send(ctx context.Context, from, to string) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	url := b.c.location(b.home)
	runner := b.c.git
	runner.Env = append(slices.Clip(runner.Env), "GIT_ALLOW_PROTOCOL="+protocol(url))
	out, err := runner.Run(ctx, "push", "--quiet", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
		"--force-with-lease="+b.ref()+":"+from, "--", url, to+":"+b.ref())
	if err == nil {
		return "", nil
	}
	for line := range strings.Lines(out) {
		if _, why, ok := strings.Cut(strings.TrimSpace(line), "[remote rejected]"); ok && !overtaken(why) {
			refused = strings.Trim(why, " ()")
		}
	}
	return refused, err
}

// overtaken says that a server gives this as its reason where somebody else was moving the branch
// at that moment.
func overtaken(why string) bool {
	return slices.ContainsFunc([]string{"already exists", "failed to update ref", "cannot lock ref", "incorrect old value"}, func(w string) bool { return strings.Contains(why, w) })
}

// settle finds out whether the server has a commit after all, as where a connection broke behind
// the push. Where it hasn't and its branch has moved, a push that is late can't succeed any more.
func (b remoteBranch) settle(ctx context.Context, from, to string, perr error) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	now, err := b.at(ctx)
	if err != nil {
		return false, fmt.Errorf("%w: whether it took commit %s isn't known: %w", ErrAway, to, errors.Join(perr, err))
	}
	done, err = b.c.contains(ctx, to, now)
	if err == nil && !done && now != from {
		err = git.ErrRefMoved
	}
	return done, err
}

// landed takes note here, and with the other replicas, of a commit that the server has.
func (b remoteBranch) landed(ctx context.Context, from, to string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	one, _ := b.c.fetching.LoadOrStore(b.home.Name, &sync.Mutex{})
	one.(*sync.Mutex).Lock()
	// This fails where somebody has fetched it, or more, already.
	_, _ = b.c.git.Run(ctx, "update-ref", b.fetched(), to, cmp.Or(from, git.ZeroHash))
	one.(*sync.Mutex).Unlock()
	if err := b.tell(ctx, from, to); err != nil {
		b.c.log.WarnContext(ctx, "other replicas aren't told of a commit to the package repository, the next fetch does", "repository", b.home.Name, "revision", to, "error", err)
	}
	return nil
}

// tell has the record of the branch's head be this commit, or one that contains it.
func (b remoteBranch) tell(ctx context.Context, from, to string) error {
	head := b.c.head(b.home)
	if head == nil {
		return nil
	}
	if moved, err := head.Move(ctx, from, to); err != nil || moved {
		return err
	}
	for range editAttempts {
		is, err := head.Load(ctx)
		if err != nil {
			return err
		}
		if done, err := b.c.contains(ctx, to, is); err != nil || done {
			return err
		}
		// What is fetched now is at least as new as what the record had before, and is put there.
		if err := b.c.fetch(ctx, upstream, []desired.Repository{b.home}); err != nil {
			return err
		}
	}
	return ErrMoved
}
