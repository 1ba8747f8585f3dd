package hooks

import (
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"

	"github.com/jibe-vnfm/jibe/plan"
)

// adapter is Python that runs a script of the older contract, which reads a pickled dict
// from standard input and may write one to standard output. The adapter itself speaks
// Jibe's own contract, and needs nothing but python3.
//
//go:embed python_adapter/*.py
var adapter embed.FS

// importsPickle matches Python that imports pickle: a script of the older contract must.
var importsPickle = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+(?:[\w., \t]+,[ \t]*)?pickle\b|from[ \t]+pickle[ \t]+import\b)`)

// maxScript is how much of a script is looked at.
const maxScript = 1 << 20

// speaksOlder says which contract a file speaks. This is the one place that decides: a
// *.py that imports pickle, or has a user data class, speaks the older one, everything
// else Jibe's own.
func speaksOlder(files fs.FS, name, hook string) (bool, error) {
	if path.Ext(name) != ".py" || hook == plan.UserData {
		return hook == plan.UserData, nil
	}
	f, err := files.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	return importsPickle.Match(text), err
}

// adapt prepares the workspace for a script of the older contract: the adapter runs it, and
// it may write to the copies of the packages, as such scripts always could.
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
