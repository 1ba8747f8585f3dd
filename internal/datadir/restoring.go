package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// UnfinishedFile is the name of the file that is in a data directory while a backup is restored
// into it. No process starts on a directory that has it.
const UnfinishedFile = "restore.unfinished"

func unfinished(dir string) error {
	return fmt.Errorf("data directory %s holds a part of a backup only: a restore was interrupted. Run jibe restore again, with the same backup or another", dir)
}

// Restore locks the directory into which a backup is restored, and makes it if need be. It
// refuses one that holds anything but what a restore that was interrupted has left, which it
// removes. The caller MUST call [Dir.Finished] when all is in place, and Close.
func Restore(dir string, log *slog.Logger) (*Dir, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := checkEmpty(dir); err != nil { // before the lock, which would be in somebody's directory
		return nil, err
	}
	d, err := lockDir(dir, log)
	if err != nil {
		return nil, err
	}
	if err := d.beginRestore(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// own says whether an entry is what an empty data directory may have: the lock, the root folder
// of a file system, what a mount has hidden.
func own(name string) bool {
	return name == "lock" || name == "lost+found" || strings.HasPrefix(name, "..")
}

// begun says whether an entry is the beginning of an [UnfinishedFile] whose writer was killed
// before it had its name. Nothing else of a restore was there yet.
func begun(name string) bool { return strings.HasPrefix(name, temporary(UnfinishedFile)) }

func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if Exists(filepath.Join(dir, UnfinishedFile)) {
		return nil
	}
	for _, e := range entries {
		if !own(e.Name()) && !begun(e.Name()) {
			return fmt.Errorf("data directory %s isn't empty (it has %s): a backup is restored into an empty one only. "+
				"Name another with --data, or move the content of this one away and keep it until the restored one works", dir, e.Name())
		}
	}
	return nil
}

func (d *Dir) beginRestore() error {
	if err := checkEmpty(d.Path); err != nil { // somebody may have been faster
		return err
	}
	if err := writeDurably(d.path(UnfinishedFile), "jibe restore writes here\n"); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		if own(e.Name()) || e.Name() == UnfinishedFile {
			continue
		}
		if err := os.RemoveAll(d.path(e.Name())); err != nil {
			return fmt.Errorf("remove what an interrupted restore left: %w", err)
		}
	}
	return nil
}

// Finished says that all is in place and durable: from then on the directory is a data directory.
func (d *Dir) Finished() error {
	if err := os.Remove(d.path(UnfinishedFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	return syncFolder(d.Path)
}

// Abandon removes all that a restore has put into the directory.
func (d *Dir) Abandon() error {
	if err := d.beginRestore(); err != nil {
		return err
	}
	return d.Finished()
}

// WriteDurably writes a file of the data directory so that it is there as a whole or not at all,
// whatever happens.
func WriteDurably(file, text string) error { return writeDurably(file, text) }
