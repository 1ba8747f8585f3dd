package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// maxLookups is how many instances are looked up to recognise the repository.
const maxLookups = 100

// checkKnown refuses a desired repository that can't be the one of the store's instances:
// it has none of them, and has never had the revisions that were last operated on.
func (s *state) checkKnown(ctx context.Context) error {
	n := 0
	for inst := range s.oplog.InstanceEntries("") {
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
		"to begin with nothing, give another --data", s.Branch, s.data.Path, datadir.StoreFile)
}
