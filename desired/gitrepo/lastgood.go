package gitrepo

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
)

// maxHistory bounds how many commits on a file are tried for one that can be parsed.
const maxHistory = 50

// recall finds, after a start, the last good revision of what can't be parsed at
// head: otherwise a restart would make a running instance vanish from the
// desired state because of a typing error.
func (r *Repo) recall(ctx context.Context) error {
	r.mu.RLock()
	head, bad := r.head, make([]*slot, 0, len(r.index.bad))
	for _, s := range r.index.bad {
		if s.rev.Instance == "" {
			bad = append(bad, s)
		}
	}
	r.mu.RUnlock()
	for _, s := range bad {
		file := s.rev.Dir + "/" + desired.InstanceFile
		err := r.eachCommit(ctx, head, []string{file}, func(c pastCommit) (bool, error) {
			e, ok, err := r.lookupPath(ctx, c.root, s.rev.Dir)
			if err != nil || !ok || !e.IsDir() {
				return true, err // what was there before is another life
			}
			rev := desired.Revision{Dir: s.rev.Dir, Commit: c.hash, Tree: e.Hash}
			if _, ok, err := r.lookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
				return false, err
			} else if !ok {
				odd, err := r.wasMisnamed(ctx, s.rev.Dir, e.Hash, c)
				return !odd, err
			}
			in, err := r.Read(ctx, rev)
			if err != nil {
				return false, nil //nolint:nilerr // not a good one either
			}
			rev.Instance = in.ID
			r.mu.Lock()
			r.index.put(&slot{rev: rev, problems: s.problems})
			r.listed = nil
			r.mu.Unlock()
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("look for the last good %s: %w", file, err)
		}
	}
	return nil
}

// maxEarlier bounds how many commits on an instance's file [Repo.Earlier] looks at.
const maxEarlier = 1000

// Earlier implements [desired.Repo].
func (r *Repo) Earlier(ctx context.Context, instance string, fn func(*desired.Instance) bool) error {
	at, ok := r.Lookup(instance)
	if !ok {
		return nil
	}
	err := r.each(ctx, maxEarlier, r.Head(), []string{at.Dir + "/" + desired.InstanceFile}, func(c pastCommit) (bool, error) {
		e, ok, err := r.lookupPath(ctx, c.root, at.Dir)
		if err != nil || !ok || !e.IsDir() {
			return false, err
		}
		in, err := r.Read(ctx, desired.Revision{Instance: instance, Dir: at.Dir, Commit: c.hash, Tree: e.Hash})
		if err != nil || in.ID != instance {
			return false, nil //nolint:nilerr // what couldn't be parsed was never obeyed
		}
		return fn(in), nil
	})
	if err != nil {
		return fmt.Errorf("earlier files of instance %s: %w", instance, err)
	}
	return nil
}
