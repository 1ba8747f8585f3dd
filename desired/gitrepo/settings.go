package gitrepo

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// rootSettings are the files of the settings at the root, beside those of VIMs.
func rootSettings() []string {
	return []string{desired.RepositoriesFile, desired.PeersFile, desired.GrantingFile}
}

// settingsDirs are the folders of settings.
func settingsDirs() []string { return []string{desired.VIMDir, desired.ProjectDir} }

// SettingsAt reads vims/, projects/ and the files at the root that are settings at a commit, and nothing else.
func (r *Reader) SettingsAt(ctx context.Context, commit string) (*desired.Settings, error) {
	root, err := r.rootOf(ctx, commit)
	if err != nil {
		return nil, notFound(err)
	}
	return r.settings(ctx, root)
}

// settingsKey is equal for two root trees whose settings are the same.
func (r *Reader) settingsKey(ctx context.Context, root string) (string, error) {
	t, err := r.tree(ctx, root)
	if err != nil {
		return "", r.damaged("root tree "+root, err)
	}
	vims, _ := t.Find(desired.VIMDir)
	repos, _ := t.Find(desired.RepositoriesFile)
	peers, _ := t.Find(desired.PeersFile)
	granting, _ := t.Find(desired.GrantingFile)
	projects, _ := t.Find(desired.ProjectDir)
	return vims.Mode + vims.Hash + repos.Mode + repos.Hash + peers.Mode + peers.Hash + " " + granting.Mode + granting.Hash + " " + projects.Mode + projects.Hash, nil
}

// settings reads vims/, projects/ and the settings at the root below a root tree.
func (r *Reader) settings(ctx context.Context, root string) (*desired.Settings, error) {
	files, err := r.settingsFiles(ctx, root)
	if err != nil {
		return nil, err
	}
	return desired.SettingsFrom(func(name string) ([]byte, error) { return r.fileAt(ctx, root, name) }, slices.Collect(maps.Keys(files)))
}

// settingsFiles are the files of the settings below a root tree, with their hashes.
func (r *Reader) settingsFiles(ctx context.Context, root string) (map[string]string, error) {
	names := map[string]string{}
	for _, file := range rootSettings() {
		if e, ok, err := r.lookupPath(ctx, root, file); err != nil {
			return nil, r.damaged(file, err)
		} else if ok && e.IsFile() {
			names[file] = e.Hash
		}
	}
	for _, dir := range settingsDirs() {
		entries, err := r.settingsIn(ctx, root, dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name); e.IsFile() && desired.IsSettings(name) {
				names[name] = e.Hash
			}
		}
	}
	return names, nil
}

// settingsIn are the entries of a folder of settings below a root tree; none where it is absent.
func (r *Reader) settingsIn(ctx context.Context, root, dir string) ([]git.Entry, error) {
	e, ok, err := r.lookupPath(ctx, root, dir)
	if err != nil {
		return nil, r.damaged(dir, err)
	}
	if !ok || !e.IsDir() {
		return nil, nil
	}
	t, err := r.tree(ctx, e.Hash)
	if err != nil {
		return nil, r.damaged(dir, err)
	}
	return t.Entries(), nil
}

// settingsLeniently reads the settings below a root tree without what can't be parsed.
func (r *Reader) settingsLeniently(ctx context.Context, root string) (*desired.Settings, error) {
	s := settingsState{files: map[string]inForce{}, good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
	fresh, err := r.parseSettings(ctx, root, settingsState{}, &s)
	if err != nil {
		return nil, err
	}
	s.err = nil
	s.good.Repositories, s.good.Peers = fresh[desired.RepositoriesFile].repos, fresh[desired.PeersFile].peers
	s.join(settingsState{}, fresh)
	return s.good, nil
}
