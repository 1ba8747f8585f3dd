package gitrepo

import (
	"context"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// recoverInstances finds, after a start, the last good revision of instances that can't be
// parsed at head. Otherwise a restart would remove a running instance from the desired state
// because of a typing error.
func (r *Repo) recoverInstances(ctx context.Context) error {
	r.mu.RLock()
	head, bad := r.head, make([]*read.Slot, 0, r.index.Bad.Len())
	for _, s := range r.index.Bad.All() {
		if s.Rev.Instance == "" && !read.IsTooDeep(s.Rev.Dir) {
			bad = append(bad, s)
		}
	}
	r.mu.RUnlock()
	for _, s := range bad {
		file := s.Rev.Dir + "/" + desired.InstanceFile
		err := r.read.EachCommit(ctx, head, []string{file}, func(c read.PastCommit) (bool, error) {
			e, ok, err := r.read.LookupPath(ctx, c.Root, s.Rev.Dir)
			if err != nil || !ok || !e.IsDir() {
				return true, err // the instance before that was another one
			}
			rev := desired.Revision{Dir: s.Rev.Dir, Commit: c.Hash, Tree: e.Hash}
			if _, ok, err := r.read.LookupPath(ctx, e.Hash, desired.InstanceFile); err != nil {
				return false, err
			} else if !ok {
				odd, err := r.read.WasMisnamed(ctx, s.Rev.Dir, e.Hash, c)
				return !odd, err
			}
			in, err := r.read.Read(ctx, rev)
			if err != nil {
				return false, nil //nolint:nilerr // not a good one either
			}
			rev.Instance = in.ID
			good := read.SlotOf(rev, in)
			good.Problems, good.Clashes = s.Problems, s.Clashes
			r.mu.Lock()
			r.index.Put(good)
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
