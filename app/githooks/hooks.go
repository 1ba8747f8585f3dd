package githooks

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// Hooks installs the push hooks of the local repositories.
type Hooks struct {
	// Binary is the path of jibe itself, which the hooks run; "" installs none.
	Binary string
	// Socket is where they ask.
	Socket string
	// Packages is the directory of the package repositories.
	Packages string
	// Repo is the desired repository.
	Repo interface{ InstallHooks(h gitrepo.Hook) error }

	mu sync.Mutex // while hooks are written
}

// Install makes sure that git asks this server about pushes to a repository.
func (i *Hooks) Install(dir, name string) error {
	if i.Binary == "" {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	h := gitrepo.Hook{Binary: i.Binary, Socket: i.Socket, Repository: name}
	if name == admission.DesiredRepository {
		return i.Repo.InstallHooks(h)
	}
	return gitrepo.InstallHook(dir, h)
}

// InstallPackages does so for the package repositories that are there.
func (i *Hooks) InstallPackages() error {
	dirs, err := filepath.Glob(filepath.Join(i.Packages, "*.git"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := i.Install(dir, filepath.Base(dir)); err != nil {
			return fmt.Errorf("package repository %s: %w", dir, err)
		}
	}
	return nil
}
