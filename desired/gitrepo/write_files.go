package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Seed commits files of any path: the first content of a new desired repository. It is for the
// first start and for tests; instances are written with [Repo.Write]. It replaces files of the
// same path and keeps others; if nothing differs, no commit is made. It returns when the
// commit is durable.
func (r *Repo) Seed(ctx context.Context, files map[string][]byte, subject string) error {
	_, err := r.writeFiles(ctx, desired.Write{Subject: subject}, func(ed *git.TreeEditor) error {
		for _, p := range slices.Sorted(maps.Keys(files)) {
			if err := setFile(ed, p, files[p]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the first files of the desired repository: %w", err)
	}
	return nil
}

// WriteVIM commits a change of vims/<name>.yaml. change receives the content of the file, nil
// where there is none, and returns the new content, nil to remove the file. It runs again
// where somebody else was faster. If nothing differs, no commit is made. WriteVIM returns when
// the commit is durable and the settings are the new ones, with the commit, "" for none.
func (r *Repo) WriteVIM(ctx context.Context, name, subject string, trailers []desired.Trailer, change func(now []byte) ([]byte, error)) (commit string, err error) {
	file := desired.VIMFile(name)
	return r.writeFiles(ctx, desired.Write{Subject: subject, Trailers: trailers}, func(ed *git.TreeEditor) error {
		e, found, err := ed.EntryAt(file)
		if err != nil {
			return err
		}
		var now []byte
		if found && e.IsFile() {
			if now, err = r.read.Objects.Get(ctx, git.KindBlob, e.Hash); err != nil {
				return fmt.Errorf("%w: %w", desired.ErrUnavailable, r.read.Damaged(file, err))
			}
		}
		next, err := change(now)
		switch {
		case err != nil:
			return err
		case next != nil:
			return setFile(ed, file, next)
		case found:
			return ed.Set(file, git.Entry{})
		}
		return nil
	})
}

// setFile puts a file at a path.
func setFile(ed *git.TreeEditor, p string, data []byte) error {
	if err := check.CheckPath(p); err != nil {
		return err
	}
	e, found, err := ed.EntryAt(p)
	if err != nil {
		return err
	}
	if found && !e.IsFile() {
		return fmt.Errorf("%s is a folder", p)
	}
	if !found {
		e.Mode = git.ModeFile
	}
	if hash := git.HashObject(git.KindBlob, data); hash == e.Hash {
		return nil
	}
	e.Hash = ed.Pack.Add(git.KindBlob, data)
	return ed.Set(p, e)
}

// writeFiles commits an edit of files outside of instances. edit runs again where the branch
// has moved meanwhile.
func (r *Repo) writeFiles(ctx context.Context, w desired.Write, edit func(ed *git.TreeEditor) error) (commit string, err error) {
	for n := range maxTurns {
		k, err := r.nextPush(ctx)
		if err != nil {
			return "", fmt.Errorf("%w: wait for the next push: %w", desired.ErrUnavailable, err)
		}
		commit, err := r.tryFiles(ctx, w, edit, r.restOfRound(ctx, n), k)
		k.end(false)
		if d, ok := errors.AsType[*doubtError](err); ok {
			commit, err = d.to, r.settle(ctx, d, turn{})
		}
		if !errors.Is(err, git.ErrRefMoved) && !errors.Is(err, git.ErrRefLocked) {
			return commit, err
		}
		if errors.Is(err, git.ErrRefLocked) {
			if err := r.breakLocks(); err != nil {
				return "", fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
			}
			if err := wait(ctx, turnDelay(n)); err != nil {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("%w: branch %s moves too fast", desired.ErrUnavailable, r.opt.Branch)
}

func (r *Repo) tryFiles(ctx context.Context, w desired.Write, edit func(ed *git.TreeEditor) error, with rest, k permit) (commit string, err error) {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.refreshLocked(ctx); err != nil {
		return "", err
	}
	if err := r.writable(); err != nil {
		return "", err
	}
	r.mu.RLock()
	head, root := r.head, r.root
	r.mu.RUnlock()
	ed := r.read.EditTrees(ctx, root, nil, git.NewPack())
	if err := edit(ed); err != nil {
		return "", err
	}
	if ed.Root() == root {
		return "", nil
	}
	commit = ed.Pack.Add(git.KindCommit, r.opt.Verify.Sign(r.encode(ed.Root(), head, w)))
	if err := r.land(ctx, ed.Pack, commit, head, with, k); err != nil {
		return "", err
	}
	return commit, r.refreshAccepting(ctx, commit)
}
