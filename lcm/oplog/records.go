package oplog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/internal/lru"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// records reads the records of one kind, and keeps those that were written last. One
// operation is read some ten times while it is carried out, and to ask the store for each
// and decode it took more than to write it. Only who has the instance's lock adds a record
// or changes it, at the moment at which the index changes, so that all readers see one order.
type records[T any] struct {
	store  store.Store
	prefix string
	kept   *lru.Cache[*record[T]]
	// shown is held for writing while readers begin to see a batch, so that they see all of it or nothing: who
	// has read that an operation has ended reads from its instance's record that it is free.
	shown *sync.RWMutex
	// clone makes a copy that the caller may change, but for what is in its units,
	// resources and networks.
	clone func(*T) *T
	// sealer proves records of which needs says so; distrust is called for one without a proof. Both are
	// nil for a kind of which no record does.
	sealer   sealed.Sealer
	needs    func(*T) bool
	distrust func(*T)
}

// record is one record as the store has it.
type record[T any] struct {
	version uint64
	text    []byte
	// value is what the text says, not what the writer had: some of that isn't encoded. It is
	// decoded once it is wanted.
	decode func() (*T, error)
}

const (
	// recordsKept bounds the texts of one kind of records that are kept, in bytes: of more
	// operations than are carried out at once.
	recordsKept = 16 << 20
	// historiesKept bounds what is known of versions of histories, in bytes: of some thousand operations.
	historiesKept = 1 << 20
	// recordLargest is the longest text that is kept, in bytes.
	recordLargest = 1 << 20
)

func newRecords[T any](s store.Store, prefix string, shown *sync.RWMutex, clone func(*T) *T) *records[T] {
	return &records[T]{store: s, prefix: prefix, kept: lru.New[*record[T]](recordsKept, recordLargest), shown: shown, clone: clone}
}

func (r *records[T]) noun() string { return strings.TrimSuffix(r.prefix, "/") }

// get returns a copy of a record, or [store.ErrNotFound].
func (r *records[T]) get(ctx context.Context, id string) (*T, error) {
	rec, err := r.read(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.copy(rec)
}

// copy returns a copy of what the record says.
func (r *records[T]) copy(rec *record[T]) (*T, error) {
	v, err := rec.decode()
	if err != nil {
		return nil, err
	}
	return r.clone(v), nil
}

// read returns a record, or [store.ErrNotFound].
func (r *records[T]) read(ctx context.Context, id string) (*record[T], error) {
	if err := checkID(r.noun(), id); err != nil {
		return nil, err
	}
	if isAfresh(ctx) {
		return r.readStored(ctx, id)
	}
	rec := r.seen(id)
	if rec == nil {
		stored, err := r.store.Get(ctx, r.prefix+id)
		// A writer may have been faster, and what it wrote isn't to be seen before the index has it.
		switch rec = r.seen(id); {
		case rec != nil:
		case err != nil:
			return nil, fmt.Errorf("%s %s: %w", r.noun(), id, err)
		default:
			rec = r.record(id, stored.Version, stored.Value)
		}
	}
	if rec.absent() {
		return nil, fmt.Errorf("%s %s: %w", r.noun(), id, store.ErrNotFound)
	}
	return rec, nil
}

// seen returns the record that readers see without asking the store, or nil.
func (r *records[T]) seen(id string) *record[T] {
	r.shown.RLock()
	defer r.shown.RUnlock()

	rec, _ := r.kept.Get(id)
	return rec
}

// readStored is read of what the store has now, whatever is kept.
func (r *records[T]) readStored(ctx context.Context, id string) (*record[T], error) {
	stored, err := r.store.Get(ctx, r.prefix+id)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.noun(), id, err)
	}
	if rec, _ := r.kept.Get(id); rec != nil && rec.version == stored.Version && bytes.Equal(rec.text, stored.Value) {
		return rec, nil // which may have been decoded
	}
	return r.record(id, stored.Version, stored.Value), nil
}

// renew has readers see a record that another process has put, nil for one that it removed. The
// caller has the instance's lock.
func (r *records[T]) renew(id string, rec *record[T]) {
	if old, _ := r.kept.Get(id); old == nil {
		return
	}
	r.drop(id)
	if rec != nil {
		r.keep(id, rec)
	}
}

// list returns at most limit records whose id is greater than after, by id. limit <= 0 means
// all.
func (r *records[T]) list(ctx context.Context, after string, limit int) ([]*T, error) {
	if after != "" {
		after = r.prefix + after
	}
	var out []*T
	for {
		wanted := 0
		if limit > 0 {
			wanted = limit - len(out)
		}
		stored, err := r.store.List(ctx, r.prefix, after, wanted)
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", r.noun(), err)
		}
		for _, s := range stored {
			after = s.Key
			rec := r.seen(strings.TrimPrefix(s.Key, r.prefix)) // as read does
			switch {
			case rec == nil:
				rec = r.record(strings.TrimPrefix(s.Key, r.prefix), s.Version, s.Value)
			case rec.absent():
				continue
			}
			v, err := r.copy(rec)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		if len(stored) == 0 || limit <= 0 || len(out) == limit {
			return out, nil
		}
	}
}

// absent says that the record is only being made.
func (r *record[T]) absent() bool { return r.version == 0 }

func (r *records[T]) record(id string, version uint64, text []byte) *record[T] {
	return &record[T]{version: version, text: text, decode: sync.OnceValues(func() (*T, error) {
		v := new(T)
		object, proven := r.sealer.Open(r.prefix+id, text)
		if err := json.Unmarshal(object, v); err != nil {
			return nil, fmt.Errorf("%s %s: the record in the store can't be read: %w", r.noun(), id, err)
		}
		if r.needs != nil && !proven && r.needs(v) {
			r.distrust(v)
		}
		return v, nil
	})}
}

// hold is read and copy by who has the instance's lock and is going to write: until that is
// done, all see the record as it is now.
func (r *records[T]) hold(ctx context.Context, id string) (*T, *record[T], error) {
	rec, err := r.read(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	v, err := r.copy(rec)
	if err != nil {
		return nil, nil, err
	}
	r.keep(id, rec)
	return v, rec, nil
}

func (r *records[T]) keep(id string, rec *record[T]) {
	r.drop(id) // one that is too large leaves the former one where it is
	r.kept.Add(id, rec, len(rec.text))
}

// drop has the next reader ask the store.
func (r *records[T]) drop(id string) { r.kept.Add(id, nil, 0) }

// put adds a record to the batch, if its text isn't that of was; was is nil for a new one.
func put[T any](b *batch, r *records[T], id string, was *record[T], value *T) (changed bool) {
	text, err := json.Marshal(value)
	if err != nil {
		b.err = errors.Join(b.err, fmt.Errorf("%s %s: %w", r.noun(), id, err))
		return false
	}
	if r.needs != nil && r.needs(value) {
		text = r.sealer.Seal(r.prefix+id, text)
	}
	var version uint64
	if was != nil {
		if slices.Equal(was.text, text) {
			return false
		}
		version = was.version
	} else {
		b.hidden = append(b.hidden, func() { r.kept.Add(id, new(record[T]), 0) })
	}
	n := len(b.recs)
	b.recs = append(b.recs, store.Record{Key: r.prefix + id, Version: version, Value: text})
	b.kept = append(b.kept, func(stored []store.Record) { r.keep(id, r.record(id, stored[n].Version, text)) })
	b.dropped = append(b.dropped, func() { r.drop(id) })
	return true
}

// remove adds the removal of a record to the batch.
func remove[T any](b *batch, r *records[T], id string, was *record[T]) {
	b.recs = append(b.recs, store.Record{Key: r.prefix + id, Version: was.version, Delete: true})
	b.kept = append(b.kept, func([]store.Record) { r.drop(id) })
	b.dropped = append(b.dropped, func() { r.drop(id) })
}

func cloneInstance(i *lcm.Instance) *lcm.Instance {
	c := *i
	c.Units, c.Resources, c.VIMs = slices.Clone(i.Units), slices.Clone(i.Resources), maps.Clone(i.VIMs)
	c.GoneVIMs = slices.Clone(i.GoneVIMs)
	return &c
}

func cloneOperation(o *lcm.Operation) *lcm.Operation {
	c := *o
	c.UnitsBefore, c.UnitsAfter = slices.Clone(o.UnitsBefore), slices.Clone(o.UnitsAfter)
	c.ResourcesBefore, c.ResourcesAfter = slices.Clone(o.ResourcesBefore), slices.Clone(o.ResourcesAfter)
	c.ExtLinks, c.Story = slices.Clone(o.ExtLinks), slices.Clone(o.Story)
	j := &c.Journal
	j.Hooks, j.Begun, j.Issued = slices.Clone(j.Hooks), slices.Clone(j.Begun), slices.Clone(j.Issued)
	j.Targets, j.Leaving, j.Kept = slices.Clone(j.Targets), slices.Clone(j.Leaving), maps.Clone(j.Kept)
	j.Posted = slices.Clone(j.Posted)
	if o.Error != nil {
		e := *o.Error
		c.Error = &e
	}
	return &c
}
