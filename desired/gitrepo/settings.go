package gitrepo

import (
	"context"
	"path"

	"github.com/jibe-vnfm/jibe/desired"
)

// SettingsAt reads vims/ and repositories.yaml at a commit, and nothing else.
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
	return vims.Mode + vims.Hash + repos.Mode + repos.Hash, nil
}

// settings reads vims/ and repositories.yaml below a root tree.
func (r *Reader) settings(ctx context.Context, root string) (*desired.Settings, error) {
	var names []string
	if e, ok, err := r.lookupPath(ctx, root, desired.RepositoriesFile); err != nil {
		return nil, r.damaged(desired.RepositoriesFile, err)
	} else if ok && e.IsFile() {
		names = append(names, desired.RepositoriesFile)
	}
	if e, ok, err := r.lookupPath(ctx, root, desired.VIMDir); err != nil {
		return nil, r.damaged(desired.VIMDir, err)
	} else if ok && e.IsDir() {
		t, err := r.tree(ctx, e.Hash)
		if err != nil {
			return nil, r.damaged(desired.VIMDir, err)
		}
		for _, v := range t.Entries() {
			if v.IsFile() {
				names = append(names, path.Join(desired.VIMDir, v.Name))
			}
		}
	}
	return desired.SettingsFrom(func(name string) ([]byte, error) { return r.fileAt(ctx, root, name) }, names)
}

// settingsFiles are the files of the settings below a root tree, with their hashes.
func (r *Reader) settingsFiles(ctx context.Context, root string) (map[string]string, error) {
	names := map[string]string{}
	if e, ok, err := r.lookupPath(ctx, root, desired.RepositoriesFile); err != nil {
		return nil, r.damaged(desired.RepositoriesFile, err)
	} else if ok && e.IsFile() {
		names[desired.RepositoriesFile] = e.Hash
	}
	e, ok, err := r.lookupPath(ctx, root, desired.VIMDir)
	if err != nil {
		return nil, r.damaged(desired.VIMDir, err)
	}
	if !ok || !e.IsDir() {
		return names, nil
	}
	t, err := r.tree(ctx, e.Hash)
	if err != nil {
		return nil, r.damaged(desired.VIMDir, err)
	}
	for _, v := range t.Entries() {
		if name := path.Join(desired.VIMDir, v.Name); v.IsFile() && desired.IsSettings(name) {
			names[name] = v.Hash
		}
	}
	return names, nil
}

// settingsLeniently reads the settings below a root tree without what can't be parsed.
func (r *Reader) settingsLeniently(ctx context.Context, root string) (*desired.Settings, error) {
	s := settingsState{files: map[string]inForce{}, good: &desired.Settings{VIMs: map[string]*desired.VIM{}}}
	fresh, err := r.parseSettings(ctx, root, settingsState{}, &s)
	if err != nil {
		return nil, err
	}
	s.err = nil
	s.good.Repositories = fresh[desired.RepositoriesFile].repos
	s.join(settingsState{}, fresh)
	return s.good, nil
}
