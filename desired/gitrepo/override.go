package gitrepo

import (
	"context"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// Override implements [desired.Repo]. The words alone mean nothing: anybody can write them. They count in a
// commit of Jibe's own, which has them from a request that was permitted, and in one that came with a push
// whose pusher was an administrator when it was accepted. What a forge brought has no pusher.
func (r *Repo) Override(ctx context.Context, rev desired.Revision) (reason, by string, err error) {
	text, err := r.read.Git.Run(ctx, "log", "-1", "--first-parent", "--no-color", "--format=%H%x00%(trailers:key="+desired.TrailerOverride+",valueonly=true,unfold=true,separator=%x20)",
		rev.Commit, "--", ":(literal)"+rev.Dir)
	if err != nil {
		return "", "", fmt.Errorf("last commit of %s: %w", rev.Dir, err)
	}
	commit, reason, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\x00")
	if reason = strings.TrimSpace(reason); reason == "" {
		return "", "", nil
	}
	if own, err := r.Sealed(ctx, commit); err != nil {
		return "", "", err
	} else if own {
		return reason, "", nil
	}
	push, err := r.broughtBy(ctx, commit, r.pushedBy)
	if err != nil || push == nil || !push.Admin {
		return "", "", err
	}
	return reason, push.Pusher, nil
}
