package gitrepo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/archive"
	"github.com/jibe-vnfm/jibe/internal/git"
)

const (
	// provenBytes bounds the memory of what was proved, and provenSize is what a fact takes of it: enough for 250,000
	// instances.
	provenBytes = 16 << 20
	provenSize  = 64
)

// Prove implements [desired.Repo].
//
// Content that an instance once had on the branch is a fact that never changes, so that it is proved once. What head has
// needs no search: an instance whose record agrees with git costs a look-up.
func (r *Repo) Prove(ctx context.Context, rev desired.Revision, proposal string, judge func(*desired.Instance) error) error {
	if rev.Tree == "" {
		return nil
	}
	key := provenKey(rev)
	if _, known := r.proven.Get(key); known {
		return nil
	}

	if now, exists := r.Lookup(rev.Instance); !exists || now.Dir != rev.Dir || now.Tree != rev.Tree {
		ran, err := r.proves(ctx, rev, proposal, judge)
		if errors.As(err, new(*desired.UnprovenError)) {
			ran, err = r.provesOnceKnown(ctx, rev, proposal, judge, err)
		}
		if err != nil || !ran {
			return err
		}
	}
	r.proven.Add(key, struct{}{}, provenSize)

	return nil
}

// provenKey names the fact that an instance had a content in a directory. The commit is not a part of it.
func provenKey(rev desired.Revision) string {
	h := sha256.New()
	for _, part := range []string{rev.Instance, rev.Dir, rev.Tree} {
		_, _ = io.WriteString(h, part+"\x00")
	}

	return string(h.Sum(nil)[:16])
}

// proves reads the proof from git. ran is false for a revision that is good although it was never in effect: it is proposed,
// or it was judged by the rules of now.
func (r *Repo) proves(ctx context.Context, rev desired.Revision, proposal string, judge func(*desired.Instance) error) (ran bool, err error) {
	unproven := &desired.UnprovenError{Revision: rev}
	if !git.IsHash(rev.Commit) {
		return false, unproven
	}
	if kept, err := r.keptByCut(ctx, rev); err != nil || kept {
		return kept, err
	}
	data, err := r.read.Objects.Get(ctx, git.KindCommit, rev.Commit)
	missing := errors.Is(err, git.ErrMissing)
	switch {
	case missing && proposal != "":
		return false, fmt.Errorf("%w: the proposed commit %s isn't here yet", desired.ErrUnavailable, rev.Commit) // another replica has made it
	case missing:
		return false, unproven
	case err != nil:
		return false, r.read.Damaged("commit "+rev.Commit, err)
	}
	own, sealed := r.ownCommit(rev.Commit, data)
	if sealed && proposal != "" && own.Trailers[desired.TrailerOperation] == proposal &&
		own.After.Instance == rev.Instance && own.After.Dir == rev.Dir && own.After.Tree == rev.Tree {
		return false, nil
	}

	in, had, err := r.instanceAt(ctx, rev)
	if err != nil {
		return false, err
	}
	if !had {
		return false, unproven
	}
	inHistory, err := r.wasFollowed(ctx, rev.Commit)
	if err != nil {
		return false, err
	}
	if !inHistory {
		return false, unproven
	}

	// The commits of one push are judged by the last. Another one may have had any content.
	if r.sealed(data) {
		return true, nil
	}
	push, err := r.notedPush(ctx, rev.Commit)
	if err != nil {
		return false, fmt.Errorf("note of commit %s: %w", rev.Commit, err)
	}
	if push != nil {
		return true, nil
	}
	if err := judge(in); err != nil {
		return false, err
	}

	return false, nil
}

// provesOnceKnown proves a revision again that wasn't proved for a reason: another process may have made its commit, which
// came here meanwhile or still has to come.
func (r *Repo) provesOnceKnown(ctx context.Context, rev desired.Revision, proposal string, judge func(*desired.Instance) error, reason error) (bool, error) {
	if !git.IsHash(rev.Commit) {
		return false, reason
	}
	known, err := r.Knows(ctx, rev.Commit)
	if err != nil {
		return false, err
	}
	if !known {
		return false, fmt.Errorf("%w: commit %s isn't here yet", desired.ErrUnavailable, rev.Commit)
	}

	return r.proves(ctx, rev, proposal, judge)
}

// instanceAt reads the instance of a revision, and reports whether the commit has it there with this content.
func (r *Repo) instanceAt(ctx context.Context, rev desired.Revision) (*desired.Instance, bool, error) {
	had, err := r.hasTree(ctx, rev.Commit, rev)
	if errors.Is(err, git.ErrMissing) {
		return nil, false, nil // a history that was cut
	}
	if err != nil || !had {
		return nil, false, err
	}
	in, err := r.Read(ctx, rev)
	if err != nil {
		return nil, false, err
	}

	return in, in.ID == rev.Instance, nil
}

// wasFollowed reports whether a commit is in the history that is in effect, or in one that was before a person accepted
// another.
func (r *Repo) wasFollowed(ctx context.Context, commit string) (bool, error) {
	if is, err := r.contains(ctx, commit); err != nil || is {
		return is, err
	}
	out, err := r.read.Git.Run(ctx, "for-each-ref", "--count=1", "--format=%(refname)", "--contains="+commit, archive.FormerRefs)
	if err != nil {
		return false, fmt.Errorf("%w: look for commit %s in former histories: %w", desired.ErrUnavailable, commit, err)
	}

	return out != "", nil
}

// keptByCut reports whether the directory is one that [Cut] has kept. It keeps only what was proved.
func (r *Repo) keptByCut(ctx context.Context, rev desired.Revision) (bool, error) {
	at, err := git.ReadRef(r.opt.Dir, archive.KeptRef)
	if err != nil || at == "" || !git.IsHash(rev.Tree) {
		return false, err
	}
	root, err := r.read.RootOf(ctx, at)
	if err != nil {
		return false, err
	}
	e, ok, err := r.read.LookupPath(ctx, root, archive.KeptPath(rev.Tree))
	if err != nil || !ok || e.Hash != rev.Tree {
		return false, err
	}
	in, err := r.Read(ctx, rev)

	return err == nil && in.ID == rev.Instance, err
}

// keepFormer pins the commit that is in effect where the next one doesn't contain it. It is called before the branch moves.
func (r *Repo) keepFormer(ctx context.Context, was, next string) error {
	if was == "" || next == "" || was == next {
		return nil
	}
	if follows, err := r.followsOn(ctx, was, next); err != nil || follows {
		return err
	}
	if _, err := r.read.Git.Run(ctx, "update-ref", archive.FormerRefs+was, was); err != nil {
		return fmt.Errorf("%w: keep the history that was in effect: %w", desired.ErrUnavailable, err)
	}

	return nil
}

// keepFormerOfStart is keepFormer where a flag of the start accepts a local branch that was set back. The commit that was in
// effect may be gone.
func (r *Repo) keepFormerOfStart(ctx context.Context) error {
	if r.opt.AcceptHead == "" || r.opt.Remote != "" {
		return nil
	}
	was := r.accepted(ctx)
	if _, err := r.read.Commit(ctx, was); was == "" || err != nil {
		return nil //nolint:nilerr // nothing is left to keep
	}

	return r.keepFormer(ctx, was, r.opt.AcceptHead)
}
