package bolt

import bolt "go.etcd.io/bbolt"

// Written returns how many bytes of pages all transactions of the open file have written, but
// for its two meta pages.
func (s *Store) Written() int64 {
	stats := s.db.Load().Stats().TxStats
	return stats.GetPageAlloc()
}

// Check returns where the file contradicts itself.
func (s *Store) Check() []error {
	var errs []error
	_ = s.db.Load().View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			errs = append(errs, err)
		}
		return nil
	})
	return errs
}
