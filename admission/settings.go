package admission

import (
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
)

// settingsInUse refuses settings that lack a VIM or a package repository which instances
// need that stay, or that an operation under way still works on. after are the packages that
// would be known, nil where they are those of now.
func (r *Reviewer) settingsInUse(ctx context.Context, now *desired.Settings, p *Proposal, settings *desired.Settings, after Packages) ([]*desired.Problem, error) {
	gone, _ := now.Without(settings)
	if len(gone) == 0 && after == nil {
		return nil, nil
	}
	staying, err := r.staying(ctx, p)
	if err != nil {
		return nil, err
	}
	leaving, err := r.View.Leaving(ctx)
	if err != nil {
		return nil, err
	}
	vims, repositories := desired.Users{}, desired.Users{}
	for dir, in := range leaving {
		vims.Add(dir, now.VIMsOf(in)...)
	}
	for dir, in := range staying {
		vims.Add(dir, now.VIMsOf(in)...)
		if after == nil || slices.ContainsFunc(after.List(), func(e packages.Entry) bool { return e.Serves(in) }) {
			continue
		}
		for _, e := range r.Packages.List() {
			if e.Serves(in) {
				repositories.Add(dir, e.Repository)
			}
		}
	}
	var problems []*desired.Problem
	for _, name := range gone {
		if problem := vims.NeededVIM(name); problem != nil {
			problems = append(problems, problem)
		}
	}
	for _, repo := range now.Repositories {
		if problem := repositories.NeededRepository(repo.Name); problem != nil {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// staying are the instances that are instantiated now and with the proposal, by their
// directories, as they are now.
func (r *Reviewer) staying(ctx context.Context, p *Proposal) (map[string]*desired.Instance, error) {
	ends := map[string]bool{}
	for _, c := range p.Instances {
		if c.File == "" {
			ends[c.Instance] = true
		}
	}
	// A directory that was moved goes under one path and comes under another, with the same id.
	for _, c := range p.Instances {
		if c.File == "" {
			continue
		}
		if in, err := desired.ParseInstance(c.Dir+"/"+desired.InstanceFile, []byte(c.File)); err == nil {
			ends[in.ID] = !desired.MayHaveObjects(in)
		}
	}
	out := map[string]*desired.Instance{}
	for _, rev := range r.Repo.List() {
		if ends[rev.Instance] {
			continue
		}
		in, err := r.Repo.Read(ctx, rev)
		if err != nil {
			return nil, err
		}
		if desired.MayHaveObjects(in) {
			out[rev.Dir] = in
		}
	}
	return out, nil
}
