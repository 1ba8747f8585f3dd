package read

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

// SettingsState is what counts of vims/ and the settings at the root at head. A file that can't be
// parsed counts as it last was, and so does one that is gone although instances need it.
type SettingsState struct {
	key      string            // of head's files
	Good     *desired.Settings // what counts
	Err      error             // why nothing does: it is not known where packages come from
	Files    map[string]InForce
	Held     bool // something counts that is gone from head
	Clash    bool // files of head can't stand together
	Problems []*desired.Problem
}

// InForce is one file of the settings that counts.
type InForce struct {
	hash     string // of its content at head; "" where head has another, or none
	VIM      *desired.VIM
	Repos    []desired.Repository
	Peers    []desired.Peer
	granting desired.Granting
	project  *desired.Project
}

// NeededRepositories returns a function that names the package repositories among gone that an
// instance needs, where stay are the others. It returns nil where none of gone holds a
// package.
type NeededRepositories func(ctx context.Context, gone, stay []desired.Repository) (func(*desired.Instance) []string, error)

// ReadSettings finds what counts below root. was is what counted before, all are the
// instances. Settings that didn't change are returned as the same value.
func (r *Reader) ReadSettings(ctx context.Context, root string, was SettingsState, all Instances) (SettingsState, error) {
	key, err := r.SettingsKey(ctx, root)
	if err != nil {
		return SettingsState{}, err
	}
	if key == was.key && !was.Held && (was.Good != nil || was.Err != nil) {
		return was, nil
	}
	next := SettingsState{key: key, Files: map[string]InForce{}}
	fresh, err := r.ParseSettings(ctx, root, was, &next)
	if err != nil {
		return SettingsState{}, err
	}
	repos, ok := fresh[desired.RepositoriesFile]
	if !ok {
		repos = next.Files[desired.RepositoriesFile]
	}
	peers, ok := fresh[desired.PeersFile]
	if !ok {
		peers = next.Files[desired.PeersFile]
	}
	next.Good = &desired.Settings{Repositories: repos.Repos, VIMs: map[string]*desired.VIM{}, Peers: peers.Peers}
	if err := r.holdNeeded(ctx, was, &next, fresh, all); err != nil {
		return SettingsState{}, err
	}
	next.Join(was, fresh)
	if next.Good != nil && reflect.DeepEqual(next.Good, was.Good) {
		next.Good = was.Good
	}
	return next, nil
}

// ParseSettings puts into next the files that didn't change, and those that can't be parsed as
// they last were. It returns the others.
func (r *Reader) ParseSettings(ctx context.Context, root string, was SettingsState, next *SettingsState) (map[string]InForce, error) {
	names, err := r.SettingsFiles(ctx, root)
	if err != nil {
		return nil, err
	}
	not, err := r.NotSettings(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(not)) {
		next.Problems = append(next.Problems, not[name])
	}
	for name, old := range was.Files {
		if replacedSetting(not, name) {
			old.hash = ""
			next.Files[name] = old
		}
	}
	if _, known := was.Files[desired.RepositoriesFile]; !known && not[desired.RepositoriesFile] != nil {
		next.Err = &desired.InvalidError{Problems: []*desired.Problem{not[desired.RepositoriesFile]}}
	}
	fresh := map[string]InForce{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, known := was.Files[name]
		if known && old.hash == names[name] {
			next.Files[name] = old
			continue
		}
		data, err := r.FileAt(ctx, root, name)
		if err != nil {
			return nil, err
		}
		f, err := ParseSetting(name, data)
		if err == nil {
			f.hash = names[name]
			fresh[name] = f
			continue
		}
		next.Problems = append(next.Problems, problemsOf(name, err)...)
		switch {
		case known:
			old.hash = ""
			next.Files[name] = old
		case name == desired.RepositoriesFile:
			next.Err = err
		}
	}
	return fresh, nil
}

// ParseSetting reads one file of the settings.
func ParseSetting(name string, data []byte) (f InForce, err error) {
	switch name {
	case desired.RepositoriesFile:
		f.Repos, err = desired.ParseRepositories(name, data)
	case desired.PeersFile:
		f.Peers, err = desired.ParsePeers(name, data)
	case desired.GrantingFile:
		f.granting, err = desired.ParseGranting(name, data)
	default:
		if path.Dir(name) == desired.ProjectDir {
			f.project, err = desired.ParseProject(name, data)
			break
		}
		f.VIM, err = desired.ParseVIM(name, data)
	}
	return f, err
}

// holdNeeded keeps in next the settings that counted before and are gone although an instance
// needs them.
func (r *Reader) holdNeeded(ctx context.Context, was SettingsState, next *SettingsState, fresh map[string]InForce, all Instances) error {
	if was.Good == nil {
		return nil
	}
	var vims []string
	for name, f := range was.Files {
		_, stands := next.Files[name]
		_, comes := fresh[name]
		if f.VIM != nil && !stands && !comes {
			vims = append(vims, f.VIM.Name)
		}
	}
	_, gone := was.Good.Without(next.Good)
	users, err := r.usersOf(ctx, was.Good, vims, gone, next.Good.Repositories, all)
	if err != nil {
		return err
	}
	for _, name := range vims {
		if p := users.vims.NeededVIM(name); p != nil {
			f := was.Files[p.File]
			f.hash = ""
			next.Files[p.File] = f
			next.hold(p)
		}
	}
	for _, g := range gone {
		if p := users.repositories.NeededRepository(g.Name); p != nil {
			next.Good.Repositories = append(slices.Clip(next.Good.Repositories), g)
			next.hold(p)
		}
	}
	return nil
}

func (s *SettingsState) hold(p *desired.Problem) {
	s.Held = true
	p.Message += "; meanwhile it counts as it last was"
	s.Problems = append(s.Problems, p)
}

// Join adds the files that stand and those that are fresh. If two can't stand together, the
// later one counts as it last was.
func (s *SettingsState) Join(was SettingsState, fresh map[string]InForce) {
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if v := s.Files[name].VIM; v != nil {
			s.Good.VIMs[v.Name] = v
		}
	}
	order := slices.SortedFunc(maps.Keys(fresh), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.takes(was, fresh, fresh[a].VIM), s.takes(was, fresh, fresh[b].VIM)), cmp.Compare(a, b))
	})
	for _, name := range order {
		f := fresh[name]
		if f.project != nil {
			continue
		}
		if f.VIM == nil {
			s.Files[name] = f
			continue
		}
		s.yieldDefault(f.VIM)
		if ps := s.Good.Clash(f.VIM); len(ps) > 0 {
			s.Problems, s.Clash = append(s.Problems, ps...), true
			old, known := was.Files[name]
			if !known {
				continue
			}
			if f = (InForce{VIM: old.VIM}); len(s.Good.Clash(f.VIM)) > 0 {
				v := *f.VIM
				v.Default = false
				f.VIM = &v
			}
		}
		s.Files[name] = f
		s.Good.VIMs[f.VIM.Name] = f.VIM
	}
	s.joinProjects(was, fresh)
	s.Good.Granting = s.Files[desired.GrantingFile].granting
	s.Problems = append(s.Problems, s.Good.Missing()...)
	slices.SortStableFunc(s.Problems, func(a, b *desired.Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if s.Err != nil {
		s.Good, s.Files = nil, nil
	}
}

// takes returns 1 where v claims what only one VIM may have, while another VIM had it before
// and still claims it, else 0. Files are sorted by it.
func (s *SettingsState) takes(was SettingsState, fresh map[string]InForce, v *desired.VIM) int {
	for name, old := range was.Files {
		now, ok := fresh[name]
		if !ok {
			now = s.Files[name]
		}
		if v == nil || old.VIM == nil || now.VIM == nil || old.VIM.Name == v.Name {
			continue
		}
		id := cmp.Or(old.VIM.ID, old.VIM.Name)
		if v.Default && old.VIM.Default && now.VIM.Default || id == cmp.Or(v.ID, v.Name) && id == cmp.Or(now.VIM.ID, now.VIM.Name) {
			return 1
		}
	}
	return 0
}

// yieldDefault ends the default of a VIM that is gone from head, where v is the default.
func (s *SettingsState) yieldDefault(v *desired.VIM) {
	name := s.Good.DefaultVIM()
	f, ok := s.Files[desired.VIMFile(name)]
	if !v.Default || name == "" || !ok || f.hash != "" {
		return
	}
	former := *f.VIM
	former.Default = false
	f.VIM = &former
	s.Files[desired.VIMFile(name)], s.Good.VIMs[name] = f, &former
}

// Instances are those at a head, and each as it was at the head before.
type Instances struct {
	List   func() []desired.Revision
	Before func(id string) (desired.Revision, bool)
	Needed NeededRepositories // nil: no instance needs one that is gone
}

// needs are the instances that need something.
type needs struct{ vims, repositories desired.Users }

// usersOf returns the instances that are instantiated and need one of the VIMs or package
// repositories that are gone. now are the settings by which they have run.
func (r *Reader) usersOf(ctx context.Context, now *desired.Settings, vims []string, gone, stay []desired.Repository, all Instances) (needs, error) {
	out := needs{desired.Users{}, desired.Users{}}
	var needed func(*desired.Instance) []string
	if len(gone) > 0 && all.Needed != nil {
		var err error
		if needed, err = all.Needed(ctx, gone, stay); err != nil {
			return out, fmt.Errorf("package repositories that are gone: %w", err)
		}
	}
	if len(vims) == 0 && needed == nil {
		return out, nil
	}
	for _, rev := range all.List() {
		in, err := r.Read(ctx, rev)
		if err != nil {
			return out, err
		}
		before, known := all.Before(rev.Instance)
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

// Put makes a file count.
func (s *SettingsState) Put(name string, f InForce) {
	s.Files[name] = f
	switch {
	case f.VIM != nil:
		s.Good.VIMs[f.VIM.Name] = f.VIM
	case f.project != nil:
		s.Good.AddProject(f.project)
	case name == desired.PeersFile:
		s.Good.Peers = f.Peers
	case name == desired.GrantingFile:
		s.Good.Granting = f.granting
	default:
		s.Good.Repositories = f.Repos
	}
}
