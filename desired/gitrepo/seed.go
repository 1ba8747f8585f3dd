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
	for turn := range maxTurns {
		err := r.trySeed(ctx, files, subject)
		if !errors.Is(err, errRefMoved) && !errors.Is(err, errRefLocked) {
			if err != nil {
				return fmt.Errorf("write the first files of the desired repository: %w", err)
			}
			return nil
		}
		if err := wait(ctx, turnDelay(turn)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: branch %s moves too fast", desired.ErrUnavailable, r.opt.Branch)
}

func (r *Repo) trySeed(ctx context.Context, files map[string][]byte, subject string) error {
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
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if err := checkPath(p); err != nil {
			return err
		}
		e, found, err := ed.entryAt(p)
		if err != nil {
			return err
		}
		if found && !e.isFile() {
			return fmt.Errorf("%s is a folder", p)
		}
		if !found {
			e.mode = modeFile
		}
		if hash := hashHex(kindBlob, files[p]); hash == e.hash {
			continue
		}
		e.hash = ed.pack.add(kindBlob, files[p])
		if err := ed.splice(p, e); err != nil {
			return err
		}
	}
	if ed.root == root {
		return nil
	}
	commit := ed.pack.add(kindCommit, encodeCommit(ed.root, head, "", r.opt.Author, r.opt.Now(), oneLine(subject)+"\n"))
	if err := r.land(ctx, ed.pack, commit, head); err != nil {
		return err
	}
	return r.refreshLocked(ctx)
}
