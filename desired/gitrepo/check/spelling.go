package check

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// checkSpelling refuses a new instance of which a folder clashes.
func (r *Checker) checkSpelling(ctx context.Context, oldRoot, root string, dirs []read.DirChange) ([]*desired.Problem, error) {
	old, now := r.SpellingAt(oldRoot), r.SpellingAt(root)
	top, err := now.Clashes(ctx, read.InstancesDir)
	if err != nil {
		return nil, err
	}

	var out []*desired.Problem
	for _, d := range dirs {
		if d.Before != "" || d.After == "" || !d.Clashes && len(top) == 0 {
			continue
		}
		all, err := now.Clashes(ctx, d.Dir)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			_, known, err := old.Entry(ctx, c.Path) // what was there before isn't this push's fault
			if err != nil {
				return nil, err
			}
			if !known {
				out = append(out, c.Problem(d.Dir, "rename the new one"))
				break
			}
		}
	}
	return out, nil
}
