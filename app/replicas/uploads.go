package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/store"
)

// uploadPrefix begins the keys of which replica works on which package.
const uploadPrefix = "upload/"

// upload is such a record.
type upload struct {
	Holder string `json:"holder"`
	State  string `json:"state"`
}

const (
	// uploadTime bounds what is asked of the store when a replica no longer works on a package.
	uploadTime = 5 * time.Second
	// uploadPause is how long it takes until that is tried again.
	uploadPause = time.Second
)

// Uploads are the packages that replicas work on. They implement [vnfpkgm.Claims]. What a replica has
// left that is gone counts for nothing.
type Uploads struct {
	store  store.Store
	member *members.Member
	log    *slog.Logger

	mu      sync.Mutex
	seen    map[string]upload // by id, as of the last load
	mine    map[string]bool
	leaving map[string]bool // of mine: what the store has to be told yet
}

// NewUploads makes them.
func NewUploads(s store.Store, member *members.Member, log *slog.Logger) *Uploads {
	return &Uploads{store: s, member: member, log: log, seen: map[string]upload{}, mine: map[string]bool{}, leaving: map[string]bool{}}
}

// Take implements [vnfpkgm.Claims].
func (u *Uploads) Take(ctx context.Context, id, state string) (elsewhere string, err error) {
	session := u.member.Session()
	if session == nil {
		return "", fmt.Errorf("package %s: this replica has no session: %w", id, store.ErrUnavailable)
	}
	value, err := json.Marshal(upload{u.member.Holder(), state})
	if err != nil {
		return "", err
	}
	for {
		rec, is, err := u.read(ctx, id)
		if err != nil {
			return "", err
		}
		if rec.Version > 0 && is.Holder != u.member.Holder() {
			gone, err := u.member.Gone(ctx, is.Holder)
			if err != nil || !gone {
				return is.State, err
			}
		}
		_, err = u.store.Put(store.Under(ctx, session.Lease()), store.Record{Key: uploadPrefix + id, Version: rec.Version, Value: value})
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return "", fmt.Errorf("package %s: %w", id, err)
		}
		u.mu.Lock()
		u.mine[id] = true
		delete(u.leaving, id)
		u.mu.Unlock()
		return "", nil
	}
}

// read returns the record of a package; its version is 0 where nobody works on it.
func (u *Uploads) read(ctx context.Context, id string) (rec store.Record, is upload, err error) {
	rec, err = u.store.Get(ctx, uploadPrefix+id)
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{}, upload{}, nil
	}
	if err == nil {
		err = json.Unmarshal(rec.Value, &is)
	}
	if err != nil {
		return rec, is, fmt.Errorf("who works on package %s: %w", id, err)
	}
	return rec, is, nil
}

// Drop implements [vnfpkgm.Claims].
func (u *Uploads) Drop(ctx context.Context, id string) {
	u.mu.Lock()
	was := u.mine[id]
	if was {
		u.leaving[id] = true
	}
	u.mu.Unlock()
	if was {
		u.drop(ctx, id)
	}
}

// drop tells the store. Where that fails, run tries again.
func (u *Uploads) drop(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	rec, is, err := u.read(ctx, id)
	if err == nil && rec.Version > 0 && is.Holder == u.member.Holder() {
		_, err = u.store.Put(ctx, store.Record{Key: rec.Key, Version: rec.Version, Delete: true})
	}
	if err != nil {
		u.log.WarnContext(ctx, "other replicas don't know yet that a package is free", "package", id, "error", err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.leaving[id] { // it may have been taken again
		delete(u.leaving, id)
		delete(u.mine, id)
	}
}

// Run tells the store what it couldn't be told at once, until ctx ends.
func (u *Uploads) Run(ctx context.Context) error {
	tick := time.NewTicker(uploadPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		u.mu.Lock()
		var left []string
		for id := range u.leaving {
			left = append(left, id)
		}
		u.mu.Unlock()
		for _, id := range left {
			u.drop(ctx, id)
		}
	}
}

// load reads what all replicas work on, and removes what was left by those that are gone.
func (u *Uploads) load(ctx context.Context) error {
	recs, err := u.store.List(ctx, uploadPrefix, "", 0)
	if err != nil {
		return fmt.Errorf("which packages other replicas work on: %w", err)
	}
	seen := map[string]upload{}
	for _, r := range recs {
		var is upload
		if err := json.Unmarshal(r.Value, &is); err != nil {
			return fmt.Errorf("%s: %w", r.Key, err)
		}
		if gone, err := u.gone(ctx, is.Holder); err == nil && gone {
			// Where this fails, the next change of any tries it again.
			_, _ = u.store.Put(ctx, store.Record{Key: r.Key, Version: r.Version, Delete: true})
			continue
		}
		seen[strings.TrimPrefix(r.Key, uploadPrefix)] = is
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = seen
	return nil
}

// gone says whether a replica has ended; the store is only asked where it isn't known to live.
func (u *Uploads) gone(ctx context.Context, holder string) (bool, error) {
	if slices.Contains(u.member.Living(), holder) {
		return false, nil
	}
	return u.member.Gone(ctx, holder)
}

// Elsewhere implements [vnfpkgm.Claims].
func (u *Uploads) Elsewhere(id string) string {
	u.mu.Lock()
	is, ok := u.seen[id]
	u.mu.Unlock()
	if !ok || is.Holder == u.member.Holder() || !slices.Contains(u.member.Living(), is.Holder) {
		return ""
	}
	return is.State
}
