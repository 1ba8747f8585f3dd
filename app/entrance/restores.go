package entrance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// restores records the restores that are noted in a data directory. Where the process ends before
// the note is gone, they are recorded once more: rather that than not at all.
func (a *Recorder) restores(data string) error {
	file := filepath.Join(data, datadir.RestoredFile)
	noted, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("restores that the audit log is to get: %w", err)
	}
	if recorded, err := a.Restored(noted, file); err != nil || !recorded {
		return err // the note stays for another start
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("restores that the audit log has got: %w", err)
	}
	return nil
}

// Restored records restores that are noted at a place, one a line. It returns false where they can't be
// recorded, and that is no reason not to go on.
func (a *Recorder) Restored(noted []byte, at string) (recorded bool, err error) {
	lines := bufio.NewScanner(bytes.NewReader(noted))
	for lines.Scan() {
		var r audit.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = audit.Record{Object: at, Outcome: audit.Failed, Reason: "it isn't known who restored which backup: " + err.Error()}
		}
		r.Action, r.Issuer = "restore", auth.IssuerHost
		if err := a.Record(context.Background(), r); err != nil {
			if a.anyway {
				err = nil
			}
			return false, err
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("restores that the audit log is to get, in %s: %w", at, err)
	}
	return true, nil
}
