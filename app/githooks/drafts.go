package githooks

import (
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// notTheirDrafts names the drafts that a push deletes or rewrites and that are another's. An administrator may do that to all.
func (s *Service) notTheirDrafts(ctx context.Context, by pusher, p *admission.Push) ([]*desired.Problem, error) {
	if by.who.May(auth.Admin, "") {
		return nil, nil
	}
	var out []*desired.Problem
	for _, u := range p.Updates {
		if u.Ref == s.branchRef() || u.New != "" && !slices.Contains(p.Rewrites, u.Ref) {
			continue
		}
		owner, err := s.Repo.DraftOwner(ctx, u.Ref, u.Old)
		if err != nil {
			return nil, err
		}
		if owner != by.who.String() {
			out = append(out, &desired.Problem{File: u.Ref, Message: "a branch is deleted or rewritten by the caller who brought all of it here, or by an administrator",
				Remedy: "push to a branch of another name, or have one of them do it; where others have put commits on top, an administrator"})
		}
	}
	return out, nil
}

// noteDrafts notes who owns the drafts of a push that has ended, but for those that git didn't take.
func (s *Service) noteDrafts(ctx context.Context, a *acceptedPush, lost []check.RefUpdate) {
	if a.repository != admission.DesiredRepository || s.Remote != "" {
		return
	}
	for _, u := range a.updates {
		if slices.Contains(lost, u) {
			continue
		}
		if err := s.Repo.DraftMoved(u, a.who.String(), slices.Contains(a.rewrites, u.Ref)); err != nil {
			s.Log.WarnContext(ctx, "who brought a branch isn't noted: administrators alone can delete it", "ref", u.Ref, "error", err)
		}
	}
}

// lostDraft is what the audit log says of a draft that was deleted or rewritten.
func lostDraft(u check.RefUpdate) string {
	if u.New == "" {
		return "deleted, it was at " + u.Old
	}
	return "rewritten, it was at " + u.Old
}
