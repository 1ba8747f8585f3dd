package maintenance

import (
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

	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// Restoring says what is restored, and where. From and Data or Store are required.
type Restoring struct {
	// From is how the backup is called where it is read.
	From string
	// Data is an empty directory that becomes the data directory; "" leaves data directories alone.
	Data string
	// Store names the Redis that gets the records; its zero value leaves them in the data directory.
	Store replicas.StoreOptions
	// Force has records that are in Redis replaced.
	Force bool
	Log   *slog.Logger
}

// Restore makes an empty directory the data directory of the backup that r reads, or has a Redis of
// which no process is a member get its records, or both. It has the audit log say who did so, when, and
// with which backup. A log that the backup hasn't, as it is kept elsewhere, or whose key is kept by
// somebody else, gets the record at the server's next start. It may be done again where it was interrupted.
func Restore(ctx context.Context, r io.Reader, o Restoring, identities ...backup.Identity) (*backup.Manifest, error) {
	sum := sha256.New()
	read := io.TeeReader(r, sum)
	settle := func(dir string, m *backup.Manifest) error {
		if _, err := io.Copy(io.Discard, read); err != nil { // the end of the file, which nothing but the sum needs
			return err
		}
		what := "the data directory is"
		if o.Store.URL != "" {
			what = "the records in Redis are"
		}
		note := audit.Record{
			Time: time.Now(), Identity: audit.HostUser(), Issuer: auth.IssuerHost, Action: "restore", Object: o.From, Outcome: audit.Done,
			Reason: fmt.Sprintf("%s that of %s now, by jibe %s; the backup's file has the SHA-256 %x", what, m.Taken.UTC().Format(time.RFC3339Nano), m.Jibe, sum.Sum(nil)),
		}
		var err error
		if o.Store.URL == "" {
			err = replicas.ForgetWhole(ctx, dir)
		} else if err = replicas.Restore(ctx, dir, m, replicas.RestoreOptions{Store: o.Store, Force: o.Force, Alone: o.Data == "", Log: o.Log}, note); err == nil && o.Data != "" {
			err = elsewhere(dir, o.Store.URL)
		}
		if err != nil || o.Data == "" {
			return err
		}
		return recordRestore(ctx, dir, note, o.Log)
	}
	if o.Data == "" {
		return backup.Verify(ctx, read, "", settle, identities...)
	}
	return backup.Restore(ctx, read, o.Data, o.Log, settle, identities...)
}

// elsewhere has a folder that becomes a data directory say that its records are in Redis.
func elsewhere(dir, url string) error {
	if err := os.Remove(filepath.Join(dir, datadir.StoreFile)); err != nil {
		return err
	}
	return datadir.WriteDurably(filepath.Join(dir, datadir.StorePlace), url+"\n")
}

// recordRestore adds a record to the audit log in a folder that becomes a data directory, or notes
// it for the server's next start.
func recordRestore(ctx context.Context, dir string, r audit.Record, log *slog.Logger) error {
	key, err := ownAuditLog(dir)
	if err != nil {
		log.Info("the audit log gets the record of this restore when the server is started", "reason", err)
		return noteRestore(dir, r)
	}
	l, err := audit.Open(audit.Options{Path: datadir.AuditFile(dir), Head: datadir.AuditHead(dir), Key: key, Log: log})
	if err != nil {
		return err
	}
	return errors.Join(l.Record(ctx, r), l.Close())
}

// ownAuditLog returns the key of the audit log in a folder. It returns an error unless that log is the
// whole one: a record would otherwise go on with a chain that goes on elsewhere.
func ownAuditLog(dir string) (key []byte, err error) {
	if !datadir.Exists(datadir.AuditFile(dir)) {
		return nil, errors.New("the backup has no audit log")
	}
	if key, err = datadir.DerivedKey(dir, secret.LockOptions{}, datadir.AuditPurpose); err != nil {
		return nil, err
	}
	end, err := audit.ReadHead(datadir.AuditHead(dir), key)
	if err != nil {
		return nil, err
	}
	_, err = audit.Verify(audit.Check{Key: key, Ends: []audit.Head{end}, Partial: true}, datadir.AuditFile(dir))
	return key, err
}

// noteRestore adds a record to those that the audit log is still to get.
func noteRestore(dir string, r audit.Record) error {
	file := filepath.Join(dir, datadir.RestoredFile)
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
