package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/store"
)

// Record is what people are told of a member.
type Record struct {
	// Holder is the member's name in leases.
	Holder string `json:"holder"`
	// Host is the machine or pod that it runs on, Version what it runs.
	Host    string `json:"host"`
	Version string `json:"version"`
	// Since is when it joined, by its own clock.
	Since time.Time `json:"since"`
	// Shared says that it lets others have the store open beside it.
	Shared bool `json:"shared,omitempty"`
}

// List returns the records of the living members, by holder.
func List(ctx context.Context, s store.Store) ([]Record, error) {
	leases, err := s.Leases(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	stored, err := s.List(ctx, prefix, "", 0)
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	var list []Record
	for _, x := range stored {
		if !slices.ContainsFunc(leases, func(l store.Lease) bool { return l.Name == x.Key }) {
			continue // it is removed soon
		}
		var r Record
		if err := json.Unmarshal(x.Value, &r); err != nil {
			return nil, fmt.Errorf("record %s: %w", x.Key, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// record makes the member's record where it is missing, and removes those that members left which
// were killed.
func (m *Member) record(ctx context.Context) error {
	own := store.Record{Key: prefix + m.holder}
	if _, err := m.config.Store.Get(ctx, own.Key); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var err error
	if own.Value, err = json.Marshal(Record{m.holder, m.config.Host, m.config.Version, m.since, m.config.Shared}); err != nil {
		return err
	}
	removals, err := m.left(ctx, m.Living())
	if err != nil {
		return err
	}
	ctx = store.Under(ctx, m.session.Load().lease)
	_, err = m.config.Store.Put(ctx, append(removals, own)...)
	if errors.Is(err, store.ErrConflict) { // another has removed them meanwhile
		_, err = m.config.Store.Put(ctx, own)
	}
	return err
}

// left are the removals of the records of all but the living.
func (m *Member) left(ctx context.Context, living []string) (removals []store.Record, err error) {
	stored, err := m.config.Store.List(ctx, prefix, "", 0)
	if err != nil {
		return nil, err
	}
	for _, x := range stored {
		if !slices.Contains(living, strings.TrimPrefix(x.Key, prefix)) {
			removals = append(removals, store.Record{Key: x.Key, Version: x.Version, Delete: true})
		}
	}
	return removals, nil
}

// sweep removes the records of members that are gone. A failure leaves them to the next change.
func (m *Member) sweep(ctx context.Context, living []string) {
	removals, err := m.left(ctx, living)
	if err == nil && len(removals) > 0 {
		_, err = m.config.Store.Put(ctx, removals...)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) {
		m.config.Log.WarnContext(ctx, "records of members that are gone were not removed, will be tried again", "error", err)
	}
}

// erase removes the member's own record.
func (m *Member) erase(ctx context.Context) error {
	x, err := m.config.Store.Get(ctx, prefix+m.holder)
	if err == nil {
		_, err = m.config.Store.Put(ctx, store.Record{Key: x.Key, Version: x.Version, Delete: true})
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
