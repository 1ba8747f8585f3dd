package gitrepo

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// reviewLocked finds anew which settings count, after a change by which instances may need
// fewer.
func (r *Repo) reviewLocked(ctx context.Context) error {
	r.mu.RLock()
	root, was := r.root, r.settings
	r.mu.RUnlock()
	if !was.Held {
		return nil
	}
	set, err := r.read.ReadSettings(ctx, root, was, read.Instances{List: r.List, Before: r.Lookup, Needed: r.opt.NeededRepositories})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.settings = set
	r.mu.Unlock()
	if set.Good != was.Good {
		r.notify(nil, true)
	}
	return nil
}

// ReviewSettings looks again at the settings that count although head lacks them, after the
// package repositories were asked. Those that no instance needs any more stop to count.
func (r *Repo) ReviewSettings(ctx context.Context) error {
	r.move.Lock()
	defer r.move.Unlock()
	return r.reviewLocked(ctx)
}
