package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// Proposal is a change of the desired repository that somebody considers: what
// differs from its head. It is what the push hook, `jibe validate` and
// `jibe plan` send.
type Proposal struct {
	// Settings are vims/ and repositories.yaml as they would be; nil means as they are.
	Settings *desired.Settings `json:"settings,omitempty"`
	// Instances are the directories that would change.
	Instances []Candidate `json:"instances"`
}

// Candidate is one instance's directory as it would be.
type Candidate struct {
	Dir string `json:"dir"`
	// Instance is needed only where File is empty.
	Instance string `json:"instance,omitempty"`
	// File is the text of vnf.yaml, "" for a directory that would go.
	File string `json:"file,omitempty"`
}

// ProposalOf collects what differs between base, by id, and a snapshot.
func ProposalOf(ctx context.Context, base []desired.Revision, s gitrepo.Snapshot) (*Proposal, error) {
	p := &Proposal{Instances: []Candidate{}}
	now := make(map[string]desired.Revision, len(base))
	for _, rev := range base {
		now[rev.Instance] = rev
	}
	for _, rev := range s.List() {
		was, known := now[rev.Instance]
		delete(now, rev.Instance)
		if known && was.Tree == rev.Tree && was.Dir == rev.Dir {
			continue
		}
		files, err := s.Files(ctx, rev)
		if err != nil {
			return nil, err
		}
		p.Instances = append(p.Instances, Candidate{Dir: rev.Dir, Instance: rev.Instance, File: string(files[desired.InstanceFile])})
	}
	for _, rev := range now {
		p.Instances = append(p.Instances, Candidate{Dir: rev.Dir, Instance: rev.Instance})
	}
	slices.SortFunc(p.Instances, func(a, b Candidate) int { return cmp.Compare(a.Dir, b.Dir) })
	return p, nil
}

// judge is what a proposal is held against.
type judge struct {
	settings *desired.Settings
	// before finds an instance as it is now, nil where it isn't.
	before func(id string) (*desired.Instance, desired.Revision, error)
	check  func(ctx context.Context, settings *desired.Settings, before, after *desired.Instance) error
	// names is the rule that tells names of secrets in the instance from others.
	names func(ctx context.Context, in *desired.Instance) desired.SecretNames
	// named are the directories at head whose instances have a name.
	named func(name string) []string
	// fresh are the directories of the proposal by the names that it gives.
	fresh map[string][]string
	// warnings are of what is let pass.
	warnings []*desired.Problem
}

// problems holds one candidate against the rules. after is nil where the text
// can't be read.
func (j *judge) problems(ctx context.Context, c Candidate) (after *desired.Instance, problems []*desired.Problem, err error) {
	after, before, problems, err := j.refusals(ctx, c)
	if after == nil || err != nil {
		return after, problems, err
	}
	added, left := desired.Exposed(c.Dir+"/"+desired.InstanceFile, []byte(c.File), before, after, j.names(ctx, after))
	j.warnings = append(j.warnings, left...)
	if p := j.namesake(c, before, after); p != nil {
		j.warnings = append(j.warnings, p)
	}
	return after, append(problems, added...), nil
}

// namesake warns of a name that another instance has: people go by names, and a copied
// directory is often meant to be another VNF.
func (j *judge) namesake(c Candidate, before, after *desired.Instance) *desired.Problem {
	if after.Name == "" || before != nil && before.Name == after.Name {
		return nil
	}
	others := slices.Concat(j.named(after.Name), j.fresh[after.Name])
	j.fresh[after.Name] = append(j.fresh[after.Name], c.Dir)
	i := slices.IndexFunc(others, func(dir string) bool { return dir != c.Dir })
	if i < 0 {
		return nil
	}
	return &desired.Problem{File: c.Dir + "/" + desired.InstanceFile, Line: reconciler.LineOf(c.File, "name"),
		Message: fmt.Sprintf("the name %q is also that of %s", after.Name, others[i]), Remedy: "give it a name of its own, unless that is meant"}
}

// refusals are what the candidate would be refused for by those who carry it out.
func (j *judge) refusals(ctx context.Context, c Candidate) (after, before *desired.Instance, problems []*desired.Problem, err error) {
	file := c.Dir + "/" + desired.InstanceFile
	if c.File == "" {
		before, _, err := j.before(c.Instance)
		if err != nil {
			return nil, nil, nil, nil // to take away what can't be read is always right
		}
		err = j.check(ctx, j.settings, before, nil)
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
	before, _, err = j.before(after.ID)
	if err != nil {
		return nil, nil, nil, err
	}
	err = j.check(ctx, j.settings, before, after)
	if err == nil {
		return after, before, nil, nil
	}
	p, ok := reconciler.ProblemOf(c.Dir, c.File, err)
	if !ok {
		return nil, nil, nil, err
	}
	return after, before, []*desired.Problem{p}, nil
}

func problemsOf(err error) ([]*desired.Problem, bool) {
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

// Verdict is the answer to a proposal.
type Verdict struct {
	Problems []*desired.Problem `json:"problems"`
	// Warnings don't stand in the way.
	Warnings []*desired.Problem   `json:"warnings,omitempty"`
	Previews []reconciler.Preview `json:"previews,omitempty"`
}

// judge answers a proposal; with steps, it says what would be done.
func (s *Server) judge(ctx context.Context, p *Proposal, steps bool) (*Verdict, error) {
	// The ref moves before this process knows of it: who has seen a commit, Jibe's own
	// pin of a package for one, may push on top of it at once.
	if err := s.repo.Refresh(ctx); err != nil {
		return nil, err
	}
	view := s.recon.View()
	now, err := s.repo.Settings()
	if err != nil {
		return nil, err
	}
	v := &Verdict{Problems: []*desired.Problem{}}
	settings := now
	if p.Settings != nil {
		settings = p.Settings
		for name, vim := range settings.VIMs {
			vim.Name = name // which the encoded form leaves to the key
		}
	}
	// What is there already is a problem that is shown, and not this change's.
	v.Problems = append(v.Problems, forbiddenVIMs(s.keeper, settings, now)...)
	var proposed *packages.Catalogue
	if !slices.Equal(now.Repositories, settings.Repositories) {
		other, away, err := s.packages.consider(ctx, settings)
		if err != nil {
			return nil, err
		}
		for _, err := range away {
			v.Problems = append(v.Problems, &desired.Problem{File: "repositories.yaml", Message: err.Error(),
				Remedy: "check the url, and that this server may read it"})
		}
		view = view.With(other)
		if len(away) == 0 { // else it isn't known what they have
			proposed = other.Catalogue
		}
	}
	needed, err := s.needs(ctx, now, p, settings, proposed)
	if err != nil {
		return nil, err
	}
	v.Problems = append(v.Problems, needed...)
	j := &judge{settings: settings, check: view.Check, names: view.SecretNames, before: s.atHead(ctx), named: s.repo.Named, fresh: map[string][]string{}}
	for _, c := range p.Instances {
		after, problems, err := j.problems(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", c.Dir, err)
		}
		v.Problems = append(v.Problems, problems...)
		if !steps || len(problems) > 0 {
			continue
		}
		rev := desired.Revision{Instance: c.Instance, Dir: c.Dir}
		if after != nil {
			rev.Instance = after.ID
		}
		v.Previews = append(v.Previews, view.Plan(ctx, settings, rev, after))
	}
	v.Warnings = j.warnings
	return v, nil
}

func (s *Server) atHead(ctx context.Context) func(id string) (*desired.Instance, desired.Revision, error) {
	return func(id string) (*desired.Instance, desired.Revision, error) {
		rev, ok := s.repo.Lookup(id)
		if !ok {
			return nil, rev, nil
		}
		in, err := s.repo.Read(ctx, rev)
		return in, rev, err
	}
}
