package app

import (
	"cmp"
	"context"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// newFollower makes the follower of package versions.
func (s *state) newFollower(view *reconciler.View) *automation.Follower {
	return automation.NewFollower(automation.Config{
		Repo: followerRepo{s.repo, view.Counted(s.repo)}, Branch: cmp.Or(s.Branch, "main"), Oplog: s.oplog, Versions: s.packages.Versions, Log: s.Log,
		Check: func(ctx context.Context, before, after *desired.Instance) error {
			return view.Check(ctx, nil, before, after)
		},
		Refused: func(err error) bool {
			_, _, refused := reconciler.Refused(err)
			return refused
		},
	})
}
