package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// recoverSettings finds, after a start, the settings that count although head doesn't have
// them: the last good content of files that can't be parsed, and files that are gone although
// instances need them.
func (r *Repo) recoverSettings(ctx context.Context, head string) error {
	if head == "" {
		return nil
	}
	now := r.settings
	was, err := r.beforeClash(ctx, head, now)
	if err != nil {
		return err
	}
	found := now.clash
	for _, p := range now.problems {
		if slices.Contains(settingsDirs(), p.File) && !now.clash {
			below, err := r.lastGoodFolder(ctx, head, p.File)
			if err != nil {
				return err
			}
			for _, name := range sortedKeys(below) {
				found = true
				was.put(name, below[name])
			}
			continue
		}
		if f, err := r.lastGood(ctx, head, p.File, nil); err != nil {
			return err
		} else if f != nil && !now.clash {
			found = true
			was.put(p.File, *f)
		}
	}
	gone, err := r.goneVIMs(ctx, head, was)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		found = true
		was.put(desired.VIMFile(name), *gone[name])
	}
	repos, err := r.goneRepositories(ctx, head, was)
	if err != nil {
		return err
	}
	if len(repos) > 0 {
		found = true
		was.good.Repositories = append(slices.Clip(was.good.Repositories), repos...)
	}
	if !found {
		return nil
	}
	was.held = true // look at all of it
	set, err := r.readSettings(ctx, r.root, was, instances{r.List, r.Lookup})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.settings = set
	r.mu.Unlock()
	return nil
}

// beforeClash returns the settings that count now. Where files of head can't stand together,
// it returns those that counted at the last commit where all could.
func (r *Repo) beforeClash(ctx context.Context, head string, now settingsState) (settingsState, error) {
	was := settingsState{files: maps.Clone(now.files), good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
	if was.files == nil {
		was.files = map[string]inForce{}
	}
	if now.good != nil {
		*was.good = desired.Settings{Repositories: now.good.Repositories, VIMs: maps.Clone(now.good.VIMs), Peers: now.good.Peers, Granting: now.good.Granting, Projects: maps.Clone(now.good.Projects)}
	}
	if !now.clash {
		return was, nil
	}
	err := r.eachCommit(ctx, head, slices.Concat(rootSettings(), settingsDirs()), func(c pastCommit) (bool, error) {
		past := settingsState{files: map[string]inForce{}, good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
		fresh, err := r.parseSettings(ctx, c.root, settingsState{}, &past)
		if err != nil {
			return false, err
		}
		past.good.Repositories, past.good.Peers = fresh[desired.RepositoriesFile].repos, fresh[desired.PeersFile].peers
		past.join(settingsState{}, fresh)
		if len(past.problems) > 0 {
			return false, nil
		}
		was = past
		return true, nil
	})
	if err != nil {
		return was, fmt.Errorf("look for settings that stand together: %w", err)
	}
	return was, nil
}

// put makes a file count.
func (s *settingsState) put(name string, f inForce) {
	s.files[name] = f
	switch {
	case f.vim != nil:
		s.good.VIMs[f.vim.Name] = f.vim
	case f.project != nil:
		s.good.AddProject(f.project)
	case name == desired.PeersFile:
		s.good.Peers = f.peers
	case name == desired.GrantingFile:
		s.good.Granting = f.granting
	default:
		s.good.Repositories = f.repos
	}
}

// lastGood returns the newest content of a file in head's history that could be parsed, nil
// where there is none since the file was added last. With removed, it returns the content
// before the commit that removed the file; removed is first asked whether that commit counts.
func (r *Repo) lastGood(ctx context.Context, head, file string, removed func(commit string) (bool, error)) (f *inForce, err error) {
	err = r.eachCommit(ctx, head, []string{file}, func(c pastCommit) (bool, error) {
		data, err := r.fileAt(ctx, c.root, file)
		if _, there, lerr := r.lookupPath(ctx, c.root, file); lerr != nil || there && errors.Is(err, desired.ErrNotFound) {
			return false, lerr // something else stood there
		}
		if errors.Is(err, desired.ErrNotFound) {
			if removed == nil {
				return true, nil
			}
			ask := removed
			removed = nil
			ok, err := ask(c.hash)
			return !ok, err
		}
		if err != nil {
			return false, err
		}
		good, err := parseSetting(file, data)
		if err != nil {
			return false, nil //nolint:nilerr // not a good one either
		}
		f = &good
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the last good %s: %w", file, err)
	}
	return f, nil
}

// lastGoodFolder returns the files of a folder of settings as they were when it was a folder last in head's history.
func (r *Repo) lastGoodFolder(ctx context.Context, head, dir string) (map[string]inForce, error) {
	out := map[string]inForce{}
	err := r.eachCommit(ctx, head, []string{dir}, func(c pastCommit) (bool, error) {
		e, ok, err := r.lookupPath(ctx, c.root, dir)
		if err != nil || ok && !e.IsDir() {
			return false, err
		}
		past := settingsState{files: map[string]inForce{}, good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
		fresh, err := r.parseSettings(ctx, c.root, settingsState{}, &past)
		for name, f := range fresh {
			if path.Dir(name) == dir {
				out[name] = f
			}
		}
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the last good %s: %w", dir, err)
	}
	return out, nil
}

// goneVIMs returns the VIMs whose files are gone although instances needed them then and still
// do.
func (r *Repo) goneVIMs(ctx context.Context, head string, now settingsState) (map[string]*inForce, error) {
	out, err := r.git.Run(ctx, "log", "--diff-filter=D", "--no-renames", "--name-only", "--format=", head, "--", desired.VIMDir)
	if err != nil {
		return nil, fmt.Errorf("look for VIMs that are gone: %w", err)
	}
	gone := map[string]bool{}
	for name := range strings.Lines(out) {
		name = strings.TrimSpace(name)
		if _, known := now.files[name]; !known && desired.IsSettings(name) {
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	var users []*desired.Instance
	for _, rev := range r.List() {
		in, err := r.Read(ctx, rev)
		if err != nil {
			return nil, err
		}
		if !desired.MayHaveObjects(in) {
			continue
		}
		named := now.good.VIMsOf(in)
		if len(named) == 0 && len(in.VIMConnections) == 0 || slices.ContainsFunc(named, func(name string) bool { return gone[desired.VIMFile(name)] }) {
			users = append(users, in)
		}
	}
	if len(users) == 0 {
		return nil, nil
	}
	held := map[string]*inForce{}
	for _, file := range sortedKeys(gone) {
		f, err := r.lastGood(ctx, head, file, func(commit string) (bool, error) {
			then, err := r.At(ctx, commit)
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(users, func(in *desired.Instance) bool {
				rev, ok := then.Lookup(in.ID)
				if !ok {
					return false
				}
				was, err := then.Read(ctx, rev)
				if err != nil || !desired.MayHaveObjects(was) {
					return false
				}
				named := now.good.VIMsOf(was)
				return len(named) == 0 || slices.Contains(named, strings.TrimSuffix(path.Base(file), ".yaml"))
			}), nil
		})
		if err != nil {
			return nil, err
		}
		if f != nil && f.vim != nil {
			held[f.vim.Name] = f
		}
	}
	return held, nil
}

// goneRepositories returns the newest entries of package repositories that repositories.yaml
// had and lacks now.
func (r *Repo) goneRepositories(ctx context.Context, head string, now settingsState) ([]desired.Repository, error) {
	if r.opt.NeededRepositories == nil {
		return nil, nil
	}
	all := slices.Clone(now.good.Repositories)
	err := r.eachCommit(ctx, head, []string{desired.RepositoriesFile}, func(c pastCommit) (bool, error) {
		data, err := r.fileAt(ctx, c.root, desired.RepositoriesFile)
		if errors.Is(err, desired.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		entries, err := desired.ParseRepositories(desired.RepositoriesFile, data)
		if err != nil {
			return false, nil //nolint:nilerr // nothing counted then
		}
		for _, e := range entries {
			if !slices.ContainsFunc(all, func(x desired.Repository) bool { return x.Name == e.Name }) {
				all = append(all, e)
			}
		}
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for package repositories that are gone: %w", err)
	}
	return all[len(now.good.Repositories):], nil
}
