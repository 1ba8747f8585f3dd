package gitrepo

// Still calls during while this process moves neither the branch nor writes down a push, so that
// what during reads of the repository and of the records that tell of it is of one moment. It
// MUST be short: writes wait for it. A git that pushes by itself goes on; that needs no record.
func (r *Repo) Still(during func() error) error {
	r.move.Lock()
	defer r.move.Unlock()
	r.pushes.mu.Lock()
	defer r.pushes.mu.Unlock()
	return during()
}
