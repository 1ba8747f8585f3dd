package admission

import (
	"context"
	"errors"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// CheckPush holds a push against the rules that git alone can tell and, where they find
// nothing, returns what review answers to the update of ref, the desired branch. The push
// hook calls it, and so do "jibe validate" and "jibe plan", for a push that nobody has
// made: the three can't differ. options are those of the push ("terminate=12").
func CheckPush(ctx context.Context, r *check.Checker, ref string, updates []check.RefUpdate, options []string, review func(check.RefUpdate) (*Verdict, error)) (*Verdict, error) {
	problems, err := r.CheckPush(ctx, updates, check.PushPolicy{Options: options})
	if err != nil || len(problems) > 0 {
		return &Verdict{Problems: problems}, err
	}
	for _, u := range updates {
		if u.Ref == ref && u.New != "" {
			return review(u)
		}
	}
	return &Verdict{}, nil
}

// DesiredRepository is what the push hook of the desired repository calls it. Other names are
// those of package repositories: their folders below packages/.
const DesiredRepository = "desired.git"

// PushPath is where the push hook asks, on its socket alone.
const PushPath = "/jibe/v1/push"

// Push is what the push hook tells the server of a push, and asks whether it may be made.
type Push struct {
	// ID is the server's own id of a push over HTTP; "" is one by path, on the host.
	ID string `json:"id,omitempty"`
	// Repository is [DesiredRepository] or the folder of a package repository.
	Repository string            `json:"repository"`
	Updates    []check.RefUpdate `json:"updates"`
	// Rewrites are the drafts among the updates that are deleted, or whose history is rewritten.
	Rewrites []string `json:"rewrites,omitempty"`
	// Touched is where the desired branch would differ. It is needed where the push updates
	// that branch, unless there are problems.
	Touched *read.Touched `json:"touched,omitempty"`
	// Signers are who has signed the commits that the push brings to the desired branch, where
	// they must be signed (--verify-desired).
	Signers []check.CommitSigner `json:"signers,omitempty"`
	// Problems are why git alone refuses the push. Who lacks the right to make it is told that.
	Problems []*desired.Problem `json:"problems,omitempty"`
	// Proposal is what the update of the desired branch would change, where there are no
	// problems.
	Proposal *Proposal `json:"proposal,omitempty"`
}

// Describe reads what the push would do to the desired branch, ref: what it touches, and what
// git alone refuses ([CheckPush]), else what it proposes. An error means that the push must be
// refused.
func (p *Push) Describe(ctx context.Context, r *check.Checker, ref string, options []string) error {
	v, err := CheckPush(ctx, r, ref, p.Updates, options, func(u check.RefUpdate) (*Verdict, error) {
		var err error
		p.Proposal, err = FromUpdate(ctx, r.Reader, u)
		return &Verdict{}, err
	})
	if err != nil {
		return err
	}
	if p.Rewrites, err = r.Rewrites(ctx, p.Updates); err != nil {
		return err
	}
	if p.Problems = v.Problems; p.Proposal != nil {
		p.Touched = p.Proposal.Touched
		return nil
	}
	for _, u := range p.Updates {
		if u.Ref == ref && u.New != "" {
			// Whoever may not make a change needn't be told what is wrong with it first. One that
			// can't be read through is refused by its problems.
			if t, err := r.Touched(ctx, u.Old, u.New); err == nil {
				p.Touched = t
			}
		}
	}
	return nil
}

// FileProblems are the problems that a snapshot's files have by themselves, its settings
// included.
func FileProblems(s read.Snapshot) []*desired.Problem {
	problems := s.Problems()
	_, err := s.Settings()
	if err == nil {
		return problems
	}
	if of, ok := problemsOf(err); ok {
		return append(problems, of...)
	}
	return append(problems, &desired.Problem{File: desired.RepositoriesFile, Message: err.Error()})
}

// problemsOf are the problems that err consists of; ok is false where it is another error.
func problemsOf(err error) (problems []*desired.Problem, ok bool) {
	var invalid *desired.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Problems, true
	}
	var p *desired.Problem
	if errors.As(err, &p) {
		return []*desired.Problem{p}, true
	}
	return nil, false
}
