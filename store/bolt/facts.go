package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

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
	err = guard(path, func() error {
		f, err = inspect(ctx, path)
		return err
	})
	if err == nil || ctx.Err() != nil || errors.Is(err, os.ErrPermission) || errors.Is(err, errLocked) {
		return f, err
	}
	return f, corrupt(path, err)
}

func inspect(ctx context.Context, path string) (f Facts, err error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return f, fmt.Errorf("store %s: %w", path, errLocked)
	}
	if err != nil {
		return f, err
	}
	defer db.Close()

	f.Crashed = unlisted(path)
	live, err := liveBytes(db)
	if err != nil {
		return f, err
	}

	err = db.View(func(tx *bolt.Tx) error {
		f.Size = tx.Size()
		f.Free = f.Size - live - 2*int64(db.Info().PageSize)
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
	return f, err
}

// Facts are those of the open store; the records aren't counted.
func (s *Store) Facts(ctx context.Context) (f Facts, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		f.Free, f.Size = freeBytes(tx.DB()), tx.Size()
		return nil
	})
	return f, err
}
