package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// fetchedProposal is where the remote's branch that a proposal continues is fetched to.
const fetchedProposal = "refs/jibe/remote/proposed"

// Propose makes one commit on the directory of an instance, as [Repo.Write] does, but on
// another branch than the one that is followed: for a pull request. A branch that doesn't
// exist, or whose commits head has already, begins anew at head. Otherwise head is merged into
// it, and the commit goes on top. With a remote it is the remote's branch.
//
// Change receives the directory as the branch has it, or head's where the branch has none. If
// it changes nothing, nothing is written and the branch isn't made. It runs again when
// somebody else moved the branch. The result is the directory on the branch.
func (r *Repo) Propose(ctx context.Context, branch string, w desired.Write) (desired.Revision, error) {
	if w.Instance == "" || w.Change == nil || message.Line(w.Subject) == "" {
		return desired.Revision{}, fmt.Errorf("propose a change of instance %q: the instance, a change and a subject are needed", w.Instance)
	}
	ref := "refs/heads/" + branch
	if ref == r.read.Ref() {
		return desired.Revision{}, fmt.Errorf("propose a change of instance %s: %s is the branch that runs", w.Instance, branch)
	}
	if ok, err := r.canBe(ctx, ref); err != nil {
		return desired.Revision{}, fmt.Errorf("propose on branch %s: %w", branch, err)
	} else if !ok {
		return desired.Revision{}, fmt.Errorf("propose a change of instance %s: %q can't be a branch", w.Instance, message.Clip(branch))
	}
	var last error
	for turn := range maxTurns {
		k, err := r.nextPush(ctx)
		if err != nil {
			return desired.Revision{}, fmt.Errorf("propose on branch %s: %w: wait for the next push: %w", branch, desired.ErrUnavailable, err)
		}
		rev, err := r.tryPropose(ctx, ref, w, k)
		k.end(false)
		if !errors.Is(err, git.ErrRefMoved) && !errors.Is(err, git.ErrRefLocked) {
			if err != nil {
				err = fmt.Errorf("propose on branch %s: %w", branch, err)
			}
			return rev, err
		}
		last = err
		if errors.Is(err, git.ErrRefLocked) {
			if _, err := git.BreakStaleLocks(r.opt.Dir, ref); err != nil {
				return desired.Revision{}, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
			}
		}
		if err := wait(ctx, turnDelay(turn)); err != nil {
			return desired.Revision{}, err
		}
	}
	return desired.Revision{}, fmt.Errorf("%w: branch %s moves too fast, or stays locked: %w", desired.ErrUnavailable, branch, last)
}

func (r *Repo) tryPropose(ctx context.Context, ref string, w desired.Write, k permit) (desired.Revision, error) {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.refreshLocked(ctx); err != nil {
		return desired.Revision{}, err
	}
	if err := r.writable(); err != nil {
		return desired.Revision{}, err
	}
	head, ok := r.Lookup(w.Instance)
	if !ok {
		return desired.Revision{}, fmt.Errorf("%w: instance %s", desired.ErrNotFound, w.Instance)
	}
	tip, parent, err := r.proposed(ctx, ref)
	if err != nil {
		return desired.Revision{}, err
	}
	b, rev, err := r.buildProposal(ctx, head, parent, w)
	if err != nil || b.commits == 0 {
		return rev, err
	}
	if current, err := r.withHead(ctx, parent); err != nil {
		return desired.Revision{}, err
	} else if current != parent {
		if b, rev, err = r.buildProposal(ctx, head, current, w); err != nil || b.commits == 0 {
			return rev, err
		}
	}
	if err := b.Pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
		return desired.Revision{}, fmt.Errorf("%w: write the objects of %s: %w", desired.ErrUnavailable, rev.Commit, err)
	}
	r.maint.packs.Add(1)
	if r.opt.Remote != "" {
		defer k.end(true)
		return rev, r.pushProposed(ctx, ref, rev.Commit, tip)
	}
	return rev, r.refs.Move(ctx, ref, rev.Commit, tip)
}

// buildProposal makes the commit on top of parent; the batch has none where nothing
// is to be changed.
func (r *Repo) buildProposal(ctx context.Context, head desired.Revision, parent string, w desired.Write) (*batch, desired.Revision, error) {
	root, err := r.read.RootOf(ctx, parent)
	if err != nil {
		return nil, desired.Revision{}, err
	}
	b := &batch{TreeEditor: r.read.EditTrees(ctx, root, nil, git.NewPack()), r: r, ctx: ctx, parent: parent}
	at := desired.Revision{Instance: w.Instance, Dir: head.Dir, Commit: parent, Tree: head.Tree}
	e, found, err := b.EntryAt(head.Dir)
	switch {
	case err != nil:
		return nil, desired.Revision{}, err
	case found && e.IsDir():
		at.Tree = e.Hash
	}
	old, entries, err := r.read.ReadFiles(ctx, at.Tree)
	if err != nil {
		return nil, desired.Revision{}, r.read.Damaged(head.Dir+" at "+parent, err)
	}
	files, err := w.Change(at, old)
	if err != nil {
		return nil, desired.Revision{}, err
	}
	if err := checkFiles(head.Dir, files); err != nil {
		return nil, desired.Revision{}, err
	}
	next := at
	if next.Tree = b.addDir(files, old, entries); next.Tree == at.Tree {
		return b, at, nil
	}
	in, err := r.read.Parse(head.Dir, next.Tree, files[desired.InstanceFile])
	if err != nil {
		return nil, desired.Revision{}, err
	}
	if in.ID != w.Instance {
		return nil, desired.Revision{}, fmt.Errorf("%s would have the id %s, not %s (an instance keeps its id)", head.Dir, in.ID, w.Instance)
	}
	b.Forget(head.Dir)
	if err := b.Set(head.Dir, git.Entry{Mode: git.ModeDir, Hash: next.Tree}); err != nil {
		return nil, desired.Revision{}, err
	}
	if asks(w) && len(r.opt.Key) > 0 {
		w.Trailers = append(slices.Clip(w.Trailers), revisionOf(at, next))
	}
	next.Commit = b.commit(r.encode(b.Root(), parent, w))
	return b, next, nil
}

// withHead returns the commit with head merged into it, so that a branch that is behind
// proposes nothing but its own change. Where they conflict, or this git can't merge without a
// work tree (before 2.38), it returns the commit itself: whoever merges the branch settles it.
func (r *Repo) withHead(ctx context.Context, commit string) (string, error) {
	head := r.Head()
	if has, err := r.read.IsAncestor(ctx, head, commit); err != nil || has {
		return commit, err
	}
	out, err := r.read.Git.Run(ctx, "merge-tree", "--write-tree", "--no-messages", commit, head)
	if err != nil {
		return commit, ctx.Err()
	}
	name, mail, _ := strings.Cut(strings.TrimSuffix(git.Ident(r.opt.Author, r.opt.Author), ">"), " <")
	merged, err := r.read.Git.Run(ctx, "-c", "user.name="+name, "-c", "user.email="+mail,
		"commit-tree", strings.TrimSpace(out), "-p", commit, "-p", head, "-m", "Merge "+r.opt.Branch)
	if err != nil {
		return "", fmt.Errorf("%w: merge %s: %w", desired.ErrUnavailable, r.opt.Branch, err)
	}
	return strings.TrimSpace(merged), nil
}

// proposed returns where the branch is, "" for nowhere, and the commit on which its next one
// stands.
func (r *Repo) proposed(ctx context.Context, ref string) (tip, parent string, err error) {
	if r.opt.Remote == "" {
		tip, err = git.ReadRef(r.opt.Dir, ref)
	} else if tip, err = r.remoteRef(ctx, ref); tip != "" && err == nil {
		tip, err = r.fetch(ctx, ref, fetchedProposal, r.opt.remoteTimeout)
	}
	if err != nil || tip == "" {
		return tip, r.Head(), err
	}
	done, err := r.read.IsAncestor(ctx, tip, r.Head())
	if err != nil || done {
		return tip, r.Head(), err
	}
	return tip, tip, nil
}

// pushProposed moves the remote's branch, or not at all: errRefMoved means that
// somebody else did.
func (r *Repo) pushProposed(ctx context.Context, ref, to, from string) error {
	ctx, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	args := []string{"push", "--quiet", "--porcelain", "--no-verify", "--force-with-lease=" + ref + ":" + from}
	for _, o := range r.opt.PushOptions {
		args = append(args, "--push-option="+o)
	}
	out, perr := r.read.Git.Run(ctx, append(args, "--", r.opt.Remote, to+":"+ref)...)
	if perr == nil {
		return nil
	}
	now, err := r.remoteRef(ctx, ref)
	switch {
	case err != nil:
		return fmt.Errorf("%w: push: %w; whether the remote took it isn't known until it answers", desired.ErrUnavailable, perr)
	case now == to:
		return nil
	case now == from && reportOf(out, ref).overtaken():
		return fmt.Errorf("%w: %w, by somebody else who pushes: %w", desired.ErrUnavailable, git.ErrRefLocked, perr)
	case now == from:
		return fmt.Errorf("%w: push: %w", desired.ErrUnavailable, perr)
	}
	return fmt.Errorf("%w: %s is at %s", git.ErrRefMoved, ref, now)
}

// canBe says whether there can be a ref of that name. An error says that ctx has ended before that was known.
func (r *Repo) canBe(ctx context.Context, ref string) (bool, error) {
	_, err := r.read.Git.Run(ctx, "check-ref-format", ref)
	if err != nil && ctx.Err() != nil {
		return false, fmt.Errorf("%w: %w", desired.ErrUnavailable, ctx.Err())
	}
	return err == nil, nil
}
