package gitrepo

import (
	"context"
	"fmt"
	"strings"

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
	set := r.settings
	r.mu.RUnlock()
	for _, s := range bad {
		file := s.rev.Dir + "/" + desired.InstanceFile
		err := r.eachCommit(ctx, head, []string{file}, func(commit, root string) (bool, error) {
			e, ok, err := r.lookupPath(ctx, root, s.rev.Dir)
			if err != nil || !ok || !e.isDir() {
				return false, err
			}
			rev := desired.Revision{Dir: s.rev.Dir, Commit: commit, Tree: e.hash}
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
	if set.err == nil || set.good != nil {
		return nil
	}
	return r.eachCommit(ctx, head, []string{desired.VIMDir, desired.RepositoriesFile}, func(_, root string) (bool, error) {
		good, err := r.Reader.settings(ctx, root)
		if err != nil {
			return false, nil //nolint:nilerr // not good ones either
		}
		r.mu.Lock()
		r.settings.good = good
		r.mu.Unlock()
		return true, nil
	})
}

// eachCommit calls fn for the commits that touched the paths, newest first,
// until it says that it is done.
func (r *Repo) eachCommit(ctx context.Context, head string, paths []string, fn func(commit, root string) (bool, error)) error {
	out, err := r.git.run(ctx, append([]string{"--literal-pathspecs", "log", fmt.Sprintf("-n%d", maxHistory), "--format=%H %T", head, "--"}, paths...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		commit, root, _ := strings.Cut(strings.TrimSpace(line), " ")
		if done, err := fn(commit, root); done || err != nil {
			return err
		}
	}
	return nil
}
