package admission

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// instanceReview holds the instances of one proposal against the rules.
type instanceReview struct {
	settings *desired.Settings
	// before finds an instance as it is now, nil where there is none.
	before func(id string) (*desired.Instance, error)
	check  func(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error
	// secretNames tells the names of secrets in an instance from others.
	secretNames func(ctx context.Context, in *desired.Instance) desired.SecretNames
	// named are the directories at head whose instances have a name.
	named func(name string) []string
	// proposedNames are the directories of the proposal by the names that it gives.
	proposedNames map[string][]string
	// warnings are about what is admitted.
	warnings []*desired.Problem
}

func newInstanceReview(ctx context.Context, repo Repo, view *reconciler.View, settings *desired.Settings) *instanceReview {
	return &instanceReview{
		settings: settings,
		before: func(id string) (*desired.Instance, error) {
			rev, ok := repo.Lookup(id)
			if !ok {
				return nil, nil
			}
			return repo.Read(ctx, rev)
		},
		check: view.Check, secretNames: view.SecretNames, named: repo.Named, proposedNames: map[string][]string{},
	}
}

// candidate holds one candidate against the rules. after is nil where the directory would
// go, or its text can't be read.
func (r *instanceReview) candidate(ctx context.Context, c Candidate) (after *desired.Instance, problems []*desired.Problem, err error) {
	after, before, problems, err := r.refusals(ctx, c)
	if after == nil || err != nil {
		return after, problems, err
	}
	added, kept := desired.Exposed(c.Dir+"/"+desired.InstanceFile, []byte(c.File), before, after, r.secretNames(ctx, after))
	r.warnings = append(r.warnings, kept...)
	if p := r.sameName(c, before, after); p != nil {
		r.warnings = append(r.warnings, p)
	}
	return after, append(problems, added...), nil
}

// sameName warns of a name that another instance has: people go by names, and a copied
// directory is often meant to be another VNF.
func (r *instanceReview) sameName(c Candidate, before, after *desired.Instance) *desired.Problem {
	if after.Name == "" || before != nil && before.Name == after.Name {
		return nil
	}
	others := slices.Concat(r.named(after.Name), r.proposedNames[after.Name])
	r.proposedNames[after.Name] = append(r.proposedNames[after.Name], c.Dir)
	i := slices.IndexFunc(others, func(dir string) bool { return dir != c.Dir })
	if i < 0 {
		return nil
	}
	return &desired.Problem{File: c.Dir + "/" + desired.InstanceFile, Line: reconciler.LineOf(c.File, "name"),
		Message: fmt.Sprintf("the name %q is also that of %s", after.Name, others[i]), Remedy: "give it a name of its own, unless that is meant"}
}

// refusals are the problems for which the reconciler would refuse the candidate.
func (r *instanceReview) refusals(ctx context.Context, c Candidate) (after, before *desired.Instance, problems []*desired.Problem, err error) {
	file := c.Dir + "/" + desired.InstanceFile
	if c.File == "" {
		before, err := r.before(c.Instance)
		if err != nil {
			return nil, nil, nil, nil // a file that can't be read may always be removed
		}
		err = r.check(ctx, r.settings, before, nil)
		if p, ok := reconciler.ProblemOf(c.Dir, "", err); ok {
			return nil, nil, []*desired.Problem{p}, nil
		}
		return nil, nil, nil, err
	}
	after, err = desired.ParseInstance(file, []byte(c.File))
	if ps, ok := problemsOf(err); ok {
		return nil, nil, ps, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	before, err = r.before(after.ID)
	if err != nil {
		return nil, nil, nil, err
	}
	if desired.MayHaveObjects(before) {
		after.Granted = before.Granted // which no push may change
	}
	err = r.check(ctx, r.settings, before, after)
	if err == nil {
		return after, before, nil, nil
	}
	p, ok := reconciler.ProblemOf(c.Dir, c.File, err)
	if !ok {
		return nil, nil, nil, err
	}
	return after, before, []*desired.Problem{p}, nil
}
