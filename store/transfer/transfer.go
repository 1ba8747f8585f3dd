// Package transfer carries the records of one store to another, through the contract of both: in
// pages, however many they are, and also while the first is written to.
//
// It doesn't know what the values mean. Versions aren't carried: they only tell changes of one store
// from each other.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/store"
)

const (
	// page is how many records are read and written at once.
	page = 200
	// readers is how many single records are read at once.
	readers = 16
	// few is how many records may be left for [Copy.Take], which should be short.
	few = 100
	// attempts is how often a copy is begun whose store no longer knows what changed since.
	attempts = 3
)

// Except says of a key whether its record is none of those that are carried; nil says so of none.
type Except func(key string) bool

func (e Except) filtered(recs []store.Record) []store.Record {
	if e == nil {
		return recs
	}
	out := recs[:0]
	for _, r := range recs {
		if !e(r.Key) {
			out = append(out, r)
		}
	}
	return out
}

// Level makes the records of to those of from, which nobody may write to meanwhile, and returns how
// many those are. One that was interrupted is carried on by the next.
func Level(ctx context.Context, from, to store.Store, except Except) (n int, err error) {
	for after := ""; ; {
		recs, err := from.List(ctx, "", after, page)
		if err != nil {
			return n, err
		}
		begin, all := after, len(recs) < page
		if !all {
			after = recs[len(recs)-1].Key
		}
		recs = except.filtered(recs)
		n += len(recs)
		if err := level(ctx, recs, to, begin, after, all, except); err != nil || all {
			return n, err
		}
	}
}

// level makes the records of to behind the key begin, up to the key end (all: to the last one), those of want.
func level(ctx context.Context, want []store.Record, to store.Store, begin, end string, all bool, except Except) error {
	wanted := make(map[string]store.Record, len(want))
	for _, r := range want {
		wanted[r.Key] = r
	}
	var puts []store.Record
	for after, last := begin, false; !last; {
		have, err := to.List(ctx, "", after, page)
		if err != nil {
			return err
		}
		last = len(have) < page
		if len(have) > 0 {
			after = have[len(have)-1].Key
		}
		for _, h := range except.filtered(have) {
			if !all && h.Key > end {
				last = true
				break
			}
			w, keep := wanted[h.Key]
			delete(wanted, h.Key)
			switch {
			case !keep:
				puts = append(puts, store.Record{Key: h.Key, Version: h.Version, Delete: true})
			case string(w.Value) != string(h.Value):
				puts = append(puts, store.Record{Key: h.Key, Version: h.Version, Value: w.Value})
			}
		}
		// What is to go may be far more than what is to come.
		if len(puts) >= page {
			if _, err := to.Put(ctx, puts...); err != nil {
				return err
			}
			puts = puts[:0]
		}
	}
	for _, w := range want {
		if _, lacks := wanted[w.Key]; lacks {
			puts = append(puts, store.Record{Key: w.Key, Value: w.Value})
		}
	}
	if len(puts) == 0 {
		return nil
	}
	_, err := to.Put(ctx, puts...)
	return err
}

// Foreign returns the key of a record of to that from doesn't have as it is there, "" where there is none:
// then [Level] takes nothing away.
func Foreign(ctx context.Context, from, to store.Store, except Except) (string, error) {
	for after := ""; ; {
		there, err := to.List(ctx, "", after, page)
		if err != nil || len(there) == 0 {
			return "", err
		}
		after = there[len(there)-1].Key
		for _, r := range except.filtered(there) {
			own, err := from.Get(ctx, r.Key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return "", err
			}
			if err != nil || string(own.Value) != string(r.Value) {
				return r.Key, nil
			}
		}
	}
}

// Copy is a copy of a store that is being made in another: see [Begin].
type Copy struct {
	from, to store.Store
	at       store.Mark              // what was put behind it is still to be read
	newest   map[string]store.Record // what was read last and isn't in to yet
}

// Begin copies what from has into to, an empty store or what a former Begin has left. from may be
// written to meanwhile: the rest is read by [Copy.Take], and [Copy.Finish] completes the copy.
func Begin(ctx context.Context, from, to store.Store) (*Copy, error) {
	c := &Copy{from: from, to: to}
	for try := 1; ; try++ {
		err := c.begin(ctx)
		if err == nil {
			return c, nil
		}
		if try == attempts || !errors.Is(err, store.ErrLost) {
			return nil, fmt.Errorf("copy the records: %w", err)
		}
	}
}

func (c *Copy) begin(ctx context.Context) (err error) {
	if c.at, err = c.from.Mark(ctx); err != nil {
		return err
	}
	if _, err := Level(ctx, c.from, c.to, nil); err != nil {
		return err
	}
	for {
		keys, next, err := c.changed(ctx, c.at)
		if err != nil || len(keys) <= few {
			return err
		}
		for some := range slices.Chunk(slices.Collect(maps.Keys(keys)), page) {
			recs, err := c.read(ctx, some)
			if err == nil {
				err = c.write(ctx, recs)
			}
			if err != nil {
				return err
			}
		}
		c.at = next
	}
}

// Take reads what the store is at one moment after the call. It is short, writes nothing, and is
// called once. It fails where the records change faster than they can be read for some seconds.
//
// What is read of a record may be newer than the place up to which changes were read: all is as it
// was at that place once none of the records that were read behind it has changed again by then.
func (c *Copy) Take(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errHasty)
	defer cancel()
	c.newest = map[string]store.Record{}
	keys, at, err := c.changed(ctx, c.at)
	for err == nil {
		var recs []store.Record
		if recs, err = c.read(ctx, slices.Collect(maps.Keys(keys))); err != nil {
			break
		}
		for _, r := range recs {
			c.newest[r.Key] = r
		}
		var again map[string]bool
		var next store.Mark
		if again, next, err = c.changed(ctx, at); err != nil || disjoint(keys, again) {
			break
		}
		keys, at = again, next
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("copy the newest records: %w", err)
	}
	return nil
}

// patience is how long Take may take.
const patience = 10 * time.Second

var errHasty = fmt.Errorf("the records change faster than they can be read, for %s now: try again when less is under way", patience)

// Finish completes a copy that was taken.
func (c *Copy) Finish(ctx context.Context) error {
	for some := range slices.Chunk(slices.Collect(maps.Values(c.newest)), page) {
		if err := c.write(ctx, some); err != nil {
			return fmt.Errorf("copy the newest records: %w", err)
		}
	}
	return nil
}

func disjoint(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return false
		}
	}
	return true
}

// changed returns the keys of what was put behind a place, and the place up to which it knows that,
// which is that of the newest Put when it was called, or a later one.
func (c *Copy) changed(ctx context.Context, at store.Mark) (map[string]bool, store.Mark, error) {
	keys := map[string]bool{}
	newest, err := c.from.Mark(ctx)
	for err == nil && at.Before(newest) {
		var changes []store.Change
		if changes, at, err = c.from.Changes(ctx, at); err != nil {
			break
		}
		for _, one := range changes {
			keys[one.Key] = true
		}
	}
	return keys, at, err
}

// read reads single records as they are now; Delete says that there is none.
func (c *Copy) read(ctx context.Context, keys []string) ([]store.Record, error) {
	recs := make([]store.Record, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i, key := range keys {
		g.Go(func() error {
			r, err := c.from.Get(ctx, key)
			if errors.Is(err, store.ErrNotFound) {
				r, err = store.Record{Key: key, Delete: true}, nil
			}
			recs[i] = r
			return err
		})
	}
	return recs, g.Wait()
}

// write puts what was read.
func (c *Copy) write(ctx context.Context, recs []store.Record) error {
	var puts []store.Record
	for _, r := range recs {
		had, err := c.to.Get(ctx, r.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if r.Delete && err != nil {
			continue // neither has it
		}
		r.Version = had.Version
		puts = append(puts, r)
	}
	if len(puts) == 0 {
		return nil
	}
	_, err := c.to.Put(ctx, puts...)
	return err
}
