package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// restoredFile is the name of the file in a data directory with the records of restores that the
// audit log is still to get, one a line.
const restoredFile = "restored.jsonl"

// Restore makes an empty directory the data directory of the backup that r reads, and has its
// audit log say who did so, when, and with which backup; from is how the backup is called there. A
// log that the backup hasn't, as it is kept elsewhere, or whose key is kept by somebody else, gets
// the record at the server's next start.
func Restore(ctx context.Context, r io.Reader, from, data string, log *slog.Logger, identities ...backup.Identity) (*backup.Manifest, error) {
	sum := sha256.New()
	read := io.TeeReader(r, sum)
	return backup.Restore(ctx, read, data, log, func(dir string, m *backup.Manifest) error {
		if _, err := io.Copy(io.Discard, read); err != nil { // the end of the file, which nothing but the sum needs
			return err
		}
		return recordRestore(ctx, dir, audit.Record{
			Time: time.Now(), Identity: hostUser(), Issuer: auth.IssuerHost, Action: "restore", Object: from, Outcome: audit.Done,
			Reason: fmt.Sprintf("the data directory is that of %s now, by jibe %s; the backup's file has the SHA-256 %x", m.Taken.UTC().Format(time.RFC3339Nano), m.Jibe, sum.Sum(nil)),
		}, log)
	}, identities...)
}

// recordRestore adds a record to the audit log in a folder that becomes a data directory, or notes
// it for the server's next start.
func recordRestore(ctx context.Context, dir string, r audit.Record, log *slog.Logger) error {
	key, err := ownAuditLog(dir)
	if err != nil {
		log.Info("the audit log gets the record of this restore when the server is started", "reason", err)
		return noteRestore(dir, r)
	}
	l, err := audit.Open(audit.Options{Path: AuditFile(dir), Head: AuditHead(dir), Key: key, Log: log})
	if err != nil {
		return err
	}
	return errors.Join(l.Record(ctx, r), l.Close())
}

// ownAuditLog returns the key of the audit log in a folder. It returns an error unless that log is the
// whole one: a record would otherwise go on with a chain that goes on elsewhere.
func ownAuditLog(dir string) (key []byte, err error) {
	if !datadir.Exists(AuditFile(dir)) {
		return nil, errors.New("the backup has no audit log")
	}
	if key, err = derivedKey(dir, secret.LockOptions{}, auditPurpose); err != nil {
		return nil, err
	}
	end, err := audit.ReadHead(AuditHead(dir), key)
	if err != nil {
		return nil, err
	}
	_, err = audit.Verify(audit.Check{Key: key, Ends: []audit.Head{end}, Partial: true}, AuditFile(dir))
	return key, err
}

// noteRestore adds a record to those that the audit log is still to get.
func noteRestore(dir string, r audit.Record) error {
	file := filepath.Join(dir, restoredFile)
	noted, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note the restore for the audit log: %w", err)
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = datadir.WriteDurably(file, string(noted)+string(text)+"\n")
	}
	if err != nil {
		return fmt.Errorf("note the restore for the audit log: %w", err)
	}
	return nil
}

// restores records the restores that are noted in a data directory. Where the process ends before
// the note is gone, they are recorded once more: rather that than not at all.
func (a *recorder) restores(data string) error {
	file := filepath.Join(data, restoredFile)
	noted, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("restores that the audit log is to get: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(noted))
	for lines.Scan() {
		var r audit.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = audit.Record{Object: file, Outcome: audit.Failed, Reason: "it isn't known who restored which backup: " + err.Error()}
		}
		r.Action, r.Issuer = "restore", auth.IssuerHost
		if err := a.Record(context.Background(), r); err != nil {
			if a.anyway {
				return nil // the note stays for another start
			}
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("restores that the audit log is to get, in %s: %w", file, err)
	}
	if err := os.Remove(file); err != nil {
		return fmt.Errorf("restores that the audit log has got: %w", err)
	}
	return nil
}
