package gitrepo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// healthKind is a part of the repository that is well or not.
type healthKind int

const (
	healthRef    healthKind = iota // the branch can be read
	healthRemote                   // the remote answers and hasn't been rewritten
	healthPush                     // the remote takes Jibe's commits
	healthRepack
	healthMaintenance // of large packs, and of the commit-graph
)

// refusedFor is how long a refusal of the remote counts, unless a push is taken before. What Jibe has to commit is tried
// again more often; where nothing is left to commit, nothing would show that pushes are taken again.
const refusedFor = 5 * time.Minute

// healthRepeat is how often a reason that lasts is logged.
const healthRepeat = 5 * time.Minute

type healthError struct {
	kind   healthKind
	err    error
	at     time.Time
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
	errs := make([]error, 0, len(r.ills))
	for _, e := range r.ills {
		if e.kind != healthPush || time.Since(e.at) < refusedFor {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// Stale returns why head may be behind the branch, nil while the branch is followed. A remote that only refuses pushes is
// followed.
func (r *Repo) Stale() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var errs []error
	for _, kind := range []healthKind{healthRef, healthRemote} {
		if e := r.illness(kind); e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// RefusesPushes returns why the remote refused a commit of this process lately, and took none since; nil if it didn't.
func (r *Repo) RefusesPushes() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.illness(healthPush); e != nil && time.Since(e.at) < refusedFor {
		return e
	}
	return nil
}

// refusedPushes returns the problem of a remote that refuses commits, none if it takes them. r.mu is held.
func (r *Repo) refusedPushes() []*desired.Problem {
	e := r.illness(healthPush)
	if e == nil || time.Since(e.at) >= refusedFor {
		return nil
	}
	return []*desired.Problem{{File: r.read.Ref(), Message: e.Error(),
		Remedy: "have the forge let Jibe's account push to the branch (a protected branch names who may); requests are refused until then, and what Jibe has to commit is tried again"}}
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
		now := &healthError{kind: kind, err: err, at: time.Now(), logged: time.Now()}
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
	name := filepath.Join(objects.OwnDir(r.opt.Dir), git.TmpPrefix+"probe")
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
