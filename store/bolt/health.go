package bolt

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// outcome is how a write went.
type outcome struct {
	at  time.Time
	err error
}

// LastWrite is when the last write ended, and why nothing was written, or nil; the zero
// time where nothing was written since the file was opened. A write that was refused for
// what it says (a conflict) isn't a failed one.
func (s *Store) LastWrite() (at time.Time, err error) {
	if o := s.last.Load(); o != nil {
		return o.at, o.err
	}
	return time.Time{}, nil
}

// Probe finds out whether the file can be written by writing size bytes that nobody
// reads, and removing them again; of 0 bytes it is the least that a write takes. The
// error is that of any write.
func (s *Store) Probe(ctx context.Context, size int) error {
	bucket := []byte("probe") // beside the records, so that nobody finds it among them
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
			func(tx *bolt.Tx) error { return halfway(tx.DeleteBucket(bucket)) },
		}
	}
	for _, step := range steps {
		if err := s.submit(ctx, step); err != nil {
			return fmt.Errorf("probe of the store: %w", err)
		}
	}
	return nil
}

// halfway marks what spoils the transaction.
func halfway(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errHalfway, err)
}
