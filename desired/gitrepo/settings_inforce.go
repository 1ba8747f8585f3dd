package gitrepo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// settingsState is what counts of vims/ and the settings at the root at head. A file that can't be
// parsed counts as it last was, and so does one that is gone although instances need it.
type settingsState struct {
	key      string            // of head's files
	good     *desired.Settings // what counts
	err      error             // why nothing does: nobody knows where packages come from
	files    map[string]inForce
	held     bool // something counts that is gone from head
	clash    bool // files of head can't stand together
	problems []*desired.Problem
}

// inForce is one file of the settings that counts.
type inForce struct {
	hash     string // of its content at head; "" where head has another, or none
	vim      *desired.VIM
	repos    []desired.Repository
	peers    []desired.Peer
	granting desired.Granting
	project  *desired.Project
}

// NeededRepositories returns a function that names the package repositories among gone that an
// instance needs, where stay are the others. It returns nil where none of gone holds a
// package.
type NeededRepositories func(ctx context.Context, gone, stay []desired.Repository) (func(*desired.Instance) []string, error)

// readSettings finds what counts below root. was is what counted before, all are the
// instances. Settings that didn't change are returned as the same value.
func (r *Repo) readSettings(ctx context.Context, root string, was settingsState, all instances) (settingsState, error) {
	key, err := r.settingsKey(ctx, root)
	if err != nil {
		return settingsState{}, err
	}
	if key == was.key && !was.held && (was.good != nil || was.err != nil) {
		return was, nil
	}
	next := settingsState{key: key, files: map[string]inForce{}}
	fresh, err := r.parseSettings(ctx, root, was, &next)
	if err != nil {
		return settingsState{}, err
	}
	repos, ok := fresh[desired.RepositoriesFile]
	if !ok {
		repos = next.files[desired.RepositoriesFile]
	}
	peers, ok := fresh[desired.PeersFile]
	if !ok {
		peers = next.files[desired.PeersFile]
	}
	next.good = &desired.Settings{Repositories: repos.repos, VIMs: map[string]*desired.VIM{}, Peers: peers.peers}
	if err := r.holdNeeded(ctx, was, &next, fresh, all); err != nil {
		return settingsState{}, err
	}
	next.join(was, fresh)
	if next.good != nil && reflect.DeepEqual(next.good, was.good) {
		next.good = was.good
	}
	return next, nil
}

// parseSettings puts into next the files that didn't change, and those that can't be parsed as
// they last were. It returns the others.
func (r *Reader) parseSettings(ctx context.Context, root string, was settingsState, next *settingsState) (map[string]inForce, error) {
	names, err := r.settingsFiles(ctx, root)
	if err != nil {
		return nil, err
	}
	not, err := r.notSettings(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(not) {
		next.problems = append(next.problems, not[name])
	}
	for name, old := range was.files {
		if replacedSetting(not, name) {
			old.hash = ""
			next.files[name] = old
		}
	}
	if _, known := was.files[desired.RepositoriesFile]; !known && not[desired.RepositoriesFile] != nil {
		next.err = &desired.InvalidError{Problems: []*desired.Problem{not[desired.RepositoriesFile]}}
	}
	fresh := map[string]inForce{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, known := was.files[name]
		if known && old.hash == names[name] {
			next.files[name] = old
			continue
		}
		data, err := r.fileAt(ctx, root, name)
		if err != nil {
			return nil, err
		}
		f, err := parseSetting(name, data)
		if err == nil {
			f.hash = names[name]
			fresh[name] = f
			continue
		}
		next.problems = append(next.problems, problemsOf(name, err)...)
		switch {
		case known:
			old.hash = ""
			next.files[name] = old
		case name == desired.RepositoriesFile:
			next.err = err
		}
	}
	return fresh, nil
}

// parseSetting reads one file of the settings.
func parseSetting(name string, data []byte) (f inForce, err error) {
	switch name {
	case desired.RepositoriesFile:
		f.repos, err = desired.ParseRepositories(name, data)
	case desired.PeersFile:
		f.peers, err = desired.ParsePeers(name, data)
	case desired.GrantingFile:
		f.granting, err = desired.ParseGranting(name, data)
	default:
		if path.Dir(name) == desired.ProjectDir {
			f.project, err = desired.ParseProject(name, data)
			break
		}
		f.vim, err = desired.ParseVIM(name, data)
	}
	return f, err
}

// holdNeeded keeps in next the settings that counted before and are gone although an instance
// needs them.
func (r *Repo) holdNeeded(ctx context.Context, was settingsState, next *settingsState, fresh map[string]inForce, all instances) error {
	if was.good == nil {
		return nil
	}
	var vims []string
	for name, f := range was.files {
		_, stands := next.files[name]
		_, comes := fresh[name]
		if f.vim != nil && !stands && !comes {
			vims = append(vims, f.vim.Name)
		}
	}
	_, gone := was.good.Without(next.good)
	users, err := r.usersOf(ctx, was.good, vims, gone, next.good.Repositories, all)
	if err != nil {
		return err
	}
	for _, name := range vims {
		if p := users.vims.NeededVIM(name); p != nil {
			f := was.files[p.File]
			f.hash = ""
			next.files[p.File] = f
			next.hold(p)
		}
	}
	for _, g := range gone {
		if p := users.repositories.NeededRepository(g.Name); p != nil {
			next.good.Repositories = append(slices.Clip(next.good.Repositories), g)
			next.hold(p)
		}
	}
	return nil
}

func (s *settingsState) hold(p *desired.Problem) {
	s.held = true
	p.Message += "; meanwhile it counts as it last was"
	s.problems = append(s.problems, p)
}

// join adds the files that stand and those that are fresh. If two can't stand together, the
// later one counts as it last was.
func (s *settingsState) join(was settingsState, fresh map[string]inForce) {
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if v := s.files[name].vim; v != nil {
			s.good.VIMs[v.Name] = v
		}
	}
	order := slices.SortedFunc(maps.Keys(fresh), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.takes(was, fresh, fresh[a].vim), s.takes(was, fresh, fresh[b].vim)), cmp.Compare(a, b))
	})
	for _, name := range order {
		f := fresh[name]
		if f.project != nil {
			continue
		}
		if f.vim == nil {
			s.files[name] = f
			continue
		}
		s.yieldDefault(f.vim)
		if ps := s.good.Clash(f.vim); len(ps) > 0 {
			s.problems, s.clash = append(s.problems, ps...), true
			old, known := was.files[name]
			if !known {
				continue
			}
			if f = (inForce{vim: old.vim}); len(s.good.Clash(f.vim)) > 0 {
				v := *f.vim
				v.Default = false
				f.vim = &v
			}
		}
		s.files[name] = f
		s.good.VIMs[f.vim.Name] = f.vim
	}
	s.joinProjects(was, fresh)
	s.good.Granting = s.files[desired.GrantingFile].granting
	s.problems = append(s.problems, s.good.Missing()...)
	slices.SortStableFunc(s.problems, func(a, b *desired.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if s.err != nil {
		s.good, s.files = nil, nil
	}
}

// takes returns 1 where v claims what only one VIM may have, while another VIM had it before
// and still claims it, else 0. Files are sorted by it.
func (s *settingsState) takes(was settingsState, fresh map[string]inForce, v *desired.VIM) int {
	for name, old := range was.files {
		now, ok := fresh[name]
		if !ok {
			now = s.files[name]
		}
		if v == nil || old.vim == nil || now.vim == nil || old.vim.Name == v.Name {
			continue
		}
		id := cmp.Or(old.vim.ID, old.vim.Name)
		if v.Default && old.vim.Default && now.vim.Default || id == cmp.Or(v.ID, v.Name) && id == cmp.Or(now.vim.ID, now.vim.Name) {
			return 1
		}
	}
	return 0
}

// yieldDefault ends the default of a VIM that is gone from head, where v is the default.
func (s *settingsState) yieldDefault(v *desired.VIM) {
	name := s.good.DefaultVIM()
	f, ok := s.files[desired.VIMFile(name)]
	if !v.Default || name == "" || !ok || f.hash != "" {
		return
	}
	former := *f.vim
	former.Default = false
	f.vim = &former
	s.files[desired.VIMFile(name)], s.good.VIMs[name] = f, &former
}

// instances are those at a head, and each as it was at the head before.
type instances struct {
	list   func() []desired.Revision
	before func(id string) (desired.Revision, bool)
}

// needs are the instances that need something.
type needs struct{ vims, repositories desired.Users }

// usersOf returns the instances that are instantiated and need one of the VIMs or package
// repositories that are gone. now are the settings by which they have run.
func (r *Repo) usersOf(ctx context.Context, now *desired.Settings, vims []string, gone, stay []desired.Repository, all instances) (needs, error) {
	out := needs{desired.Users{}, desired.Users{}}
	var needed func(*desired.Instance) []string
	if len(gone) > 0 && r.opt.NeededRepositories != nil {
		var err error
		if needed, err = r.opt.NeededRepositories(ctx, gone, stay); err != nil {
			return out, fmt.Errorf("package repositories that are gone: %w", err)
		}
	}
	if len(vims) == 0 && needed == nil {
		return out, nil
	}
	for _, rev := range all.list() {
		in, err := r.Read(ctx, rev)
		if err != nil {
			return out, err
		}
		before, known := all.before(rev.Instance)
		if !desired.MayHaveObjects(in) || !known {
			continue
		}
		// An instance that is instantiated only now has to use the present settings.
		if was, err := r.Read(ctx, before); err != nil {
			return out, err
		} else if !desired.MayHaveObjects(was) {
			continue
		}
		for _, name := range now.VIMsOf(in) {
			if slices.Contains(vims, name) {
				out.vims.Add(rev.Dir, name)
			}
		}
		if needed != nil {
			out.repositories.Add(rev.Dir, needed(in)...)
		}
	}
	return out, nil
}

// reviewLocked finds anew which settings count, after a change by which instances may need
// fewer.
func (r *Repo) reviewLocked(ctx context.Context) error {
	r.mu.RLock()
	root, was := r.root, r.settings
	r.mu.RUnlock()
	if !was.held {
		return nil
	}
	set, err := r.readSettings(ctx, root, was, instances{r.List, r.Lookup})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.settings = set
	r.mu.Unlock()
	if set.good != was.good {
		r.notify(nil, true)
	}
	return nil
}

// ReviewSettings looks again at the settings that count although head lacks them, after the
// package repositories were asked. Those that no instance needs any more stop to count.
func (r *Repo) ReviewSettings(ctx context.Context) error {
	r.move.Lock()
	defer r.move.Unlock()
	return r.reviewLocked(ctx)
}
