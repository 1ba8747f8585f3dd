// Package datadir owns the data directory of a Jibe process: its lock, the names of what is
// in it, what a first start puts there, and the refusal of a directory that can't be one.
// What the files hold is the business of others.
package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

// Dir is the data directory of one process.
type Dir struct {
	// Path is absolute.
	Path string
	lock *os.File
	// crashed means that the last process on the directory didn't end in order, so that its
	// files and addresses may be taken for another moment.
	crashed bool
}

// ErrInUse is returned for a data directory that another process has.
var ErrInUse = errors.New("another server runs")

// OpenExisting locks a data directory that is there already, for who only reads it.
func OpenExisting(dir string, log *slog.Logger) (*Dir, error) {
	if !Exists(filepath.Join(dir, "lock")) && !Exists(filepath.Join(dir, StoreFile)) {
		return nil, fmt.Errorf("%s is no data directory of Jibe: no server was ever started on it", dir)
	}
	return Open(dir, log)
}

// Open makes the directory if need be and locks it: two processes on one data directory
// would each believe that they alone may act.
func Open(dir string, log *slog.Logger) (*Dir, error) {
	if dir == "" {
		return nil, errors.New("no data directory: give one with --data")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := noRepository(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	d, err := lockDir(dir, log)
	if err != nil {
		return nil, err
	}
	if Exists(d.path(UnfinishedFile)) {
		return nil, errors.Join(unfinished(dir), d.Close())
	}
	return d, nil
}

// lockDir locks a directory that is there.
func lockDir(dir string, log *slog.Logger) (*Dir, error) {
	d := &Dir{Path: dir}
	f, err := os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the data directory: %w", err)
	}
	if err := lock(f, log); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: data directory %s is in use by process %s; stop it, or give this one another --data", ErrInUse, dir, holder(f)), f.Close())
	}
	d.crashed = holder(f) != ""
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("lock of the data directory: %w", err), f.Close())
	}
	d.lock = f
	return d, nil
}

// Close gives the lock back. The file that it leaves empty says that the process ended in
// order.
func (d *Dir) Close() error { return errors.Join(d.lock.Truncate(0), d.lock.Close()) }

func (d *Dir) path(name string) string { return filepath.Join(d.Path, name) }

// StoreFile is the name of the store's file.
const StoreFile = "store.db"

// StorePlace is the name of the file that says where the records are, if they aren't in StoreFile.
const StorePlace = "store.url"

// SealedRecords is the name of the file that says that the records in the Redis of [StorePlace] have
// seals: one without a seal that is found later was put there by another program.
const SealedRecords = "records.sealed"

// Store is the file of the store.
func (d *Dir) Store() string { return d.path(StoreFile) }

// Desired is the desired repository, or the mirror of it.
func (d *Dir) Desired() string { return Desired(d.Path) }

// Desired is the desired repository in a data directory that another process may have.
func Desired(dir string) string { return filepath.Join(dir, "desired.git") }

// Packages is the directory of the local package repositories.
func (d *Dir) Packages() string { return d.path("packages") }

// Uploads is where packages that are uploaded are kept until they are in git.
func (d *Dir) Uploads() string { return d.path("uploads") }

// Socket is where the push hook reaches the server.
func (d *Dir) Socket() string { return d.path(SocketFile) }

// SocketFile is the name of the socket by which the host reaches the server on a data directory.
const SocketFile = "hook.sock"

// Secrets is the directory whose files references may name, unless others are given.
func (d *Dir) Secrets() string { return d.path(secret.DefaultDir) }

// Hooks is where the files that hooks need are written while they run. Where Jibe is root,
// that can't be below the data directory, which their user may not enter; the name is then
// the same at each start.
func (d *Dir) Hooks() string {
	if os.Geteuid() != 0 {
		return d.path("programs")
	}
	sum := sha256.Sum256([]byte(d.Path))
	return filepath.Join(os.TempDir(), "jibe-programs-"+hex.EncodeToString(sum[:8]))
}

// TokensFile is where the API's static tokens are kept in a data directory.
func TokensFile(dir string) string { return filepath.Join(dir, "tokens.yaml") }

// Keeper opens the key, which lock may keep. Where no directories of secrets are given it makes the usual one.
func (d *Dir) Keeper(lock secret.LockOptions, reach secret.Reach) (*secret.Keeper, error) {
	if len(reach.Dirs) == 0 {
		if err := os.MkdirAll(d.Secrets(), 0o700); err != nil {
			return nil, fmt.Errorf("directory of secrets: %w", err)
		}
	}
	by, err := lock.Lock()
	if err != nil {
		return nil, err
	}
	k, err := secret.Open(d.Path, by)
	if err != nil {
		return nil, err
	}
	return k.With(reach)
}
