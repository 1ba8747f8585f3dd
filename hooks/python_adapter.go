package hooks

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// adapter is Python that runs a script of the older contract, which reads a pickled dict
// from standard input and may write one to standard output. The adapter itself speaks
// Jibe's own contract, and needs nothing but python3.
//
//go:embed python_adapter/*.py
var adapter embed.FS

// adapt prepares the workspace for a script of the older contract: the adapter runs it, and
// it may write to the copies of the packages, as such scripts always could. Where the script
// doesn't start by itself, the adapter calls the class.
func (w *workspace) adapt(python, file string, who *identity) error {
	main := filepath.Join(w.dir, "python_adapter")
	if err := errors.Join(os.CopyFS(w.dir, adapter), release(main, who)); err != nil {
		return err
	}
	for _, name := range []string{"package", "other"} {
		if err := release(filepath.Join(w.dir, name), who); err != nil {
			return err
		}
	}
	// -I: nothing of the package takes the place of a module that the adapter imports;
	// -B: it leaves nothing behind.
	w.argv = []string{python, "-I", "-B", main, file}
	if w.class != "" {
		w.argv = append(w.argv, w.class)
	}
	return nil
}

// release gives the tree to who, to be written to. The tree holds files and directories
// alone, as nobody but Jibe has written to it yet.
func release(tree string, who *identity) error {
	return filepath.WalkDir(tree, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == tree {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return errors.Join(os.Chmod(name, info.Mode().Perm()|0o200), who.give(name))
	})
}
