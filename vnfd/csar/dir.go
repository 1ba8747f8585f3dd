package csar

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Dir opens an expanded package. It refuses symbolic links that leave the package, also ones
// that are made later, and everything that is neither a file, a link nor a directory. A .git
// directory at the root isn't part of the package.
func Dir(name string) (fs.FS, error) {
	root, err := os.OpenRoot(name) // closed when files is collected
	if err != nil {
		return nil, fmt.Errorf("open VNF package: %w", err)
	}
	files := root.FS()
	err = walk(files, func(p string, d fs.DirEntry) error {
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			if _, err := root.Stat(p); err != nil {
				return fmt.Errorf("%w: the symbolic link %q leaves the package or leads nowhere", ErrUnsafe, p)
			}
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%w: %q is neither a file nor a directory", ErrUnsafe, p)
		}
		return nil
	})
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("open VNF package %s: %w", name, err)
	}
	return files, nil
}

// walk visits everything below the root but .git, in order of path.
func walk(files fs.FS, visit func(p string, d fs.DirEntry) error) error {
	return fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == ".git":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case p == ".":
			return nil
		}
		return visit(p, d)
	})
}

// permissions returns the mode of a file that is extracted or built. It keeps only whether
// the file may be run, so that the result doesn't depend on anyone's umask.
func permissions(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// Extract writes the package into the directory dst, which must not exist. It first writes
// to a temporary directory, so that dst is complete or doesn't exist; where it fails, it
// leaves nothing. files comes from [Open] or [Dir].
func Extract(files fs.FS, dst string) (err error) {
	dst = filepath.Clean(dst)
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("extract VNF package: %s: %w", dst, fs.ErrExist)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dst), "."+filepath.Base(dst)+".part-")
	if err != nil {
		return fmt.Errorf("extract VNF package: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
			err = fmt.Errorf("extract VNF package: %w", err)
		}
	}()
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return err
	}
	defer root.Close()
	tree := newTree(DefaultLimits().MaxLength)
	err = walk(files, func(p string, d fs.DirEntry) error {
		if d.IsDir() {
			if err := tree.add(p+"/", fs.ModeDir); err != nil {
				return err
			}
			return root.Mkdir(p, 0o755)
		}
		st, err := stat(files, p, d)
		if err != nil {
			return err
		}
		if err := tree.add(p, st.Mode()); err != nil {
			return err
		}
		out, err := root.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, permissions(st.Mode()))
		if err != nil {
			return err
		}
		err = copyFile(out, files, p)
		if cerr := out.Close(); err == nil {
			err = cerr
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, dst)
}

// stat follows a symbolic link to its file. It refuses a link to a directory, which would be
// in the package twice.
func stat(files fs.FS, p string, d fs.DirEntry) (fs.FileInfo, error) {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Info()
	}
	st, err := fs.Stat(files, p)
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%w: %q is a symbolic link to a directory", ErrUnsafe, p)
	}
	return st, err
}

func copyFile(out io.Writer, files fs.FS, p string) error {
	in, err := files.Open(p)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy %s: %w", p, err)
	}
	return nil
}

// epoch is the first moment that a zip file can express.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Build writes the package as a zip file. The same files give the same bytes:
// entries are in order of path and carry no time, owner or umask.
func Build(files fs.FS, w io.Writer) error { return build(files, w, zip.Deflate) }

// BuildStored is [Build] without compression: its bytes are the same whichever version of Jibe
// builds it.
func BuildStored(files fs.FS, w io.Writer) error { return build(files, w, zip.Store) }

func build(files fs.FS, w io.Writer, method uint16) error {
	z := zip.NewWriter(w)
	tree := newTree(DefaultLimits().MaxLength)
	err := walk(files, func(p string, d fs.DirEntry) error {
		if d.IsDir() {
			return nil // the paths of its files say that it's there
		}
		st, err := stat(files, p, d)
		if err != nil {
			return err
		}
		if err := tree.add(p, st.Mode()); err != nil {
			return err
		}
		h := &zip.FileHeader{Name: p, Method: method, Modified: epoch}
		h.SetMode(permissions(st.Mode()))
		out, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		return copyFile(out, files, p)
	})
	if err != nil {
		return fmt.Errorf("build VNF package: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("build VNF package: %w", err)
	}
	return nil
}
