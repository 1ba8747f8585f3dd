package vnfd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// ErrPointer is what an [*InvalidError] is ([errors.Is]) that is about pointers of git-lfs. Its
// text says what to do.
var ErrPointer = errors.New("a pointer of git-lfs in the place of a file")

// Is reports whether the error is about pointers of git-lfs, where that is asked for.
func (e *InvalidError) Is(target error) bool {
	return target == ErrPointer && slices.ContainsFunc(e.Problems, func(p Problem) bool { return p.Message == pointerFault })
}

// maxPointer is the size in bytes below which the pointers of git-lfs are.
const maxPointer = 1024

// pointerFault is what is wrong with a pointer of git-lfs in a package. Nothing here fetches
// from the store of git-lfs: a package's tree hash would no longer pin its content.
const pointerFault = "is a pointer of git-lfs and not the file itself: take it out of git-lfs " +
	"(`git lfs untrack`, then `git add --renormalize`), and push the file; an image belongs into a registry"

// isPointer reports whether the content of a file is a pointer of git-lfs.
func isPointer(data []byte) bool {
	return len(data) < maxPointer && bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/v1\n")) &&
		bytes.Contains(data, []byte("\noid sha256:"))
}

// pointers returns a problem for each file of the package that is a pointer of git-lfs.
func pointers(files fs.FS) ([]Problem, error) {
	var problems []Problem
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" && d.IsDir():
			return fs.SkipDir
		case !d.Type().IsRegular() || len(problems) >= maxUnsound:
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() >= maxPointer {
			return err
		}

		f, err := files.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxPointer))
		if err != nil {
			return err
		}
		if isPointer(data) {
			problems = append(problems, Problem{name, 0, pointerFault, Error})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for pointers of git-lfs: %w", err)
	}
	return problems, nil
}
