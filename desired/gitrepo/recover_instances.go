package gitrepo

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
)

// recoverInstances finds, after a start, the last good revision of instances that can't be
// parsed at head. Otherwise a restart would remove a running instance from the desired state
// because of a typing error.
func (r *Repo) recoverInstances(ctx context.Context) error {
	r.mu.RLock()
	head, bad := r.head, make([]*slot, 0, r.index.bad.len())
	for _, s := range r.index.bad.all() {
		if s.rev.Instance == "" && !isTooDeep(s.rev.Dir) {
			bad = append(bad, s)
		}
	}
	r.mu.RUnlock()
	for _, s := range bad {
		file := s.rev.Dir + "/" + desired.InstanceFile
		err := r.eachCommit(ctx, head, []string{file}, func(c pastCommit) (bool, error) {
			e, ok, err := r.lookupPath(ctx, c.root, s.rev.Dir)
			if err != nil || !ok || !e.IsDir() {
				return true, err // the instance before that was another one
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
			good := slotOf(rev, in)
			good.problems, good.clashes = s.problems, s.clashes
			r.mu.Lock()
			r.index.put(good)
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
