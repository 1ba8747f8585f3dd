package app

import (
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
)

// needed implements [gitrepo.NeededRepositories]: an instance needs a repository that has
// its package, or one of its vnfdId, where none of those that stay has.
func (c *catalogue) needed(ctx context.Context, gone, stay []desired.Repository) (func(*desired.Instance) []string, error) {
	known := c.Catalogue
	if have := known.Repositories(); slices.ContainsFunc(gone, func(r desired.Repository) bool { return !slices.Contains(have, r) }) {
		// At a start, and after commits that came faster than the repositories were asked.
		known = known.Apart()
		if err := known.Load(ctx, slices.Concat(gone, stay)); err != nil {
			return nil, err
		}
	}
	entries := known.List()
	if !slices.ContainsFunc(entries, func(e packages.Entry) bool { return named(gone, e.Repository) }) {
		return nil, nil
	}
	return func(in *desired.Instance) []string {
		if slices.ContainsFunc(entries, func(e packages.Entry) bool { return named(stay, e.Repository) && holds(e, in) }) {
			return nil
		}
		var names []string
		for _, e := range entries {
			if named(gone, e.Repository) && holds(e, in) {
				names = append(names, e.Repository)
			}
		}
		return slices.Compact(names)
	}, nil
}

// holds says whether the entry is the package of the instance, or one of its vnfdId.
func holds(e packages.Entry, in *desired.Instance) bool {
	return e.Tree == in.Package || e.VnfdID == in.VnfdID
}

func named(list []desired.Repository, name string) bool {
	return slices.ContainsFunc(list, func(r desired.Repository) bool { return r.Name == name })
}

// needs refuses settings without what instances need that stay, or that an operation under
// way still works on. after are the packages that would be known, nil where they are those
// of now.
func (s *Server) needs(ctx context.Context, now *desired.Settings, p *Proposal, settings *desired.Settings, after *packages.Catalogue) ([]*desired.Problem, error) {
	gone, _ := now.Without(settings)
	if len(gone) == 0 && after == nil {
		return nil, nil
	}
	stays, err := s.staying(ctx, p)
	if err != nil {
		return nil, err
	}
	leaving, err := s.recon.View().Leaving(ctx)
	if err != nil {
		return nil, err
	}
	vims, repositories := desired.Users{}, desired.Users{}
	for dir, in := range leaving {
		vims.Add(dir, now.VIMsOf(in)...)
	}
	for dir, in := range stays {
		vims.Add(dir, now.VIMsOf(in)...)
		if after == nil || slices.ContainsFunc(after.List(), func(e packages.Entry) bool { return holds(e, in) }) {
			continue
		}
		for _, e := range s.packages.List() {
			if holds(e, in) {
				repositories.Add(dir, e.Repository)
			}
		}
	}
	var out []*desired.Problem
	for _, name := range gone {
		if problem := vims.NeededVIM(name); problem != nil {
			out = append(out, problem)
		}
	}
	for _, r := range now.Repositories {
		if problem := repositories.NeededRepository(r.Name); problem != nil {
			out = append(out, problem)
		}
	}
	return out, nil
}

// staying are the instances that are instantiated now and with the proposal, by their
// directories, as they are now.
func (s *Server) staying(ctx context.Context, p *Proposal) (map[string]*desired.Instance, error) {
	ends := map[string]bool{}
	for _, c := range p.Instances {
		if c.File == "" {
			ends[c.Instance] = true
		}
	}
	// A directory that was moved is one that goes, and one that comes with the same id.
	for _, c := range p.Instances {
		if c.File == "" {
			continue
		}
		if in, err := desired.ParseInstance(c.Dir+"/"+desired.InstanceFile, []byte(c.File)); err == nil {
			ends[in.ID] = in.State != desired.Instantiated
		}
	}
	out := map[string]*desired.Instance{}
	for _, rev := range s.repo.List() {
		if ends[rev.Instance] {
			continue
		}
		in, err := s.repo.Read(ctx, rev)
		if err != nil {
			return nil, err
		}
		if in.State == desired.Instantiated {
			out[rev.Dir] = in
		}
	}
	return out, nil
}
