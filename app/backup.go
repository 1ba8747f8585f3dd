package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/app/listener"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/store/redis"
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
		answer.Problem(w, http.StatusConflict, "a backup is being taken: ask again when it is done")
		return
	}
	defer s.backing.Unlock()
	listener.Unbound(w)
	out := &begun{w: w}
	started := time.Now()
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Trailer", TakenHeader)
	m, err := backup.Take(r.Context(), s.backupSource(), out)
	switch {
	case err != nil && !out.has:
		w.Header().Del("Trailer")
		s.Log.ErrorContext(r.Context(), "backup", "error", err)
		answer.Problem(w, http.StatusInternalServerError, err.Error())
	case err != nil:
		s.Log.WarnContext(r.Context(), "a backup was cut short", "error", err)
		panic(http.ErrAbortHandler) // the client sees an answer without its end
	default:
		w.Header().Set(TakenHeader, m.Taken.Format(time.RFC3339Nano))
		s.Log.InfoContext(r.Context(), "backup taken", "files", len(m.Files), "bytes", m.Size(), "head", m.Head, "took", time.Since(started))
	}
}

// backupSource is what a backup is taken of.
func (s *Server) backupSource() backup.Source {
	b := backup.Source{Data: s.data.Path, Version: s.Version, Store: s.store, Place: s.Store.URL, Still: s.repo.Still}
	if s.shared() {
		b.Follow = s.followAccepted
	}
	return b
}

// followPatience is how long a backup waits for the commits of other replicas.
const followPatience = 10 * time.Second

// followAccepted waits for the commits that other replicas have pushed. Where the git server is away, a backup
// does without: that server has them.
func (s *Server) followAccepted(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	commit, err := s.accepted.Load(within)
	if err == nil && commit != "" {
		err = s.repo.WaitFor(within, commit)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.Log.WarnContext(ctx, "the backup's mirror may lack the newest commits, which the git server has", "error", err)
	}
	return nil
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

// keptBackup notes that a client has a backup whole.
func (s *Server) keptBackup(w http.ResponseWriter, r *http.Request) {
	var kept Kept
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<10))
	d.DisallowUnknownFields()
	if err := d.Decode(&kept); err != nil || kept.Taken.IsZero() || kept.Taken.After(time.Now().Add(time.Minute)) {
		answer.Problem(w, http.StatusBadRequest, "want {\"taken\": the moment that the backup's answer named}")
		return
	}
	if err := backup.SetLast(s.data.Path, kept.Taken); err != nil {
		answer.Problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// BackupStopped takes a backup of a data directory on which no server runs. It fails where one does. o is
// for records in Redis; its URL may be left out.
func BackupStopped(ctx context.Context, d *datadir.Dir, o StoreOptions, version string, w io.Writer) (m *backup.Manifest, err error) {
	place, err := StoreOf(d.Path)
	if err != nil {
		return nil, err
	}
	if place == "" && !datadir.Exists(d.Store()) || !datadir.Exists(d.Desired()) {
		return nil, fmt.Errorf("%s is no data directory of Jibe: it has no %s or no %s", d.Path, datadir.StoreFile, "desired.git")
	}
	src := backup.Source{Data: d.Path, Version: version, Place: place}
	if place == "" {
		src.Store, err = openBolt(d)
	} else {
		src.Store, err = openPlace(ctx, o, place)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Store.Close()) }()
	return backup.Take(ctx, src, w)
}

// openPlace opens the Redis that has the records of a data directory.
func openPlace(ctx context.Context, o StoreOptions, place string) (*redis.Store, error) {
	if o.URL == "" {
		o.URL = place
	}
	ro, err := o.redis()
	if err != nil {
		return nil, err
	}
	s, err := redis.Open(ctx, ro)
	if err != nil {
		return nil, fmt.Errorf("the records of the data directory are in Redis (is a --store-password needed?): %w", err)
	}
	return s, nil
}
