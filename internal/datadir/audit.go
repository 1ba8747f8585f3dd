package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

// AuditFile is the file of the audit log in a data directory.
func AuditFile(data string) string { return filepath.Join(data, "audit.jsonl") }

// AuditHead is the file that notes how far the audit log goes.
func AuditHead(data string) string { return filepath.Join(data, "audit.head") }

// RestoredFile is the name of the file in a data directory with the records of restores that the
// audit log is still to get, one a line.
const RestoredFile = "restored.jsonl"

// What keys are for that are derived from the key in a data directory.
const (
	// AuditPurpose is for the chain of the audit log's records.
	AuditPurpose = "audit log"
	// GitPurpose is for Jibe's own commits, and the notes of who pushed.
	GitPurpose = "pushes and commits"
)

// DerivedKey is the key for a purpose that is derived from the key in a data directory. It never
// makes one.
func DerivedKey(data string, lock secret.LockOptions, purpose string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(data, secret.IdentityFile)); err != nil {
		return nil, fmt.Errorf("%s is no data directory of Jibe: %w", data, err)
	}
	by, err := lock.Lock()
	if err != nil {
		return nil, err
	}
	keeper, err := secret.Open(data, by)
	if err != nil {
		return nil, err
	}
	return keeper.Derive(purpose), nil
}
