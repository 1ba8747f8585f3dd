package gitrepo

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// breakLocks removes stale locks of the branch, of the notes and of Jibe's own refs, such as the pins
// of packages, and logs which.
func (r *Repo) breakLocks() error {
	own, err := lockedBelow(r.opt.Dir, ownRefs)
	var broken []string
	errs := []error{err}
	for _, ref := range append([]string{r.read.Ref(), objects.NotesRef}, own...) {
		names, err := git.BreakStaleLocks(r.opt.Dir, ref)
		broken, errs = append(broken, names...), append(errs, err)
	}
	if len(broken) > 0 {
		r.log.Warn("removed locks that a crash left", "locks", broken)
	}
	return errors.Join(errs...)
}

// keepUnlocked looks for such locks as long as the repository is open: a push meets
// them as well as a write, and has no way to break them.
func (r *Repo) keepUnlocked() {
	for wait(r.ctx, git.StaleLock) == nil {
		if err := r.breakLocks(); err != nil {
			r.log.Warn("a lock that a crash left stands in the way of pushes", "error", err)
		}
	}
}

// ownRefs is the folder of refs that only Jibe moves.
const ownRefs = "refs/jibe"

// lockedBelow returns the refs in a folder of refs that have a lock, of whatever age.
func lockedBelow(gitDir, folder string) (refs []string, err error) {
	err = filepath.WalkDir(filepath.Join(gitDir, filepath.FromSlash(folder)), func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile, or there are none
		}
		if err != nil || e.IsDir() {
			return err
		}
		if ref, locked := strings.CutSuffix(name, ".lock"); locked {
			rel, err := filepath.Rel(gitDir, ref)
			if err != nil {
				return err
			}
			refs = append(refs, filepath.ToSlash(rel))
		}
		return nil
	})
	return refs, err
}
