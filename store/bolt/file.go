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

// openFile opens the file at path and locks it. It waits for the lock for as long as locked.
func openFile(path string, locked time.Duration) (db *bolt.DB, err error) {
	// bbolt trusts its pages: it panics where they contradict each other, and faults on
	// reading pages that a truncated file no longer has.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, corrupt(path, fmt.Errorf("%v", r))
		}
	}()
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			return lockFile(name, flag, mode, locked)
		},
	})
	switch {
	case err == nil:
		// While the file is in use, the list of its free pages is kept in memory alone: writing
		// it with each transaction would cost more than the records. Close writes it, and after
		// a crash restoreFreelist does.
		db.NoFreelistSync = true
		return db, nil
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, errDamaged):
		return nil, corrupt(path, err)
	}
	return nil, fmt.Errorf("store %s: %w", path, err)
}

// lockFile opens and locks the file that bbolt is about to use, and makes it complete. The
// lock belongs to the open file: bbolt, which locks it once more, has it already.
func lockFile(path string, flag int, mode os.FileMode, patience time.Duration) (*os.File, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(lockPause) {
		f, err := os.OpenFile(path, flag, mode)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isAt(f, path) {
			if err = removeLeftover(path); err == nil {
				err = restoreFreelist(f)
			}
			if err == nil {
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
			return nil, errors.New("another process has it open: stop that one first")
		}
	}
}

// isAt says whether f is the file at path. It isn't where another process has shrunk the file
// between our opening it and our locking it: then that process has locked the file at path.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

// leftover is the name of the copy that Shrink makes of the file at path.
func leftover(path string) string { return path + ".shrinking" }

// removeLeftover removes what a crash left of a Shrink. Only who has locked the file may do
// it.
func removeLeftover(path string) error {
	if err := os.Remove(leftover(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func corrupt(path string, cause error) error {
	return fmt.Errorf("store %s: the file is damaged (%w): restore it from a backup, or move it away to start without operation history and subscriptions; what runs is in git and is not lost", path, cause)
}
