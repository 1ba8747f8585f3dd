package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/desired"
)

// storeFile is the store below the data directory.
const storeFile = "store.db"

// noRepository refuses a data directory that is a git repository itself: keys, tokens and
// the store don't belong into one, and a person who gives a clone here takes it for the
// desired repository.
func noRepository(dir string) error {
	what := ""
	switch {
	case present(filepath.Join(dir, ".git")):
		what = "a work tree of git (it has .git)"
	case present(filepath.Join(dir, "HEAD")) && present(filepath.Join(dir, "objects")) && present(filepath.Join(dir, "refs")):
		what = "a bare repository of git"
	default:
		return nil
	}
	return fmt.Errorf("data directory %s is %s: Jibe keeps its keys, tokens and store in a directory of its own, with the desired repository in it; "+
		"give it another --data. A clone of the desired repository is pushed from; one that a forge has is followed with --remote", dir, what)
}

// complete refuses a data directory that has a store, but whose desired repository is
// gone: with an empty one in its place, everything that runs would look as if it had been
// removed. With a remote, the repository is only a mirror, which is fetched anew;
// [Server.checkKnown] sees then whether it is the same one.
func (d *Data) complete(remote string) error {
	if remote != "" || !present(d.path(storeFile)) {
		return nil
	}
	if items, err := os.ReadDir(d.desired()); err == nil && len(items) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // opening it says what is wrong with it
	}
	return fmt.Errorf("data directory %s has a store (%s), but its desired repository (%s) is gone: with an empty one, all that runs would be terminated. "+
		"Put it back (git clone --mirror <a clone or backup> %s), or follow the forge that has it with --remote; "+
		"to begin with nothing, give another --data", d.Dir, storeFile, filepath.Base(d.desired()), d.desired())
}

// maxLookups is how many instances are looked up to recognise the repository.
const maxLookups = 100

// checkKnown refuses a desired repository that can't be the one of the store's instances:
// it has none of them, and has never had the revisions that were last operated on.
func (s *Server) checkKnown(ctx context.Context) error {
	known, err := s.oplog.Instances(ctx, "", 0)
	if err != nil {
		return fmt.Errorf("instances that the store knows: %w", err)
	}
	n := 0
	for _, inst := range known {
		if _, exists := s.repo.Lookup(inst.ID); exists {
			return nil
		}
		if inst.Operated.Tree == "" {
			continue
		}
		if n++; n > maxLookups {
			break
		}
		if _, err := s.repo.Read(ctx, inst.Operated); !errors.Is(err, desired.ErrNotFound) {
			return nil // it was removed from this very repository
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("branch %s of the desired repository is not what data directory %s was used with: it has none of the VNF instances that the store (%s) has, "+
		"nor their history, and all that runs would be terminated. Name the right --remote and --branch, or put the repository back from a backup; "+
		"to begin with nothing, give another --data", s.Branch, s.data.Dir, storeFile)
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
