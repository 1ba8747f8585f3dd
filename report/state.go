package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/store"
)

// The keys of the records.
const (
	stateKey   = "report/commits"
	pullPrefix = "report/pull/"
)

// state is up to where the branch was looked at, and which commits aren't done with.
type state struct {
	Head string         `json:"head"`
	Open []gitrepo.Step `json:"open"`

	version uint64
	changed bool
}

func (s *state) load(ctx context.Context, from Store) error {
	rec, err := from.Get(ctx, stateKey)
	if errors.Is(err, store.ErrNotFound) {
		*s = state{}
		return nil
	}
	if err != nil {
		return err
	}
	*s = state{version: rec.Version}
	if err := json.Unmarshal(rec.Value, s); err != nil {
		return fmt.Errorf("record %s: %w", stateKey, err)
	}
	return nil
}

func (s *state) keep(ctx context.Context, to Store) error {
	if !s.changed {
		return nil
	}
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	put, err := to.Put(ctx, store.Record{Key: stateKey, Version: s.version, Value: value})
	if errors.Is(err, store.ErrConflict) {
		// Who has the job is the only writer: an earlier Put of its own was written although it said
		// that it might not have been.
		rec, err := to.Get(ctx, stateKey)
		if err == nil {
			s.version = rec.Version
			put, err = to.Put(ctx, store.Record{Key: stateKey, Version: s.version, Value: value})
		}
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	s.version, s.changed = put[0].Version, false
	return nil
}
