package packages

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// files is a package's content: an immutable [fs.FS]. Small files are in memory, large ones
// in git.
type files struct {
	git   git.Runner
	nodes map[string]*file
	size  int64 // bytes of all files
	held  int64 // of those in memory
	watch *watch
}

// file is a file or directory, and what fs wants to know of it.
type file struct {
	name     string
	mode     fs.FileMode
	hash     string
	size     int64
	data     []byte        // nil where it isn't held
	children []fs.DirEntry // by name
}

func newFiles(runner git.Runner) *files {
	return &files{git: runner, nodes: map[string]*file{".": {name: ".", mode: fs.ModeDir | 0o555}}}
}

func (f *files) count() int { return len(f.nodes) - 1 }

func (f *files) mkdir(name string) error {
	return f.put(name, &file{name: path.Base(name), mode: fs.ModeDir | 0o555})
}

// add adds a file; data is nil for one that stays in git.
func (f *files) add(name, hash string, size int64, data []byte, mode fs.FileMode) error {
	f.held += int64(len(data))
	return f.put(name, &file{name: path.Base(name), mode: mode, hash: hash, size: size, data: data})
}

func (f *files) put(name string, n *file) error {
	if f.nodes[name] != nil {
		return refuse("%q stands twice in its directory", name)
	}
	f.nodes[name] = n
	dir := f.nodes[path.Dir(name)]
	dir.children = append(dir.children, n)
	return nil
}

// finish puts directories in the order that fs wants, which isn't git's.
func (f *files) finish() {
	for _, n := range f.nodes {
		slices.SortFunc(n.children, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
}

func (f *files) get(op, name string) (*file, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if err := f.watch.open(op, name); err != nil {
		return nil, err
	}
	n := f.nodes[name]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Open implements [fs.FS].
func (f *files) Open(name string) (fs.File, error) {
	n, err := f.get("open", name)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return &openDir{file: n}, nil
	}
	if n.large() {
		return &openBlob{file: n, git: f.git, watch: f.watch}, nil
	}
	return &openFile{file: n, Reader: bytes.NewReader(n.data)}, nil
}

// ReadFile implements [fs.ReadFileFS]; the caller may change what it gets.
func (f *files) ReadFile(name string) ([]byte, error) {
	n, err := f.get("read", name)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	if n.large() {
		b := &openBlob{file: n, git: f.git, watch: f.watch}
		data, err := io.ReadAll(b)
		return data, errors.Join(err, b.Close())
	}
	return bytes.Clone(n.data), nil
}

// ReadDir implements [fs.ReadDirFS].
func (f *files) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := f.get("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	return slices.Clone(n.children), nil
}

// Stat implements [fs.StatFS].
func (f *files) Stat(name string) (fs.FileInfo, error) { return f.get("stat", name) }

func (f *file) Name() string               { return f.name }
func (f *file) Size() int64                { return f.size }
func (f *file) Mode() fs.FileMode          { return f.mode }
func (f *file) Type() fs.FileMode          { return f.mode.Type() }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return f.mode.IsDir() }
func (f *file) Sys() any                   { return nil }
func (f *file) Info() (fs.FileInfo, error) { return f, nil }
func (f *file) String() string             { return fs.FormatFileInfo(f) }

// large says whether the content has to be read out of git.
func (f *file) large() bool { return f.data == nil && f.size > 0 }

type openFile struct {
	file *file
	*bytes.Reader
}

func (o *openFile) Stat() (fs.FileInfo, error) { return o.file, nil }
func (o *openFile) Close() error               { return nil }

type openDir struct {
	file *file
	at   int
}

func (o *openDir) Stat() (fs.FileInfo, error) { return o.file, nil }
func (o *openDir) Close() error               { return nil }
func (o *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: o.file.name, Err: fs.ErrInvalid}
}

func (o *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	left := o.file.children[o.at:]
	if n > 0 && len(left) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		left = left[:min(n, len(left))]
	}
	o.at += len(left)
	return slices.Clone(left), nil
}
