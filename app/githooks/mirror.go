package githooks

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// A push to the mirror of a remote is judged in its quarantine as any push is. Then git doesn't move its
// refs: it has the hook proc-receive bring it to the branch, which is the remote's first.

// checkMirrored brings the mirror to where the remote is, so that a push is held against that, and returns why
// one can't be pushed on.
func (s *Service) checkMirrored(ctx context.Context, p *admission.Push) ([]*desired.Problem, error) {
	if err := s.Repo.Fetch(ctx); err != nil {
		return nil, fmt.Errorf("the git server of the desired repository can't be asked, to which this would be pushed on: %w", err)
	}
	on := []string{s.branchRef(), s.landingRef()}
	i := slices.IndexFunc(p.Updates, func(u check.RefUpdate) bool { return !slices.Contains(on, u.Ref) })
	switch {
	case i >= 0:
		return []*desired.Problem{{File: p.Updates[i].Ref, Message: "this is the mirror of a desired repository on a forge, from which only " + s.Branch + " is pushed on",
			Remedy: "push other branches and tags to " + git.WithoutCredentials(s.Remote)}}, nil
	case len(p.Updates) > 1:
		return []*desired.Problem{{File: p.Updates[0].Ref, Message: "this is the mirror of a desired repository on a forge, to which one ref at a time is pushed", Remedy: "push it alone"}}, nil
	}
	return nil, nil
}

// acceptMirrored lets the hook that is to push it on ask for that. Who pushes is written down then.
func (s *Service) acceptMirrored(p *admission.Push) error {
	if err := s.Audit.Health(); err != nil {
		return err
	}
	if p.ID != "" && !s.pushes.lands(p.ID) {
		return errNoPush
	}
	return nil
}
