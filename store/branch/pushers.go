package branch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// pusherKept is how long it is remembered in the store who pushed a commit. Its note in git comes within
// seconds, unless the remote takes none.
const pusherKept = 24 * time.Hour

// Pushers keeps who pushed commits to a branch through the mirror of any replica.
type Pushers struct {
	store  store.Store
	prefix string
	now    func() time.Time
}

// pusher is a record's value. Push is what the mirror knows of it.
type pusher struct {
	At   time.Time       `json:"at"`
	Push json.RawMessage `json:"push"`
}

// NewPushers are those of the branch with a name.
func NewPushers(s store.Store, branch string) *Pushers {
	return &Pushers{store: s, prefix: "pusher/" + branch + "/", now: time.Now}
}

// Keep makes durable who pushes a commit, and removes what was kept long enough. A commit that is
// pushed again has the newer one.
func (p *Pushers) Keep(ctx context.Context, commit string, push []byte) error {
	for {
		recs, err := p.store.List(ctx, p.prefix, "", 0)
		if err != nil {
			return fmt.Errorf("who pushed %s: %w", commit, err)
		}
		value, err := json.Marshal(pusher{At: p.now().UTC(), Push: push})
		if err != nil {
			return fmt.Errorf("who pushed %s: %w", commit, err)
		}
		puts := []store.Record{{Key: p.prefix + commit, Value: value}}
		for _, r := range recs {
			var is pusher
			switch err := json.Unmarshal(r.Value, &is); {
			case r.Key == puts[0].Key:
				puts[0].Version = r.Version
			case err != nil || p.now().Sub(is.At) > pusherKept:
				puts = append(puts, store.Record{Key: r.Key, Version: r.Version, Delete: true})
			}
		}
		if _, err = p.store.Put(ctx, puts...); !errors.Is(err, store.ErrConflict) {
			if err != nil {
				err = fmt.Errorf("who pushed %s: %w", commit, err)
			}
			return err
		}
	}
}

// Find returns what was kept of a commit, nil where nothing is.
func (p *Pushers) Find(ctx context.Context, commit string) ([]byte, error) {
	rec, err := p.store.Get(ctx, p.prefix+commit)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	var is pusher
	if err == nil {
		err = json.Unmarshal(rec.Value, &is)
	}
	if err != nil {
		return nil, fmt.Errorf("who pushed %s: %w", commit, err)
	}
	return is.Push, nil
}
