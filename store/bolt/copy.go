package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
)

// Copy is a copy of a store that is being made: see [Store.Copy].
type Copy struct {
	s    *Store
	to   *bolt.DB
	path string
	// taken says that the copy is as of a moment, and that the store is its own again.
	taken bool
}

// Copy begins to copy the store into a new file at path. Whatever was written when it returns
// is copied, and the rest is when [Copy.Take] is called, so that readers and writers go on
// meanwhile. The caller MUST call Close. The error wraps [syscall.ENOSPC] where the disk has no room.
func (s *Store) Copy(ctx context.Context, path string) (*Copy, error) {
	select {
	case s.shrinking <- struct{}{}: // both follow what is written, and only one can
	case <-s.done:
		return nil, store.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := &Copy{s: s, path: path}
	if err := c.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("copy store %s: %w", s.path, err), c.Close())
	}
	return c, nil
}

func (c *Copy) begin(ctx context.Context) error {
	live, _, err := c.s.waste(ctx)
	if err != nil {
		return err
	}
	if err := room(filepath.Dir(c.path), live); err != nil {
		return err
	}
	if err := os.Remove(c.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if c.to, err = bolt.Open(c.path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true, NoSync: true}); err != nil {
		return err
	}
	return c.s.fill(ctx, c.to)
}

// Take makes the copy the store as it is at this moment: writers wait for the last few records.
// It is called once.
func (c *Copy) Take() error {
	err := c.s.exclusively(func() error {
		for part := range c.s.changed.parts() {
			if err := c.s.db.Load().View(func(tx *bolt.Tx) error { return part.copy(c.to, tx) }); err != nil {
				return err
			}
		}
		c.s.changed = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("copy store %s: %w", c.s.path, err)
	}
	c.release()
	return nil
}

// release lets the store shrink, and be copied, again.
func (c *Copy) release() {
	if !c.taken {
		c.taken = true
		<-c.s.shrinking
	}
}

// Close makes the file of a copy that was taken durable and complete; any other it removes. It
// may be called twice.
func (c *Copy) Close() error {
	if !c.taken {
		_ = c.s.exclusively(func() error { c.s.changed = nil; return nil }) // no writer, no changes
		c.release()
		if c.to == nil {
			return nil
		}
		err := errors.Join(c.to.Close(), os.Remove(c.path))
		c.to = nil
		return err
	}
	if c.to == nil {
		return nil
	}
	to := c.to
	c.to = nil
	to.NoSync, to.NoFreelistSync = false, false
	// A transaction writes the list of free pages.
	return errors.Join(to.Update(func(*bolt.Tx) error { return nil }), to.Sync(), to.Close())
}

// Facts are what can be said of a store's file without its records' meaning.
type Facts struct {
	Size, Free int64 // bytes of the file, and those of them in free pages
	Records    int
	// Crashed says that the file wasn't closed in order: the next start finds its free pages.
	Crashed bool
}

// Inspect looks at the file of a store that no process has open, and reads every record. It
// changes nothing. The error of a damaged file says what to do.
func Inspect(ctx context.Context, path string) (f Facts, err error) {
	if _, err := os.Stat(path); err != nil {
		return f, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(path, fmt.Errorf("%v", r))
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if errors.Is(err, os.ErrPermission) {
		return f, err
	} else if err != nil {
		return f, corrupt(path, err)
	}
	defer db.Close()
	file, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer file.Close()
	m, ok := lastMeta(file)
	if !ok {
		return f, corrupt(path, errDamaged)
	}
	f.Crashed = m.freelist == noFreelist
	w := &walk{file: file, pageSize: int64(m.pageSize), used: make([]bool, m.pages)}
	if err := w.reach(m.root); err != nil {
		return f, corrupt(path, err)
	}
	for id := uint64(2); id < m.pages; id++ {
		if !w.used[id] {
			f.Free += int64(m.pageSize)
		}
	}
	f.Size = int64(m.pages) * int64(m.pageSize)
	err = db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("records"))
		if b == nil || tx.Bucket([]byte("counters")) == nil {
			return errAbsent
		}
		return b.ForEach(func(k, v []byte) error {
			f.Records++
			if len(v) < 8 {
				return fmt.Errorf("record %q is damaged: %d bytes", k, len(v))
			}
			return ctx.Err()
		})
	})
	if err != nil && ctx.Err() == nil {
		err = corrupt(path, err)
	}
	return f, err
}

// Facts are those of the open store; the records aren't counted.
func (s *Store) Facts(ctx context.Context) (f Facts, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		stats := tx.DB().Stats()
		f.Free = int64(stats.FreePageN+stats.PendingPageN) * int64(tx.DB().Info().PageSize)
		f.Size = tx.Size()
		return nil
	})
	return f, err
}
