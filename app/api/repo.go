package api

import (
	"context"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
)

// apiRepo is the desired repository as the API writes to it: within the quotas of projects, and
// with refusals in the API's words.
type apiRepo struct{ desired.Repo }

// Write implements [desired.Repo].
func (r apiRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	rev, err := r.Repo.Write(ctx, w)
	return rev, inAPIWords(err)
}

// audited is the desired repository for those who answer requests: it notes the commits that are
// made for them.
type audited struct{ desired.Repo }

// Write implements [desired.Repo].
func (a audited) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	rev, err := a.Repo.Write(ctx, w)
	if err == nil {
		audit.Note(ctx, func(r *audit.Record) { r.Commit = rev.Commit })
	}
	return rev, err
}

// WriteVIM implements [desired.Repo].
func (a audited) WriteVIM(ctx context.Context, name, subject string, trailers []desired.Trailer, change func(now []byte) ([]byte, error)) (commit string, err error) {
	commit, err = a.Repo.WriteVIM(ctx, name, subject, trailers, change)
	if commit != "" {
		audit.Note(ctx, func(r *audit.Record) { r.Commit = commit })
	}
	return commit, err
}
