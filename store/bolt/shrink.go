package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
)

const (
	// shrinkSize is the size in bytes below which Shrink leaves a file as it is.
	shrinkSize = 32 << 20
	// shrinkShare is the share of free pages from which on Shrink copies.
	shrinkShare = 0.5
	// copyBytes and copyKeys are how much one transaction of the copy takes at most.
	copyBytes = 1 << 20
	copyKeys  = 512
	// catchUps is how many times the copy follows what was written meanwhile, before the
	// writers wait for the rest.
	catchUps = 10
	// copyFill leaves room in the pages of the copy, as the next keys go anywhere.
	copyFill = 0.9
)

// bounds say which files Shrink copies.
type bounds struct {
	size  int64   // in bytes
	share float64 // of free pages, 0 to 1
}

// WithShrinkBounds makes Shrink copy files of more than size bytes, instead of 32 MiB, of whose
// pages more than share (0 to 1) are free, instead of a half.
func WithShrinkBounds(size int64, share float64) Option {
	return func(s *Store) { s.bounds = bounds{size, share} }
}

// Shrink gives space back to the disk: it copies the records into a new file, which takes the
// place of the old one, where that is above 32 MiB and more than half of it is free. Otherwise
// it does nothing.
//
// All other calls go on meanwhile. Writers wait only while the last few records are copied and
// the new file is synced. A crash at any moment leaves the old file or the new one, each with
// all that was answered. The space of the old file is free soon after Shrink has returned.
//
// If Shrink fails the store is as it was; the error wraps [syscall.ENOSPC] where the disk has no
// room for the copy. It returns [store.ErrClosed] after Close, and ctx's error once ctx ends.
func (s *Store) Shrink(ctx context.Context) error {
	select {
	case s.shrinking <- struct{}{}:
		defer func() { <-s.shrinking }()
	case <-s.done:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	live, wasteful, err := s.waste(ctx)
	if err == nil && wasteful {
		if err = room(filepath.Dir(s.path), live); err == nil {
			err = s.replace(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("shrink store %s: %w", s.path, err)
	}
	return nil
}

// waste returns how many bytes of the file are in use, and whether it is worth copying.
func (s *Store) waste(ctx context.Context) (live int64, wasteful bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		stats := tx.DB().Stats()
		free := int64(stats.FreePageN+stats.PendingPageN) * int64(tx.DB().Info().PageSize)
		live = tx.Size() - free
		wasteful = tx.Size() > s.bounds.size && float64(free) > s.bounds.share*float64(tx.Size())
		return nil
	})
	return live, wasteful, err
}

// room refuses a copy that would take the room that writers need.
func room(dir string, size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("room in %s: %w", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < 2*uint64(size) {
		return fmt.Errorf("the copy needs %d MiB, and as much for what is written meanwhile; %s has %d MiB: %w", size>>20, dir, free>>20, syscall.ENOSPC)
	}
	return nil
}

// replace copies the records into a new file and puts it in the old one's place.
func (s *Store) replace(ctx context.Context) (err error) {
	name := leftover(s.path)
	if err := removeLeftover(s.path); err != nil {
		return err
	}
	// bbolt locks the new file before it has the name by which others would find it.
	to, err := bolt.Open(name, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true, NoSync: true})
	if err != nil {
		return err
	}
	if err = s.fill(ctx, to); err == nil {
		var old *bolt.DB
		if old, err = s.swap(to); err == nil {
			// It is closed once its readers have ended. Some file systems then take a minute to
			// free a large file; nobody needs to wait for that, nor to know if it fails.
			go func() { _ = old.Close() }()
			return nil
		}
	}
	_ = s.exclusively(func() error { s.changed = nil; return nil }) // no writer, no changes
	return errors.Join(err, to.Close(), os.Remove(name))
}

// fill copies all records to another file, and those that were written meanwhile until few
// are left.
func (s *Store) fill(ctx context.Context, to *bolt.DB) error {
	if err := s.exclusively(func() error { s.changed = changes{}; return nil }); err != nil {
		return err
	}
	var names [][]byte
	if err := s.view(ctx, func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			if string(name) != probeBucket {
				names = append(names, bytes.Clone(name))
			}
			return nil
		})
	}); err != nil {
		return err
	}
	for _, name := range names {
		// Each part is a short transaction of its own: a long one would keep the pages that
		// writers free from being used again.
		for after, more := []byte(nil), true; more; {
			if err := s.view(ctx, func(tx *bolt.Tx) error {
				return to.Update(func(dst *bolt.Tx) (err error) {
					defer trimBoth(dst, tx)
					advise(tx, readAhead)
					defer advise(tx, readAlone)
					after, more, err = copyPart(dst, tx.Bucket(name), name, after)
					return err
				})
			}); err != nil {
				return err
			}
		}
	}
	for range catchUps {
		var late changes
		if err := s.exclusively(func() error { late, s.changed = s.changed, changes{}; return nil }); err != nil {
			return err
		}
		n := 0
		for part := range late.parts() {
			n += len(part.keys)
			if err := s.view(ctx, func(tx *bolt.Tx) error { return part.copy(to, tx) }); err != nil {
				return err
			}
		}
		if err := to.Sync(); err != nil {
			return err
		}
		if n <= copyKeys {
			break
		}
	}
	return nil
}

// swap copies what is left, while writers wait, makes the new file durable and uses it from
// then on. It returns the old file. After an error the old one is used as before.
func (s *Store) swap(to *bolt.DB) (old *bolt.DB, err error) {
	err = s.exclusively(func() error {
		old = s.db.Load()
		for part := range s.changed.parts() {
			if err := old.View(func(tx *bolt.Tx) error { return part.copy(to, tx) }); err != nil {
				return err
			}
		}
		to.NoSync = false
		if err := to.Sync(); err != nil {
			return err
		}
		if err := os.Rename(leftover(s.path), s.path); err != nil {
			return err
		}
		s.changed, s.unsynced = nil, true
		s.db.Store(to)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// If this fails, the next write tries again.
	_ = s.exclusively(s.settle)
	return old, nil
}

// settle makes the name of a file that Shrink put in place durable. Nothing may be answered
// before: a power failure could bring the old file back.
func (s *Store) settle() error {
	if !s.unsynced {
		return nil
	}
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return err
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return err
	}
	s.unsynced = false
	return nil
}

// copyPart copies a part of the bucket from, whose keys are greater than after. It returns the
// last key that it copied, and whether there are more.
func copyPart(dst *bolt.Tx, from *bolt.Bucket, name, after []byte) (last []byte, more bool, err error) {
	b, err := dst.CreateBucketIfNotExists(name)
	if err != nil {
		return nil, false, err
	}
	b.FillPercent = copyFill
	c := from.Cursor()
	k, v := c.Seek(after)
	if k != nil && bytes.Equal(k, after) {
		k, v = c.Next()
	}
	last = after
	for size := 0; k != nil; k, v = c.Next() {
		if size > copyBytes {
			return bytes.Clone(last), true, nil
		}
		if err := b.Put(k, v); err != nil {
			return nil, false, err
		}
		size += len(k) + len(v)
		last = k
	}
	return nil, false, nil
}

// trimBoth keeps two mapped files from filling the process's memory, as trim does one.
func trimBoth(a, b *bolt.Tx) {
	if mapped() >= maxMapped {
		advise(a, giveBack)
		advise(b, giveBack)
	}
}

// changes are the keys that were written, by bucket. A nil one notes nothing.
type changes map[string]map[string]bool

func (c changes) note(bucket []byte, key string) {
	if c == nil {
		return
	}
	if c[string(bucket)] == nil {
		c[string(bucket)] = map[string]bool{}
	}
	c[string(bucket)][key] = true
}

// part is what one transaction copies: keys of one bucket.
type part struct {
	bucket string
	keys   []string
}

// parts yields all changes in parts.
func (c changes) parts() func(yield func(part) bool) {
	return func(yield func(part) bool) {
		for bucket, keys := range c {
			for some := range slices.Chunk(slices.Sorted(maps.Keys(keys)), copyKeys) {
				if !yield(part{bucket, some}) {
					return
				}
			}
		}
	}
}

// copy makes the keys what they are in from: records, or none.
func (p part) copy(to *bolt.DB, from *bolt.Tx) error {
	src := from.Bucket([]byte(p.bucket))
	return to.Update(func(dst *bolt.Tx) error {
		defer trimBoth(dst, from)
		b := dst.Bucket([]byte(p.bucket))
		for _, k := range p.keys {
			var err error
			if v := src.Get([]byte(k)); v != nil {
				err = b.Put([]byte(k), v)
			} else {
				err = b.Delete([]byte(k))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
