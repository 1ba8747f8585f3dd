package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/archive"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// ErrMirror is returned for a repository that mirrors the one of a forge: its history is the
// forge's.
var ErrMirror = errors.New("the desired repository is on a forge, and this is a mirror of it")

// CutOptions say how much history stays.
type CutOptions struct {
	// Options are those that the server gives to [Open], without a Remote.
	Options
	// Archive is the path of an archive that [Archive] has just brought up to date.
	Archive string
	// Since keeps the commits of the branch that are not older; the zero time goes by
	// Commits alone.
	Since time.Time
	// Commits is the least number of commits that stay, along the first parents. It is at
	// least 1.
	Commits int
	// Moving are the revisions that operations which haven't ended go by. History stays that
	// begins no later than each.
	Moving []desired.Revision
	// Named are the revisions whose directories must stay readable, besides.
	Named []desired.Revision

	step func(name string) error // see archive.CutOptions.Step
}

// Cut removes the history of the desired repository before a commit. It never changes a commit:
// the repository becomes a shallow one, as git has them, so that hashes, clones, open pull
// requests and the store's records stay valid. Everything is checked first: the archive has what
// the repository has, and nothing at head is held as it was, which a restart knows by the
// history alone. No process may work on the repository. An interruption at any point leaves a
// repository that is whole; a repetition finishes what it began.
func Cut(ctx context.Context, opt CutOptions) (CutReport, error) {
	o := opt.Options.withDefaults()
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return CutReport{}, err
	}
	if err := noMirror(dir); err != nil {
		return CutReport{}, fmt.Errorf("cut the history of %s: %w", dir, err)
	}
	return archive.Cut(ctx, archive.CutOptions{
		Dir: dir, Branch: o.Branch, Author: o.Author, Now: o.Now,
		Archive: opt.Archive, Since: opt.Since, Commits: opt.Commits, Moving: opt.Moving, Named: opt.Named,
		Problems: func(ctx context.Context) ([]*desired.Problem, error) { return notObeyed(ctx, opt.Options) },
		Step:     opt.step,
	})
}

// notObeyed opens the repository, and returns what is not in effect at head.
func notObeyed(ctx context.Context, opt Options) ([]*desired.Problem, error) {
	r, err := Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	problems := slices.Concat(r.index.Problems(), r.settings.Problems)
	r.mu.RUnlock()
	return problems, r.Close()
}

// CutReport says what a cut left.
type CutReport = archive.Report

// noMirror returns [ErrMirror] for the mirror of a repository on a forge.
func noMirror(dir string) error {
	for _, ref := range []string{fetchedRef, aheadRef} {
		if mirrored, err := git.ReadRef(dir, ref); err != nil || mirrored != "" {
			return errors.Join(err, ErrMirror)
		}
	}
	return nil
}

// Settle writes what is to be written into the repository yet: the notes of who pushed, which
// wait in its journal. An archive that is made afterwards has them. No process may work on the
// repository; opt needs the installation's key, as a server's.
func Settle(ctx context.Context, opt Options) error {
	if err := noMirror(opt.Dir); err != nil {
		return err
	}
	r, err := Open(ctx, opt)
	if err != nil {
		return err
	}
	return r.Close()
}

// Archive brings the archive at to up to date: a bare repository that has every commit, note and
// pin of the desired repository at dir, and all that earlier calls brought into it. It is made
// where it doesn't exist. git reads and checks every object that is copied; the archive is
// durable when Archive returns. Archive only reads from dir, so that a server may work on it
// meanwhile, and may be interrupted and repeated at any point.
func Archive(ctx context.Context, dir, to string) error { return archive.Update(ctx, dir, to) }
