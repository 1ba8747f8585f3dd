package admission

import (
	"context"
	"errors"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// CheckPush holds a push against the rules that git alone can tell and, where they find
// nothing, returns what review answers to the update of ref, the desired branch. The push
// hook calls it, and so do "jibe validate" and "jibe plan", for a push that nobody has
// made: the three can't differ. options are those of the push ("terminate=12").
func CheckPush(ctx context.Context, r *gitrepo.Reader, ref string, updates []gitrepo.RefUpdate, options []string, review func(gitrepo.RefUpdate) (*Verdict, error)) (*Verdict, error) {
	problems, err := r.CheckPush(ctx, updates, gitrepo.PushPolicy{Options: options})
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

// FileProblems are the problems that a snapshot's files have by themselves, its settings
// included.
func FileProblems(s gitrepo.Snapshot) []*desired.Problem {
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
