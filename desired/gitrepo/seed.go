package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// Seed commits files of any path: what a new desired repository starts with. It
// is for the first start and for tests; instances are written with [Repo.Write].
// Files of the same path are replaced, others stay; where nothing differs, no
// commit is made. It returns when the commit is durable.
func (r *Repo) Seed(ctx context.Context, files map[string][]byte, subject string) error {
	err := r.writeFiles(ctx, oneLine(subject)+"\n", func(ed *treeEditor) error {
		for _, p := range slices.Sorted(maps.Keys(files)) {
			if err := ed.setFile(p, files[p]); err != nil {
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

// WriteVIM commits a change of vims/<name>.yaml. change is given what the file holds, nil
// where there is none, and returns what it shall, nil to remove it; it runs again where
// somebody else was faster. Where nothing differs, no commit is made. It returns when the
// commit is durable and the settings are the new ones.
func (r *Repo) WriteVIM(ctx context.Context, name, subject string, trailers []desired.Trailer, change func(now []byte) ([]byte, error)) error {
	file := desired.VIMFile(name)
	return r.writeFiles(ctx, message(desired.Write{Subject: subject, Trailers: trailers}), func(ed *treeEditor) error {
		e, found, err := ed.entryAt(file)
		if err != nil {
			return err
		}
		var now []byte
		if found && e.isFile() {
			if now, err = r.objects.get(ctx, kindBlob, e.hash); err != nil {
				return fmt.Errorf("%w: %w", desired.ErrUnavailable, r.damaged(file, err))
			}
		}
		next, err := change(now)
		switch {
		case err != nil:
			return err
		case next != nil:
			return ed.setFile(file, next)
		case found:
			return ed.splice(file, entry{})
		}
		return nil
	})
}

// setFile puts a file at a path.
func (b *treeEditor) setFile(p string, data []byte) error {
	if err := checkPath(p); err != nil {
		return err
	}
	e, found, err := b.entryAt(p)
	if err != nil {
		return err
	}
	if found && !e.isFile() {
		return fmt.Errorf("%s is a folder", p)
	}
	if !found {
		e.mode = modeFile
	}
	if hash := hashHex(kindBlob, data); hash == e.hash {
		return nil
	}
	e.hash = b.pack.add(kindBlob, data)
	return b.splice(p, e)
}

// writeFiles commits an edit of files that are no instance's. edit runs again where the
// branch has moved meanwhile.
func (r *Repo) writeFiles(ctx context.Context, message string, edit func(ed *treeEditor) error) error {
	for turn := range maxTurns {
		err := r.tryFiles(ctx, message, edit)
		if !errors.Is(err, errRefMoved) && !errors.Is(err, errRefLocked) {
			return err
		}
		if errors.Is(err, errRefLocked) {
			if err := r.breakLocks(); err != nil {
				return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
			}
		}
		if err := wait(ctx, turnDelay(turn)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: branch %s moves too fast", desired.ErrUnavailable, r.opt.Branch)
}

func (r *Repo) tryFiles(ctx context.Context, message string, edit func(ed *treeEditor) error) error {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.refreshLocked(ctx); err != nil {
		return err
	}
	if err := r.writable(); err != nil {
		return err
	}
	r.mu.RLock()
	head, root := r.head, r.root
	r.mu.RUnlock()
	ed := newTreeEditor(ctx, r.Reader, root, nil, newPackBuilder())
	if err := edit(ed); err != nil {
		return err
	}
	if ed.root == root {
		return nil
	}
	commit := ed.pack.add(kindCommit, encodeCommit(ed.root, head, "", r.opt.Author, r.opt.Now(), message))
	if err := r.land(ctx, ed.pack, commit, head); err != nil {
		return err
	}
	return r.refreshLocked(ctx)
}
