package bolt

import (
	"time"

	bolt "go.etcd.io/bbolt"
)

// CompactAny is [Compact] of a file of any size, whatever is free in it.
func CompactAny(path string) (int64, error) { return compactAbove(0, -1, path, time.Second) }

// CompactHalf is [Compact] of a file of any size.
func CompactHalf(path string) (int64, error) {
	return compactAbove(0, compactShare, path, time.Second)
}

// Written returns how many bytes of pages all transactions of the open file have written, but
// for its two meta pages.
func (s *Store) Written() int64 {
	stats := s.db.Stats().TxStats
	return stats.GetPageAlloc()
}

// Check returns where the file contradicts itself.
func (s *Store) Check() []error {
	var errs []error
	_ = s.db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			errs = append(errs, err)
		}
		return nil
	})
	return errs
}
