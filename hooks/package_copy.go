package hooks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Limits on a package that is copied out; a package repository has the same.
const (
	maxCopyFiles = 10_000
	maxCopySize  = 128 << 20
)

// harmless refuses files that must not be written out.
func harmless(files fs.FS) error {
	count, size := 0, int64(0)
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if count++; count > maxCopyFiles+1 {
			return fmt.Errorf("it has more than %d files and directories", maxCopyFiles)
		}
		switch {
		case !filepath.IsLocal(filepath.FromSlash(name)):
			return fmt.Errorf("%q is a path out of it", name)
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%q is neither a file nor a directory (%s)", name, entry.Type())
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > maxCopySize {
			return fmt.Errorf("its files have more than %d bytes together", maxCopySize)
		}
		return nil
	})
}

// copyOut writes the files to a directory that doesn't exist yet, read-only. A file that
// the system can execute is made executable, whatever the package says.
func copyOut(files fs.FS, to string) error {
	if files == nil {
		return errors.New("it has no files")
	}
	if err := harmless(files); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	var dirs []string
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return copyFile(files, name, entry, root)
		}
		dirs = append(dirs, name)
		if name == "." {
			return nil
		}
		return root.Mkdir(name, 0o755)
	})
	for i := len(dirs) - 1; err == nil && i >= 0; i-- {
		err = root.Chmod(dirs[i], 0o555)
	}
	return err
}

func copyFile(files fs.FS, name string, entry fs.DirEntry, root *os.Root) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	if int64(len(data)) > info.Size() {
		return fmt.Errorf("%q grew while it was read", name)
	}
	mode := fs.FileMode(0o444)
	if info.Mode()&0o111 != 0 || executable(data) {
		mode = 0o555
	}
	// A process that is forked meanwhile would hold the file open for writing, and
	// the system executes no such file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := root.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	return root.Chmod(name, mode)
}
