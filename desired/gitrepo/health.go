package gitrepo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// healthKind is a part of the repository that is well or not.
type healthKind int

const (
	healthRef    healthKind = iota // the branch can be read
	healthRemote                   // the remote answers and hasn't been rewritten
	healthRepack
	healthMaintenance // of large packs, and of the commit-graph
)

// healthRepeat is how often a reason that lasts is logged.
const healthRepeat = 5 * time.Minute

type healthError struct {
	kind   healthKind
	err    error
	logged time.Time
}

func (e *healthError) Error() string { return e.err.Error() }
func (e *healthError) Unwrap() error { return e.err }

// follows says whether the index is at the commit, and nothing else is wrong with the branch.
func (r *Repo) follows(commit string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return commit == r.head && r.illness(healthRef) == nil
}

// illness is what is wrong with a part, nil for nothing. r.mu is held.
func (r *Repo) illness(kind healthKind) *healthError {
	for _, e := range r.ills {
		if e.kind == kind {
			return e
		}
	}
	return nil
}

// Health is nil while the branch is followed, else the reason why it isn't. Meanwhile the
// state that was read last stands.
func (r *Repo) Health() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	errs := make([]error, len(r.ills))
	for i, e := range r.ills {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// setHealth says what is wrong with a part, nil for nothing. It stands until the part is said
// to be well.
func (r *Repo) setHealth(kind healthKind, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.illness(kind)
	r.ills = slices.DeleteFunc(r.ills, func(e *healthError) bool { return e.kind == kind })
	switch {
	case err != nil:
		now := &healthError{kind: kind, err: err, logged: time.Now()}
		if was != nil && was.Error() == err.Error() && time.Since(was.logged) < healthRepeat {
			now.logged = was.logged
		} else {
			r.log.Error("desired repository", "error", err)
		}
		r.ills = append(r.ills, now)
	case was != nil:
		r.log.Info("the desired repository is well again", "error", was.err)
	}
}

// Probe finds out whether the repository can be written, by writing size bytes to the
// disk that nobody reads, and removing them again.
func (r *Repo) Probe(size int) error {
	name := filepath.Join(ownDir(r.opt.Dir), git.TmpPrefix+"probe")
	err := git.WriteSynced(name, make([]byte, size))
	if gone := os.Remove(name); err == nil {
		err = gone
	}
	if err != nil {
		return fmt.Errorf("%w: the desired repository can't be written: %w", desired.ErrUnavailable, err)
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
