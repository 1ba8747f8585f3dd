package backup

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/store/transfer"
)

// copying is a copy of a store that is being made, as [bolt.Copy] is: Take makes it that of a
// moment, and Close completes the file, or removes it where nothing was taken.
type copying interface {
	Take() error
	Close() error
}

// copyRecords begins to copy a store, wherever it keeps its records, into a file.
func copyRecords(ctx context.Context, from store.Store, path string) (copying, error) {
	if file, ok := from.(*bolt.Store); ok {
		return file.Copy(ctx, path)
	}
	to, err := bolt.Open(path)
	if err != nil {
		return nil, err
	}
	c := &carried{ctx: ctx, to: to, path: path}
	if counts, ok := from.(interface{ LastNumber() uint64 }); ok {
		c.lastNumber = counts.LastNumber
	}
	if c.copy, err = transfer.Begin(ctx, from, to); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// carried is a copy of a store that isn't a file.
type carried struct {
	ctx   context.Context
	copy  *transfer.Copy
	to    *bolt.Store
	path  string
	taken bool
	// lastNumber is that of the store that is copied: nil where it counts from 1.
	lastNumber func() uint64
}

// Take implements [copying].
func (c *carried) Take() error {
	err := c.copy.Take(c.ctx)
	c.taken = err == nil
	return err
}

// Close implements [copying].
func (c *carried) Close() error {
	if !c.taken {
		return errors.Join(c.to.Close(), os.Remove(c.path))
	}
	err := c.copy.Finish(c.ctx)
	if err == nil && c.lastNumber != nil {
		err = c.to.CountFrom(c.ctx, c.lastNumber())
	}
	if err := errors.Join(err, c.to.Close()); err != nil {
		return fmt.Errorf("copy the records to %s: %w", c.path, err)
	}
	return nil
}
