package gitrepo

import (
	"context"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// Reader reads any commit, whether head is there or not.
func (r *Repo) Reader() *read.Reader { return r.read }

// Read parses the instance at rev.
func (r *Repo) Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error) {
	return r.read.Read(ctx, rev)
}

// Files returns the content of the directory at rev.
func (r *Repo) Files(ctx context.Context, rev desired.Revision) (desired.Files, error) {
	return r.read.Files(ctx, rev)
}

// Author is who brought the directory to its state at rev.
func (r *Repo) Author(ctx context.Context, rev desired.Revision) (string, error) {
	return r.read.Author(ctx, rev)
}

// Content returns a file by its hash.
func (r *Repo) Content(ctx context.Context, hash string) ([]byte, error) {
	return r.read.Content(ctx, hash)
}
