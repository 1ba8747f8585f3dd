package read

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// workingCopy is a Snapshot of a plain directory, read whole when it is made.
type workingCopy struct {
	dir   string
	index *Index
	files map[string]desired.Files // by instance directory
	read  map[string]*desired.Instance
	extra desired.Files // vims/ and repositories.yaml
}

// WorkingCopy reads a directory that looks like a clone of the desired repository, committed
// or not. The tree hashes are those that git would give. Files larger than the limit and
// nested repositories are refused.
func WorkingCopy(dir string) (Snapshot, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("read working copy: %w", err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("read working copy: %s is no directory", dir)
	}
	w := &workingCopy{dir: dir, index: NewIndex(), files: map[string]desired.Files{}, read: map[string]*desired.Instance{}, extra: desired.Files{}}
	if err := w.walk(InstancesDir, 0); err != nil {
		return nil, fmt.Errorf("read working copy: %w", err)
	}
	if err := w.readSettings(); err != nil {
		return nil, fmt.Errorf("read working copy: %w", err)
	}
	return w, nil
}

// walk looks for instances at and below a folder.
func (w *workingCopy) walk(dir string, depth int) error {
	if depth > objects.MaxDepth {
		return fmt.Errorf("%s: directories are nested more than %d deep", dir, objects.MaxDepth)
	}
	items, err := os.ReadDir(filepath.Join(w.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) && depth == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, it := range items {
		if depth > 0 && it.Name() == desired.InstanceFile {
			return w.add(dir)
		}
	}
	for _, it := range items {
		if depth > 0 && it.Type().IsRegular() && misname(it.Name()) {
			w.index.Put(&Slot{Rev: desired.Revision{Dir: dir}, Problems: []*desired.Problem{misnamedAs(dir, it.Name())}})
		}
		if it.IsDir() && it.Name() != ".git" {
			if err := w.walk(path.Join(dir, it.Name()), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *workingCopy) add(dir string) error {
	files := desired.Files{}
	tree, err := w.hashDir(dir, "", files)
	if err != nil {
		return err
	}
	s := &Slot{Rev: desired.Revision{Dir: dir, Tree: tree}}
	file := path.Join(dir, desired.InstanceFile)
	if data, ok := files[desired.InstanceFile]; !ok {
		s.Problems = []*desired.Problem{NotAFile(file, git.Entry{Mode: git.ModeSymlink})}
	} else if in, err := desired.ParseInstance(file, data); err != nil {
		s.Problems = problemsOf(file, err)
	} else {
		s.Holds(in)
		s.Exposed = SecretsIn(file, data, in)
		w.read[dir] = in
		if granted, ok := files[desired.GrantedFile]; ok {
			with := *in
			if with.Granted, err = desired.ParseGranted(path.Join(dir, desired.GrantedFile), granted); err != nil {
				s.Problems = problemsOf(path.Join(dir, desired.GrantedFile), err)
			}
			w.read[dir] = &with
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != desired.InstanceFile && path.Base(name) == desired.InstanceFile {
			s.Problems = append(s.Problems, InsideOther(dir, name))
		}
	}
	w.files[dir] = files
	w.index.Put(s)
	return nil
}

// hashDir reads the files below a directory and returns the hash of its tree,
// "" for one without files.
func (w *workingCopy) hashDir(dir, prefix string, files desired.Files) (string, error) {
	items, err := os.ReadDir(filepath.Join(w.dir, filepath.FromSlash(dir)))
	if err != nil {
		return "", err
	}
	var list []git.Entry
	for _, it := range items {
		p, name := path.Join(dir, it.Name()), path.Join(prefix, it.Name())
		full := filepath.Join(w.dir, filepath.FromSlash(p))
		e := git.Entry{Mode: git.ModeFile, Name: it.Name()}
		switch {
		case it.IsDir() && it.Name() == ".git":
			continue
		case it.IsDir():
			e.Mode = git.ModeDir
			if e.Hash, err = w.hashDir(p, name, files); err != nil {
				return "", err
			}
			if e.Hash == "" {
				continue
			}
		case it.Type() == fs.ModeSymlink:
			to, err := os.Readlink(full)
			if err != nil {
				return "", err
			}
			e.Mode, e.Hash = git.ModeSymlink, git.HashObject(git.KindBlob, []byte(to))
		case it.Type().IsRegular():
			st, err := it.Info()
			if err != nil {
				return "", err
			}
			data, err := readLimited(full)
			if err != nil {
				return "", err
			}
			if st.Mode()&0o100 != 0 {
				e.Mode = git.ModeExec
			}
			if files[name], e.Hash = data, git.HashObject(git.KindBlob, data); len(files) > objects.MaxFiles {
				return "", fmt.Errorf("%s: more than %d files in one instance's directory", dir, objects.MaxFiles)
			}
		default:
			return "", fmt.Errorf("%s is neither a file nor a folder", p)
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		return "", nil
	}
	return git.HashObject(git.KindTree, git.EncodeTree(list)), nil
}

func readLimited(name string) ([]byte, error) {
	st, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if st.Mode().Type() == fs.ModeSymlink {
		return nil, fmt.Errorf("%s is a symbolic link, which is never followed", name)
	}
	if st.Size() > objects.MaxObject {
		return nil, fmt.Errorf("%s: %w: %d bytes, the limit is %d", name, git.ErrTooLarge, st.Size(), objects.MaxObject)
	}
	return os.ReadFile(name)
}

func (w *workingCopy) readSettings() error {
	names := RootSettings()
	for _, dir := range SettingsDirs() {
		items, err := os.ReadDir(filepath.Join(w.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, it := range items {
			if it.Type().IsRegular() {
				names = append(names, path.Join(dir, it.Name()))
			}
		}
	}
	for _, name := range names {
		data, err := readLimited(filepath.Join(w.dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		w.extra[name] = data
	}
	return nil
}

func (w *workingCopy) Commit() string                            { return "" }
func (w *workingCopy) List() []desired.Revision                  { return w.index.List() }
func (w *workingCopy) Lookup(id string) (desired.Revision, bool) { return w.index.Lookup(id) }
func (w *workingCopy) Problems() []*desired.Problem              { return w.index.Problems() }
func (w *workingCopy) Exposed() []*desired.Problem               { return w.index.Exposed() }
func (w *workingCopy) current(rev desired.Revision) bool {
	s := w.index.ByDir.Get(rev.Dir)
	return s != nil && s.Rev.Tree == rev.Tree
}

func (w *workingCopy) Read(_ context.Context, rev desired.Revision) (*desired.Instance, error) {
	if in := w.read[rev.Dir]; in != nil && w.current(rev) {
		return in, nil
	}
	return nil, fmt.Errorf("%w: %s with tree %q in %s", desired.ErrNotFound, rev.Dir, rev.Tree, w.dir)
}

func (w *workingCopy) Files(_ context.Context, rev desired.Revision) (desired.Files, error) {
	if files := w.files[rev.Dir]; files != nil && w.current(rev) {
		return files, nil
	}
	return nil, fmt.Errorf("%w: %s with tree %q in %s", desired.ErrNotFound, rev.Dir, rev.Tree, w.dir)
}

func (w *workingCopy) Settings() (*desired.Settings, error) {
	var names []string
	for name := range w.extra {
		names = append(names, name)
	}
	return desired.SettingsFrom(func(name string) ([]byte, error) { return w.extra[name], nil }, names)
}

func (w *workingCopy) File(_ context.Context, p string) ([]byte, error) {
	p = path.Clean(p)
	if path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
		return nil, fmt.Errorf("%w: %s", desired.ErrNotFound, p)
	}
	data, err := readLimited(filepath.Join(w.dir, filepath.FromSlash(p)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", desired.ErrNotFound, p)
	}
	return data, err
}
