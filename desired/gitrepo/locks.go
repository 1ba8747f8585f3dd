package gitrepo

import (
	"errors"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// breakLocks removes stale locks of the branch and of the notes, and logs which.
func (r *Repo) breakLocks() error {
	var broken []string
	var errs []error
	for _, ref := range []string{r.ref(), notesRef} {
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
