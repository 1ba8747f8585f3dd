package maintenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// BackupPath is where a server is asked for a backup of its data directory, and BackupKeptPath where it is told
// that one is in somebody's hands. Both are served at the API and on the socket in the data directory.
const (
	BackupPath     = "/jibe/v1/backup"
	BackupKeptPath = "/jibe/v1/backup/kept"
)

// Kept is the body of a request to [BackupKeptPath].
type Kept struct {
	// Taken is the moment of the backup, as its answer's header [TakenHeader] has it.
	Taken time.Time `json:"taken"`
}

// TakenHeader is the trailer of a backup's answer with the moment as of which it is.
const TakenHeader = "Jibe-Taken"

// Backups takes backups of a data directory on which this process serves.
type Backups struct {
	Source backup.Source
	Log    *slog.Logger

	taking sync.Mutex // while one is taken
}

// Take answers with a backup. Its answer has no end that a client could take for one where
// something goes wrong on the way.
func (b *Backups) Take(w http.ResponseWriter, r *http.Request) {
	if !b.taking.TryLock() {
		answer.Problem(w, http.StatusConflict, "a backup is being taken: ask again when it is done")
		return
	}
	defer b.taking.Unlock()
	listener.Unbound(w)
	out := &begun{w: w}
	started := time.Now()
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Trailer", TakenHeader)
	m, err := backup.Take(r.Context(), b.Source, out)
	switch {
	case err != nil && !out.has:
		w.Header().Del("Trailer")
		b.Log.ErrorContext(r.Context(), "backup", "error", err)
		answer.Problem(w, http.StatusInternalServerError, err.Error())
	case err != nil:
		b.Log.WarnContext(r.Context(), "a backup was cut short", "error", err)
		panic(http.ErrAbortHandler) // the client sees an answer without its end
	default:
		w.Header().Set(TakenHeader, m.Taken.Format(time.RFC3339Nano))
		b.Log.InfoContext(r.Context(), "backup taken", "files", len(m.Files), "bytes", m.Size(), "head", m.Head, "took", time.Since(started))
	}
}

// begun knows whether an answer has begun.
type begun struct {
	w   io.Writer
	has bool
}

func (a *begun) Write(p []byte) (int, error) {
	a.has = true
	return a.w.Write(p)
}

// Kept notes that a client has a backup whole.
func (b *Backups) Kept(w http.ResponseWriter, r *http.Request) {
	var kept Kept
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&kept); err != nil || kept.Taken.IsZero() || kept.Taken.After(time.Now().Add(time.Minute)) {
		answer.Problem(w, http.StatusBadRequest, "want {\"taken\": the moment that the backup's answer named}")
		return
	}
	if err := backup.SetLast(b.Source.Data, kept.Taken); err != nil {
		answer.Problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// BackupStopped takes a backup of a data directory on which no server runs. It fails where one does. o is
// for records in Redis; its URL may be left out.
func BackupStopped(ctx context.Context, d *datadir.Dir, o replicas.StoreOptions, version string, w io.Writer) (m *backup.Manifest, err error) {
	place, err := replicas.StoreOf(d.Path)
	if err != nil {
		return nil, err
	}
	if place == "" && !datadir.Exists(d.Store()) || !datadir.Exists(d.Desired()) {
		return nil, fmt.Errorf("%s is no data directory of Jibe: it has no %s or no %s", d.Path, datadir.StoreFile, "desired.git")
	}
	records, place, err := replicas.OpenStopped(ctx, d, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	return backup.Take(ctx, backup.Source{Data: d.Path, Version: version, Store: records, Place: place}, w)
}
