package admission

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// LandPath is where the hook that lands what was pushed to refs/for/ asks, on the hook's socket alone.
const LandPath = "/jibe/v1/land"

// Landing is what the hook proc-receive asks the server for: that a commit, whose objects are in the
// desired repository by now, lands on the desired branch.
type Landing struct {
	// ID is the server's own id of a push over HTTP; "" is one by path, on the host.
	ID string `json:"id,omitempty"`
	// Ref is what was pushed to.
	Ref     string   `json:"ref"`
	Commit  string   `json:"commit"`
	Options []string `json:"options,omitempty"` // of the push ("terminate=12")
}

// Landed is what came of a landing: the commit is on the branch where there are no problems.
type Landed struct {
	Verdict
	// Update is what became of the branch; both commits are the same where it had the commit before.
	Update check.RefUpdate `json:"update"`
}

// DescribeLanding is [Push.Describe] for a commit that is to land by the update of the desired
// branch, whose new commit may be a merge of Jibe's own: it is the commit that must be signed by a key in
// the file, "" for none, and what it stands on.
func DescribeLanding(ctx context.Context, r *check.Checker, l Landing, u check.RefUpdate, keys string) (*Push, error) {
	p := &Push{ID: l.ID, Repository: DesiredRepository, Updates: []check.RefUpdate{u}}
	if err := p.Describe(ctx, r, u.Ref, l.Options); err != nil {
		return nil, err
	}
	if keys == "" {
		return p, nil
	}
	pushed := u
	pushed.New = l.Commit
	unsigned, by, err := r.CheckSigned(ctx, []check.RefUpdate{pushed}, keys)
	if err != nil {
		return nil, err
	}
	if p.Problems, p.Signers = append(unsigned, p.Problems...), by; len(p.Problems) > 0 {
		p.Proposal = nil
	}
	return p, nil
}
