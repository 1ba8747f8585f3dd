package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	// compactSize is the size in bytes below which Compact leaves a file as it is.
	compactSize = 32 << 20
	// compactShare is the share of free pages above which Compact copies the file.
	compactShare = 0.5
	// compactTx is how many bytes one transaction of the compaction copies, which bounds its memory.
	compactTx = 1 << 20
)

// Compact gives space back to the disk: bbolt copies the records of the file at path into a new
// file, which takes the place of the old one, if that is above 32 MiB and more than half of it
// is free. Otherwise, and where there is no file, it does nothing. It returns how many bytes
// smaller the file became. It waits up to locked for another process that has the file.
//
// A crash at any moment leaves the old file or the new one, each complete. If Compact fails the
// file is as it was; the error wraps [syscall.ENOSPC] if the disk has no room for the copy.
func Compact(path string, locked time.Duration) (freed int64, err error) {
	return compactAbove(compactSize, compactShare, path, locked)
}

// compactAbove is Compact with other bounds.
func compactAbove(size int64, share float64, path string, locked time.Duration) (freed int64, err error) {
	before, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && before.Size() <= size {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}

	db, err := openFile(path, locked)
	if err != nil {
		return 0, err
	}
	free := freeBytes(db)
	if float64(free) > share*float64(before.Size()) {
		err = replace(db, before.Size()-free)
	}
	if err := errors.Join(err, closeFile(db)); err != nil {
		return 0, fmt.Errorf("compact store %s: %w", path, err)
	}

	after, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return before.Size() - after.Size(), nil
}

// freeBytes returns how much of the file holds nothing.
func freeBytes(db *bolt.DB) int64 {
	stats := db.Stats()
	return int64(stats.FreePageN+stats.PendingPageN) * int64(db.Info().PageSize)
}

// room returns an error if a copy of size bytes would take the room that writers need.
func room(dir string, size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("room in %s: %w", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < 2*uint64(size) {
		return fmt.Errorf("the copy needs %d MiB, and as much for what is written meanwhile; %s has %d MiB: %w", size>>20, dir, free>>20, syscall.ENOSPC)
	}
	return nil
}

// replace puts a copy of the records, which take some live bytes, in the place of the file of db.
// Only the process that has locked the file may do so.
func replace(db *bolt.DB, live int64) error {
	path := db.Path()
	if err := room(filepath.Dir(path), live); err != nil {
		return err
	}
	if err := removeLeftover(path); err != nil {
		return err
	}

	if err := copyTo(leftover(path), db); err != nil {
		return err
	}

	// The copy is durable before it has the name, and the name before anything is written to it:
	// a power failure brings back the old file, or the new one.
	if err := os.Rename(leftover(path), path); err != nil {
		return errors.Join(err, removeLeftover(path))
	}
	return syncDir(filepath.Dir(path))
}

// copyTo makes a complete and durable file at path of what is in db.
func copyTo(path string, db *bolt.DB) error {
	to, err := bolt.Open(path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true, NoSync: true, Timeout: lockTimeout})
	if err != nil {
		return err
	}
	to.AllocSize = growSize
	err = guard(db.Path(), func() error { return bolt.Compact(to, db, compactTx) })
	if err := errors.Join(err, closeFile(to)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// closeFile writes the list of free pages, which a transaction does, and closes the file. If the
// list can't be written, the next opening finds the free pages again.
func closeFile(db *bolt.DB) error {
	db.NoSync, db.NoFreelistSync = false, false
	_ = db.Update(func(*bolt.Tx) error { return nil })
	return errors.Join(db.Sync(), db.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// verify reads all of a file that has no list of free pages: bbolt is about to look for them in a
// goroutine of its own, which a damaged page would make kill the process.
func verify(path string, locked time.Duration) error {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return nil // a process that was killed had just made it, and bbolt has yet to write its first pages
	}
	if !unlisted(path) {
		return nil
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: locked})
	if err != nil {
		return err
	}
	_, err = liveBytes(db)
	return errors.Join(err, db.Close())
}

// liveBytes reads all pages that are in use, and returns how many bytes they take. Keys that are
// out of order tell of a page that is another's, which bbolt doesn't notice.
func liveBytes(db *bolt.DB) (live int64, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		info, err := os.Stat(db.Path())
		if err == nil && info.Size() < tx.Size() {
			err = fmt.Errorf("%w: %d bytes of %d are left", errDamaged, info.Size(), tx.Size())
		}
		if err != nil {
			return err
		}

		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			var last string
			if err := b.ForEach(func(k, _ []byte) error {
				if string(k) <= last {
					return errDamaged
				}
				last = string(k)
				return nil
			}); err != nil {
				return err
			}

			stats := b.Stats()
			live += int64(stats.BranchAlloc + stats.LeafAlloc)
			return nil
		})
	})
	return live, err
}

// errDamaged is wrapped by errors that say where a file contradicts itself.
var errDamaged = errors.New("its pages contradict each other")

// unlisted reports whether the file may be without a list of its free pages, as one is that was
// not closed. bbolt doesn't say so, thus its two meta pages are read: after a page's header of 16
// bytes each has magic, version, page size and flags (4 bytes), the root and its sequence, the
// page of the list, the number of pages, that of the transaction, and a checksum (8 bytes each).
func unlisted(path string) bool {
	const header, size, magic, none = 16, 64, 0xED0CDAED, ^uint64(0)
	f, err := os.Open(path)
	if err != nil {
		return false // bbolt says what is wrong with it
	}
	defer f.Close()

	var newest uint64
	list := none
	for _, page := range []int64{0, int64(os.Getpagesize())} {
		b := make([]byte, size)
		if _, err := io.ReadFull(io.NewSectionReader(f, page+header, size), b); err != nil {
			continue
		}
		sum := fnv.New64a()
		_, _ = sum.Write(b[:56]) // it never fails
		u64 := binary.NativeEndian.Uint64
		if txid := u64(b[48:]); binary.NativeEndian.Uint32(b) == magic && u64(b[56:]) == sum.Sum64() && txid >= newest {
			newest, list = txid, u64(b[32:])
		}
	}
	return list == none
}
