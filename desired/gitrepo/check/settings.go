package check

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// checkNeeds refuses to remove a VIM at which instances run that stay, and all package
// repositories while any VNF is instantiated. Whether one of several repositories is needed
// depends on their packages, which git alone doesn't know.
func (r *Checker) checkNeeds(ctx context.Context, u RefUpdate, changes []read.Change) ([]*desired.Problem, error) {
	oldRoot, err := r.RootOf(ctx, u.Old)
	if err != nil {
		return nil, err
	}
	newRoot, err := r.RootOf(ctx, u.New)
	if err != nil {
		return nil, err
	}
	was, err := r.SettingsLeniently(ctx, oldRoot)
	if err != nil {
		return nil, err
	}
	files, err := r.SettingsFiles(ctx, newRoot)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for name := range was.VIMs {
		if files[desired.VIMFile(name)] == "" {
			gone[name] = true
		}
	}
	emptied := false
	if len(was.Repositories) > 0 {
		if emptied, err = r.noRepositories(ctx, newRoot); err != nil {
			return nil, err
		}
	}
	if len(gone) == 0 && !emptied {
		return nil, nil
	}
	after, err := r.At(ctx, u.New)
	if err != nil {
		return nil, err
	}
	before := map[string]*desired.Instance{}
	for _, c := range changes {
		if c.Before.Tree == "" {
			continue
		}
		if before[c.Before.Instance], err = r.Read(ctx, c.Before); err != nil {
			return nil, err
		}
	}
	users, running := desired.Users{}, ""
	for _, rev := range after.List() {
		in, err := after.Read(ctx, rev)
		if err != nil {
			return nil, err
		}
		if !desired.MayHaveObjects(in) {
			continue
		}
		running = rev.Dir
		users.Add(rev.Dir, was.VIMsOf(in)...)
		if b := before[rev.Instance]; desired.MayHaveObjects(b) {
			users.Add(rev.Dir, was.VIMsOf(b)...)
		}
	}
	var out []*desired.Problem
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if p := users.NeededVIM(name); p != nil {
			out = append(out, p)
		}
	}
	if emptied && running != "" {
		out = append(out, &desired.Problem{File: desired.RepositoriesFile,
			Message: "can't go or be emptied while VNFs are instantiated, such as " + running + ": their packages come from there",
			Remedy:  "leave it, or terminate them first"})
	}
	return out, nil
}

// noRepositories says whether repositories.yaml is absent or an empty list. One that
// can't be parsed is neither.
func (r *Checker) noRepositories(ctx context.Context, root string) (bool, error) {
	data, err := r.FileAt(ctx, root, desired.RepositoriesFile)
	if errors.Is(err, desired.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	list, err := desired.ParseRepositories(path.Base(desired.RepositoriesFile), data)
	return err == nil && len(list) == 0, nil
}
