package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
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

// takeBackup answers with a backup. Its answer has no end that a client could take for one where
// something goes wrong on the way.
func (s *Server) takeBackup(w http.ResponseWriter, r *http.Request) {
	if !s.backing.TryLock() {
		respondProblem(w, http.StatusConflict, "a backup is being taken: ask again when it is done")
		return
	}
	defer s.backing.Unlock()
	unbound(w)
	out := &answer{w: w}
	started := time.Now()
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Trailer", TakenHeader)
	m, err := backup.Take(r.Context(), backup.Source{Data: s.data.Path, Version: s.Version, Store: s.backupStore(), Still: s.repo.Still}, out)
	switch {
	case err != nil && !out.begun:
		w.Header().Del("Trailer")
		s.Log.ErrorContext(r.Context(), "backup", "error", err)
		respondProblem(w, http.StatusInternalServerError, err.Error())
	case err != nil:
		s.Log.WarnContext(r.Context(), "a backup was cut short", "error", err)
		panic(http.ErrAbortHandler) // the client sees an answer without its end
	default:
		w.Header().Set(TakenHeader, m.Taken.Format(time.RFC3339Nano))
		s.Log.InfoContext(r.Context(), "backup taken", "files", len(m.Files), "bytes", m.Size(), "head", m.Head, "took", time.Since(started))
	}
}

// answer knows whether an answer has begun.
type answer struct {
	w     io.Writer
	begun bool
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.w.Write(p)
}

// keptBackup notes that a client has a backup whole.
func (s *Server) keptBackup(w http.ResponseWriter, r *http.Request) {
	var kept Kept
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&kept); err != nil || kept.Taken.IsZero() || kept.Taken.After(time.Now().Add(time.Minute)) {
		respondProblem(w, http.StatusBadRequest, "want {\"taken\": the moment that the backup's answer named}")
		return
	}
	if err := backup.SetLast(s.data.Path, kept.Taken); err != nil {
		respondProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// hostOnly lets in, on the socket in the data directory, who could read the directory anyway, and
// records what they ask for.
func (s *Server) hostOnly(action string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := localPusher(r.Context())
		if err != nil {
			respondProblem(w, http.StatusForbidden, err.Error())
			return
		}
		if action != "" {
			err := s.audit.Record(r.Context(), audit.Record{Identity: by.who.Name, Issuer: auth.IssuerHost, Action: action, Outcome: audit.Done})
			if err != nil && !s.audit.anyway {
				respondProblem(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		next(w, r)
	}
}

// BackupStopped takes a backup of a data directory on which no server runs. It fails where one does.
func BackupStopped(ctx context.Context, d *datadir.Dir, version string, w io.Writer) (*backup.Manifest, error) {
	place, err := StoreOf(d.Path)
	if err != nil {
		return nil, err
	}
	if place == "" && !datadir.Exists(d.Store()) || !datadir.Exists(d.Desired()) {
		return nil, fmt.Errorf("%s is no data directory of Jibe: it has no %s or no %s", d.Path, datadir.StoreFile, "desired.git")
	}
	if place != "" {
		return backup.Take(ctx, backup.Source{Data: d.Path, Version: version}, w)
	}
	store, err := openBolt(d)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return backup.Take(ctx, backup.Source{Data: d.Path, Version: version, Store: store}, w)
}
