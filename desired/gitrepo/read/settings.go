package read

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// RootSettings are the files of the settings at the root, beside those of VIMs.
func RootSettings() []string {
	return []string{desired.RepositoriesFile, desired.PeersFile, desired.GrantingFile}
}

// SettingsDirs are the folders of settings.
func SettingsDirs() []string { return []string{desired.VIMDir, desired.ProjectDir} }

// SettingsAt reads vims/, projects/ and the files at the root that are settings at a commit, and nothing else.
func (r *Reader) SettingsAt(ctx context.Context, commit string) (*desired.Settings, error) {
	root, err := r.RootOf(ctx, commit)
	if err != nil {
		return nil, objects.NotFound(err)
	}
	return r.SettingsBelow(ctx, root)
}

// SettingsKey is equal for two root trees whose settings are the same.
func (r *Reader) SettingsKey(ctx context.Context, root string) (string, error) {
	t, err := r.Tree(ctx, root)
	if err != nil {
		return "", r.Damaged("root tree "+root, err)
	}
	vims, _ := t.Find(desired.VIMDir)
	repos, _ := t.Find(desired.RepositoriesFile)
	peers, _ := t.Find(desired.PeersFile)
	granting, _ := t.Find(desired.GrantingFile)
	projects, _ := t.Find(desired.ProjectDir)
	return vims.Mode + vims.Hash + repos.Mode + repos.Hash + peers.Mode + peers.Hash + " " + granting.Mode + granting.Hash + " " + projects.Mode + projects.Hash, nil
}

// SettingsBelow reads vims/, projects/ and the settings at the root below a root tree.
func (r *Reader) SettingsBelow(ctx context.Context, root string) (*desired.Settings, error) {
	files, err := r.SettingsFiles(ctx, root)
	if err != nil {
		return nil, err
	}
	return desired.SettingsFrom(func(name string) ([]byte, error) { return r.FileAt(ctx, root, name) }, slices.Collect(maps.Keys(files)))
}

// SettingsFiles are the files of the settings below a root tree, with their hashes.
func (r *Reader) SettingsFiles(ctx context.Context, root string) (map[string]string, error) {
	names := map[string]string{}
	for _, file := range RootSettings() {
		if e, ok, err := r.LookupPath(ctx, root, file); err != nil {
			return nil, r.Damaged(file, err)
		} else if ok && e.IsFile() {
			names[file] = e.Hash
		}
	}
	for _, dir := range SettingsDirs() {
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
	e, ok, err := r.LookupPath(ctx, root, dir)
	if err != nil {
		return nil, r.Damaged(dir, err)
	}
	if !ok || !e.IsDir() {
		return nil, nil
	}
	t, err := r.Tree(ctx, e.Hash)
	if err != nil {
		return nil, r.Damaged(dir, err)
	}
	return t.Entries(), nil
}

// SettingsLeniently reads the settings below a root tree without what can't be parsed.
func (r *Reader) SettingsLeniently(ctx context.Context, root string) (*desired.Settings, error) {
	s := SettingsState{Files: map[string]InForce{}, Good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
	fresh, err := r.ParseSettings(ctx, root, SettingsState{}, &s)
	if err != nil {
		return nil, err
	}
	s.Err = nil
	s.Good.Repositories, s.Good.Peers = fresh[desired.RepositoriesFile].Repos, fresh[desired.PeersFile].Peers
	s.Join(SettingsState{}, fresh)
	return s.Good, nil
}
