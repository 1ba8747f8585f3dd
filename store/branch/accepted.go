package branch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// Accepted is the record of the commit that all replicas take for the branch's.
type Accepted struct {
	store store.Store
	key   string
	by    string
	now   func() time.Time
}

// accepted is the record's value. By and At are for people.
type accepted struct {
	Commit string    `json:"commit"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// NewAccepted is the accepted commit of the branch with a name. by names the process.
func NewAccepted(s store.Store, branch, by string) *Accepted {
	return &Accepted{store: s, key: AcceptedKey(branch), by: by, now: time.Now}
}

// AcceptedKey is the key of the record of the accepted commit of the branch with a name.
func AcceptedKey(branch string) string { return "branch/" + branch }

// Load returns the commit, "" where none was accepted yet.
func (a *Accepted) Load(ctx context.Context) (string, error) {
	_, is, err := a.read(ctx)
	return is.Commit, err
}

func (a *Accepted) read(ctx context.Context) (version uint64, is accepted, err error) {
	rec, err := a.store.Get(ctx, a.key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, accepted{}, nil
	}
	if err == nil {
		err = json.Unmarshal(rec.Value, &is)
	}
	if err != nil {
		return 0, accepted{}, fmt.Errorf("accepted commit %s: %w", a.key, err)
	}
	return rec.Version, is, nil
}

// Move puts a commit in the place of another, and says whether that was still there.
func (a *Accepted) Move(ctx context.Context, from, to string) (bool, error) {
	version, is, err := a.read(ctx)
	if err != nil || is.Commit != from {
		return false, err
	}
	value, err := json.Marshal(accepted{Commit: to, By: a.by, At: a.now().UTC()})
	if err != nil {
		return false, fmt.Errorf("accept commit %s: %w", to, err)
	}
	_, err = a.store.Put(ctx, store.Record{Key: a.key, Version: version, Value: value})
	switch {
	case errors.Is(err, store.ErrConflict):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("accept commit %s: %w", to, err)
	}
	return true, nil
}

// Watch calls moved once at its start, and whenever the commit may have been moved since, by
// whomever, until ctx ends or the store fails.
func (a *Accepted) Watch(ctx context.Context, moved func()) error {
	for {
		mark, err := a.store.Mark(ctx)
		for err == nil {
			moved()
			mark, err = a.next(ctx, mark)
		}
		if !errors.Is(err, store.ErrLost) {
			return fmt.Errorf("watch the accepted commit %s: %w", a.key, err)
		}
	}
}

// next waits for a change of the record behind a mark.
func (a *Accepted) next(ctx context.Context, mark store.Mark) (store.Mark, error) {
	for {
		changes, next, err := a.store.Changes(ctx, mark)
		if err != nil {
			return mark, err
		}
		for _, c := range changes {
			if c.Key == a.key {
				return next, nil
			}
		}
		mark = next
	}
}
