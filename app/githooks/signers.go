package githooks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// notTheirs are the signatures of a push that aren't its pusher's, where only those count.
func (s *Service) notTheirs(by pusher, p *admission.Push) (lacking []*desired.Problem) {
	if !s.SignedByPusher || len(p.Problems) > 0 {
		return nil
	}
	pushed := slices.IndexFunc(p.Updates, func(u check.RefUpdate) bool { return u.Ref == s.branchRef() })
	if pushed >= 0 && len(p.Signers) == 0 {
		return []*desired.Problem{{File: s.branchRef(), Message: "the push hook doesn't say who has signed the commits (--require-signed-push)", Remedy: "start the server again, which writes the hook anew"}}
	}
	for _, signer := range p.Signers {
		if !slices.Contains(signer.Names, by.who.String()) {
			lacking = append(lacking, &desired.Problem{
				File:    s.branchRef(),
				Message: fmt.Sprintf("commit %s is signed by %s (%s), and pushed by %s: each commit must be signed by who pushes it (--require-signed-push)", signer.Commit, strings.Join(signer.Names, ", "), signer.Key, by.who),
				Remedy:  "let its signer push it, or sign it yourself (git rebase --exec 'git commit --amend --no-edit -S')",
			})
		}
	}
	return lacking
}
