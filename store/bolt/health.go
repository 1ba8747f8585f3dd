package bolt

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// probeBucket is what Probe writes to, apart from the records. It isn't worth keeping.
const probeBucket = "probe"

// outcome says how a write ended.
type outcome struct {
	at  time.Time
	err error
}

// LastWrite returns when the last write ended, or the zero time if there was none since the
// file was opened, and the error if it failed. A write that was refused (a conflict) hasn't
// failed.
func (s *Store) LastWrite() (at time.Time, err error) {
	if o := s.last.Load(); o != nil {
		return o.at, o.err
	}
	return time.Time{}, nil
}

// Probe finds out whether the file can be written: it writes size bytes that nobody reads,
// and removes them again. With 0 bytes it commits an empty transaction. Its error is that of
// any write.
func (s *Store) Probe(ctx context.Context, size int) error {
	bucket := []byte(probeBucket)
	steps := []func(tx *bolt.Tx) error{func(*bolt.Tx) error { return nil }}
	if size > 0 {
		steps = []func(tx *bolt.Tx) error{
			func(tx *bolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists(bucket)
				if err == nil {
					err = b.Put(bucket, make([]byte, size))
				}
				return halfway(err)
			},
			func(tx *bolt.Tx) error {
				err := tx.DeleteBucket(bucket)
				if errors.Is(err, bolterrors.ErrBucketNotFound) { // another probe came between
					return nil
				}
				return halfway(err)
			},
		}
	}
	for _, step := range steps {
		if err := s.submit(ctx, &call{apply: step, done: make(chan struct{})}); err != nil {
			return fmt.Errorf("probe of the store: %w", err)
		}
	}
	return nil
}

// halfway marks an error after which the transaction can't be used.
func halfway(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errHalfway, err)
}
