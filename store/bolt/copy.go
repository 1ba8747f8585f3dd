package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/jibe-vnfm/jibe/store"
)

// Copy is a copy of a store that is being made: see [Store.Copy].
type Copy struct {
	ctx  context.Context
	s    *Store
	path string
	tx   *bolt.Tx // what is copied, once it was taken
}

// Copy prepares a copy of the store in a new file at path: [Copy.Take] chooses the moment, and
// Close writes the file. Readers and writers go on meanwhile. The caller MUST call Close; what it
// writes ends with ctx. The error wraps [syscall.ENOSPC] if the disk has no room for it.
func (s *Store) Copy(ctx context.Context, path string) (*Copy, error) {
	f, err := s.Facts(ctx)
	if err == nil {
		err = room(filepath.Dir(path), f.Size)
	}
	if err == nil {
		if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("copy store %s: %w", s.path, err)
	}
	return &Copy{ctx: ctx, s: s, path: path}, nil
}

// Take makes the copy the store as it is at this moment: a read transaction sees what was
// committed before it began, and all that was answered is. It is called once.
func (c *Copy) Take() (err error) {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	if c.s.closed {
		return store.ErrClosed
	}
	c.tx, err = c.s.db.Begin(false)
	return err
}

// Close writes the file of a copy that was taken, complete and durable. It may be called twice.
func (c *Copy) Close() error {
	if c.tx == nil {
		return nil
	}
	tx := c.tx
	c.tx = nil

	// The raw copy ends the transaction, which keeps pages from being used again, as early as may be.
	raw := c.path + ".raw"
	err := guard(c.s.path, func() error { return c.write(tx, raw) })
	if err := errors.Join(err, tx.Rollback()); err != nil {
		return errors.Join(fmt.Errorf("copy store %s: %w", c.s.path, err), os.RemoveAll(raw))
	}

	from, err := bolt.Open(raw, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err == nil {
		err = errors.Join(copyTo(c.path, from), from.Close())
	}
	if err := errors.Join(err, os.RemoveAll(raw)); err != nil {
		return fmt.Errorf("copy store %s: %w", c.s.path, err)
	}
	return nil
}

func (c *Copy) write(tx *bolt.Tx, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = tx.WriteTo(&whileContext{c.ctx, f})
	if ended := c.ctx.Err(); ended != nil {
		err = ended // bbolt has the text of an error only
	}
	return errors.Join(err, f.Close())
}

// whileContext is a file that can be written until ctx ends.
type whileContext struct {
	ctx  context.Context
	file *os.File
}

// Write implements [io.Writer].
func (w *whileContext) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.file.Write(b)
}
