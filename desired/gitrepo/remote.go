package gitrepo

import "context"

func (r *Repo) firstFetch(ctx context.Context) error            { return nil }
func (r *Repo) fetchLoop()                                      {}
func (r *Repo) writable() error                                 { return nil }
func (r *Repo) push(ctx context.Context, to, from string) error { return nil }
