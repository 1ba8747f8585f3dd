package app

import (
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
