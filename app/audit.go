package app

import (
	"context"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// AuditKey is the key by which the audit log of a data directory is checked. It is derived from the
// installation's secret key, which lock opens.
func AuditKey(data string, lock secret.LockOptions) ([]byte, error) {
	return datadir.DerivedKey(data, lock, datadir.AuditPurpose)
}

// GitKey is the key by which commits and notes of a data directory's desired repository are
// authenticated. It is derived from the installation's secret key, which lock opens.
func GitKey(data string, lock secret.LockOptions) ([]byte, error) {
	return datadir.DerivedKey(data, lock, datadir.GitPurpose)
}

// AuditFile is the file of the audit log in a data directory.
func AuditFile(data string) string { return datadir.AuditFile(data) }

// AuditHead is the file that notes how far the audit log goes.
func AuditHead(data string) string { return datadir.AuditHead(data) }

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
