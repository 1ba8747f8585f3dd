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
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
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
	found := now.Clash
	for _, p := range now.Problems {
		if slices.Contains(read.SettingsDirs(), p.File) && !now.Clash {
			below, err := r.lastGoodFolder(ctx, head, p.File)
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(below)) {
				found = true
				was.Put(name, below[name])
			}
			continue
		}
		if f, err := r.lastGood(ctx, head, p.File, nil); err != nil {
			return err
		} else if f != nil && !now.Clash {
			found = true
			was.Put(p.File, *f)
		}
	}
	gone, err := r.goneVIMs(ctx, head, was)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		found = true
		was.Put(desired.VIMFile(name), *gone[name])
	}
	repos, err := r.goneRepositories(ctx, head, was)
	if err != nil {
		return err
	}
	if len(repos) > 0 {
		found = true
		was.Good.Repositories = append(slices.Clip(was.Good.Repositories), repos...)
	}
	if !found {
		return nil
	}
	was.Held = true // look at all of it
	set, err := r.read.ReadSettings(ctx, r.root, was, read.Instances{List: r.List, Before: r.Lookup, Needed: r.opt.NeededRepositories})
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
func (r *Repo) beforeClash(ctx context.Context, head string, now read.SettingsState) (read.SettingsState, error) {
	was := read.SettingsState{Files: maps.Clone(now.Files), Good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
	if was.Files == nil {
		was.Files = map[string]read.InForce{}
	}
	if now.Good != nil {
		*was.Good = desired.Settings{Repositories: now.Good.Repositories, VIMs: maps.Clone(now.Good.VIMs), Peers: now.Good.Peers, Granting: now.Good.Granting, Projects: maps.Clone(now.Good.Projects)}
	}
	if !now.Clash {
		return was, nil
	}
	err := r.read.EachCommit(ctx, head, slices.Concat(read.RootSettings(), read.SettingsDirs()), func(c read.PastCommit) (bool, error) {
		past := read.SettingsState{Files: map[string]read.InForce{}, Good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
		fresh, err := r.read.ParseSettings(ctx, c.Root, read.SettingsState{}, &past)
		if err != nil {
			return false, err
		}
		past.Good.Repositories, past.Good.Peers = fresh[desired.RepositoriesFile].Repos, fresh[desired.PeersFile].Peers
		past.Join(read.SettingsState{}, fresh)
		if len(past.Problems) > 0 {
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

// lastGood returns the newest content of a file in head's history that could be parsed, nil
// where there is none since the file was added last. With removed, it returns the content
// before the commit that removed the file; removed is first asked whether that commit counts.
func (r *Repo) lastGood(ctx context.Context, head, file string, removed func(commit string) (bool, error)) (f *read.InForce, err error) {
	err = r.read.EachCommit(ctx, head, []string{file}, func(c read.PastCommit) (bool, error) {
		data, err := r.read.FileAt(ctx, c.Root, file)
		if _, there, lerr := r.read.LookupPath(ctx, c.Root, file); lerr != nil || there && errors.Is(err, desired.ErrNotFound) {
			return false, lerr // something else stood there
		}
		if errors.Is(err, desired.ErrNotFound) {
			if removed == nil {
				return true, nil
			}
			ask := removed
			removed = nil
			ok, err := ask(c.Hash)
			return !ok, err
		}
		if err != nil {
			return false, err
		}
		good, err := read.ParseSetting(file, data)
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
func (r *Repo) lastGoodFolder(ctx context.Context, head, dir string) (map[string]read.InForce, error) {
	out := map[string]read.InForce{}
	err := r.read.EachCommit(ctx, head, []string{dir}, func(c read.PastCommit) (bool, error) {
		e, ok, err := r.read.LookupPath(ctx, c.Root, dir)
		if err != nil || ok && !e.IsDir() {
			return false, err
		}
		past := read.SettingsState{Files: map[string]read.InForce{}, Good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
		fresh, err := r.read.ParseSettings(ctx, c.Root, read.SettingsState{}, &past)
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
func (r *Repo) goneVIMs(ctx context.Context, head string, now read.SettingsState) (map[string]*read.InForce, error) {
	out, err := r.read.Git.Run(ctx, "log", "--diff-filter=D", "--no-renames", "--name-only", "--format=", head, "--", desired.VIMDir)
	if err != nil {
		return nil, fmt.Errorf("look for VIMs that are gone: %w", err)
	}
	gone := map[string]bool{}
	for name := range strings.Lines(out) {
		name = strings.TrimSpace(name)
		if _, known := now.Files[name]; !known && desired.IsSettings(name) {
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	var users []*desired.Instance
	for _, rev := range r.List() {
		in, err := r.read.Read(ctx, rev)
		if err != nil {
			return nil, err
		}
		if !desired.MayHaveObjects(in) {
			continue
		}
		named := now.Good.VIMsOf(in)
		if len(named) == 0 && len(in.VIMConnections) == 0 || slices.ContainsFunc(named, func(name string) bool { return gone[desired.VIMFile(name)] }) {
			users = append(users, in)
		}
	}
	if len(users) == 0 {
		return nil, nil
	}
	held := map[string]*read.InForce{}
	for _, file := range slices.Sorted(maps.Keys(gone)) {
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
				named := now.Good.VIMsOf(was)
				return len(named) == 0 || slices.Contains(named, strings.TrimSuffix(path.Base(file), ".yaml"))
			}), nil
		})
		if err != nil {
			return nil, err
		}
		if f != nil && f.VIM != nil {
			held[f.VIM.Name] = f
		}
	}
	return held, nil
}

// goneRepositories returns the newest entries of package repositories that repositories.yaml
// had and lacks now.
func (r *Repo) goneRepositories(ctx context.Context, head string, now read.SettingsState) ([]desired.Repository, error) {
	if r.opt.NeededRepositories == nil {
		return nil, nil
	}
	all := slices.Clone(now.Good.Repositories)
	err := r.read.EachCommit(ctx, head, []string{desired.RepositoriesFile}, func(c read.PastCommit) (bool, error) {
		data, err := r.read.FileAt(ctx, c.Root, desired.RepositoriesFile)
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
	return all[len(now.Good.Repositories):], nil
}
