package check

import (
	"context"
	"strings"
)

// IsDraft reports whether a ref is a branch next to the desired one.
func (r *Checker) IsDraft(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/") && ref != r.Ref()
}

// Rewrites returns the drafts that updates delete, or whose history they rewrite.
func (r *Checker) Rewrites(ctx context.Context, updates []RefUpdate) ([]string, error) {
	var out []string
	for _, u := range updates {
		if !r.IsDraft(u.Ref) || u.Old == "" || u.Old == u.New {
			continue
		}
		forward := false
		if u.New != "" {
			var err error
			if forward, err = r.forward(ctx, u); err != nil {
				return nil, err
			}
		}
		if !forward {
			out = append(out, u.Ref)
		}
	}
	return out, nil
}
