package bolt

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockPause is how long to wait before trying again to lock the file.
const lockPause = 50 * time.Millisecond

const (
	// mapSize is how many bytes of addresses the file is mapped into from the start. Until the file
	// has outgrown them, the writer doesn't wait for the reader of a copy before it may map more.
	mapSize = 1 << 30
	// growSize is by how many bytes the file grows at once.
	growSize = 1 << 20
)

// openFile opens the file at path and locks it. It waits for the lock for as long as locked.
func openFile(path string, locked time.Duration) (db *bolt.DB, err error) {
	err = guard(path, func() error {
		if err := verify(path, locked); err != nil {
			return err
		}
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			FreelistType:    bolt.FreelistMapType,
			InitialMmapSize: mapSize,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				return lockFile(name, flag, mode, locked)
			},
		})
		return err
	})
	switch {
	case err == nil:
		// While the file is in use, the list of its free pages is kept in memory alone: writing
		// it with each transaction would cost more than the records. closeFile writes it, and
		// after a crash bbolt finds the free pages by reading the file.
		db.NoFreelistSync = true
		db.AllocSize = growSize
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("store %s: %w", path, errLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, errDamaged):
		return nil, corrupt(path, err)
	}
	return nil, fmt.Errorf("store %s: %w", path, err)
}

// guard runs f, which reads the file at path. bbolt trusts its pages: it panics where they
// contradict each other, and faults on reading pages that a truncated file no longer has.
func guard(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(path, fmt.Errorf("%v", r))
		}
	}()
	return f()
}

// errLocked is returned when another process has the file.
var errLocked = errors.New("another process has it open: stop that one first")

// lockFile opens and locks the file that bbolt is about to use. The lock belongs to the open file: bbolt, which locks it once more, has it already.
func lockFile(path string, flag int, mode os.FileMode, patience time.Duration) (*os.File, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(lockPause) {
		f, err := os.OpenFile(path, flag, mode)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isAt(f, path) {
			if err = removeLeftover(path); err == nil {
				return f, nil
			}
			return nil, errors.Join(err, f.Close())
		}
		if closing := f.Close(); closing != nil {
			return nil, closing
		}
		switch {
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, fmt.Errorf("lock: %w", err)
		case time.Now().After(deadline):
			return nil, errLocked
		}
	}
}

// isAt reports whether f is the file at path. It isn't if another process has compacted the file
// between our opening it and our locking it: then that process has locked the file at path.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// leftover is the name of the copy that Compact makes of the file at path.
func leftover(path string) string { return path + ".shrinking" }

// removeLeftover removes what a crash left of a Compact. Only the process that has locked the
// file may do so.
func removeLeftover(path string) error {
	if err := os.Remove(leftover(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func corrupt(path string, cause error) error {
	return fmt.Errorf("store %s: the file is damaged (%w): restore it from a backup, or move it away to start without operation history and subscriptions; what runs is in git and is not lost", path, cause)
}
