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
)

// older runs a script of the older contract: a pickled dict on standard input, and one
// on standard output where the script has something to hand back. It reads and writes
// Jibe's own contract, and needs python3 alone.
//
//go:embed older/*.py
var older embed.FS

// importsPickle matches Python that imports pickle: what speaks the older contract must.
var importsPickle = regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+(?:[\w., \t]+,[ \t]*)?pickle\b|from[ \t]+pickle[ \t]+import\b)`)

// maxScript is how much of a script is looked at.
const maxScript = 1 << 20

// UserData is the hook of LCM user data classes, which compute what a Heat template is
// given. Jibe's own contract has no such programs.
const UserData = "user_data"

// speaksOlder says which contract a program speaks. This is the one place that decides:
// a *.py that imports pickle, or has a user data class, speaks the older one, everything
// else Jibe's own.
func speaksOlder(files fs.FS, program, hook string) (bool, error) {
	if path.Ext(program) != ".py" || hook == UserData {
		return hook == UserData, nil
	}
	f, err := files.Open(program)
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	return importsPickle.Match(text), err
}

// adapt makes the workspace one for a script of the older contract: it is run by the
// adapter, and may write to the copies of the packages, which were its own to change.
func (w *workspace) adapt(python, file string, who *identity) error {
	adapter := filepath.Join(w.dir, "older")
	if err := errors.Join(os.CopyFS(w.dir, older), release(adapter, who)); err != nil {
		return err
	}
	for _, name := range []string{"package", "other"} {
		if err := release(filepath.Join(w.dir, name), who); err != nil {
			return err
		}
	}
	// -I: nothing of the package takes the place of a module that the adapter imports;
	// -B: it leaves nothing behind.
	w.argv = []string{python, "-I", "-B", adapter, file}
	return nil
}

// release gives the tree to who, to be written to. It holds files and directories alone,
// and nothing but Jibe has been in it yet.
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
