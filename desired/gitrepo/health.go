package gitrepo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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

type healthError struct {
	kind healthKind
	err  error
}

func (e *healthError) Error() string { return e.err.Error() }
func (e *healthError) Unwrap() error { return e.err }

// Health is nil while the branch is followed, else the reason why it isn't. Meanwhile the
// state that was read last stands.
func (r *Repo) Health() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.health
}

func (r *Repo) setHealth(kind healthKind, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []error
	was := ""
	if joined, ok := r.health.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if he, ok := errors.AsType[*healthError](e); ok && he.kind == kind {
				was = he.Error()
				continue
			}
			kept = append(kept, e)
		}
	}
	if err != nil {
		kept = append(kept, &healthError{kind, err})
		if was != err.Error() {
			r.log.Error("desired repository", "error", err)
		}
	}
	r.health = errors.Join(kept...)
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
