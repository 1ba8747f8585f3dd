// Package csar deals with VNF packages as archives and directories (ETSI
// NFV-SOL004): it opens them without trusting them, extracts and builds them,
// keeps their checksums, and checks them for their authors.
//
// Package vnfd reads the descriptor in a package. Nothing here runs a package's content, or
// follows a path out of it.
package csar

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jibe-vnfm/jibe/internal/gitname"
)

// Limits bound what an archive may become. Zero fields take those of [DefaultLimits].
type Limits struct {
	MaxFiles  int   // entries, directories included
	MaxFile   int64 // bytes of one file, extracted
	MaxTotal  int64 // bytes of all files, extracted; also of the archive itself
	MaxRatio  int64 // extracted bytes for each compressed byte, of files above 1 MiB
	MaxLength int   // bytes of a path
}

// DefaultLimits fit packages with manifests, charts and scripts, and small images.
func DefaultLimits() Limits {
	return Limits{MaxFiles: 10_000, MaxFile: 512 << 20, MaxTotal: 2 << 30, MaxRatio: 200, MaxLength: 512}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, d *int64 }{{&l.MaxFile, &d.MaxFile}, {&l.MaxTotal, &d.MaxTotal}, {&l.MaxRatio, &d.MaxRatio}} {
		if *f.v <= 0 {
			*f.v = *f.d
		}
	}
	if l.MaxFiles <= 0 {
		l.MaxFiles = d.MaxFiles
	}
	if l.MaxLength <= 0 {
		l.MaxLength = d.MaxLength
	}
	return l
}

// ErrUnsafe is returned for an archive or directory that could write or read outside of
// itself, or whose entries are ambiguous. The error names the entry.
var ErrUnsafe = errors.New("unsafe VNF package")

// ErrTooLarge is returned for an archive beyond the limits.
var ErrTooLarge = errors.New("VNF package too large")

// Open checks every entry of a zipped CSAR of size bytes and returns its files.
// It decompresses nothing; reading a file yields at most the size that was
// checked. The result is valid as long as r is. Zero limits are the default ones.
func Open(r io.ReaderAt, size int64, limits Limits) (fs.FS, error) {
	limits = limits.orDefault()
	if size > limits.MaxTotal {
		return nil, fmt.Errorf("%w: the archive has %d bytes, more than %d", ErrTooLarge, size, limits.MaxTotal)
	}
	z, err := zip.NewReader(r, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are checked below, for a better message
		return nil, fmt.Errorf("read VNF package: %w", err)
	}
	if len(z.File) > limits.MaxFiles {
		return nil, fmt.Errorf("%w: it has %d entries, more than %d", ErrTooLarge, len(z.File), limits.MaxFiles)
	}
	var total int64
	tree := newTree(limits.MaxLength)
	for _, f := range z.File {
		if err := tree.add(f.Name, f.Mode()); err != nil {
			return nil, err
		}
		n, packed := f.UncompressedSize64, max(f.CompressedSize64, 1)
		switch {
		case f.Flags&1 != 0:
			return nil, fmt.Errorf("%w: %q is encrypted", ErrUnsafe, f.Name)
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return nil, fmt.Errorf("%w: %q is compressed by method %d: use deflate", ErrUnsafe, f.Name, f.Method)
		case n > uint64(limits.MaxFile):
			return nil, fmt.Errorf("%w: %q has %d bytes, more than %d", ErrTooLarge, f.Name, n, limits.MaxFile)
		case n > 1<<20 && n/packed > uint64(limits.MaxRatio):
			return nil, fmt.Errorf("%w: %q grows from %d to %d bytes: is it a bomb?", ErrTooLarge, f.Name, f.CompressedSize64, n)
		}
		if total += int64(n); total > limits.MaxTotal {
			return nil, fmt.Errorf("%w: its files have more than %d bytes in all", ErrTooLarge, limits.MaxTotal)
		}
	}
	return z, nil
}

// Archive is an open zip file.
type Archive struct {
	fs.FS
	file *os.File
}

// Close closes the zip file; its files can't be read any more.
func (a *Archive) Close() error { return a.file.Close() }

// OpenFile is [Open] for a zip file on disk.
func OpenFile(name string, limits Limits) (*Archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open VNF package: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s isn't a file", name)
	}
	var files fs.FS
	if err == nil {
		files, err = Open(f, st.Size(), limits)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open VNF package %s: %w", name, err)
	}
	return &Archive{files, f}, nil
}

// MaxDepth is how many directories may stand in each other above a file or directory of a package.
const MaxDepth = 32

// CheckPath refuses a path that nothing in a package may have, in an archive or in a repository.
func CheckPath(p string) error {
	if strings.Count(p, "/") > MaxDepth {
		return fmt.Errorf("%w: %.60q…: directories nest more than %d deep", ErrUnsafe, p, MaxDepth)
	}
	for name := range strings.SplitSeq(p, "/") {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("%w: %q: %w", ErrUnsafe, p, err)
		}
	}
	return nil
}

// CheckName refuses the name of a file or directory that nothing in a package may have.
func CheckName(name string) error {
	switch {
	case gitname.IsDotGit(name):
		return errors.New("the name is not allowed in a package: some file systems read it as .git, and git refuses every commit that has it")
	case name == "", name == ".", name == "..",
		strings.ContainsAny(name, `/\:`), len(name) > 255, !utf8.ValidString(name),
		strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("the name is not allowed in a package: use letters, digits, '.', '-', '_'")
	}
	return nil
}

// tree checks names against each other, so that a package means the same on
// every file system and every reader of the archive sees the same files.
type tree struct {
	longest int
	seen    map[string]node // by lower-case path
}

type node struct {
	name string
	dir  bool
	// implied directories were only seen in the path of a file.
	implied bool
}

func newTree(longest int) *tree { return &tree{longest, map[string]node{}} }

func (t *tree) add(name string, mode fs.FileMode) error {
	dir := strings.HasSuffix(name, "/")
	p := strings.TrimSuffix(name, "/")
	switch {
	case len(name) > t.longest:
		return fmt.Errorf("%w: the path %.60q… is longer than %d bytes", ErrUnsafe, name, t.longest)
	case path.IsAbs(name) || len(name) > 1 && name[1] == ':':
		return fmt.Errorf("%w: %q is an absolute path", ErrUnsafe, name)
	case strings.ContainsRune(name, '\\'):
		return fmt.Errorf(`%w: %q has a "\" in its path: use "/"`, ErrUnsafe, name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%w: %q has characters in its path that aren't printable UTF-8", ErrUnsafe, name)
	case p == "." || !fs.ValidPath(p):
		return fmt.Errorf("%w: %q leaves the package or isn't in its shortest form", ErrUnsafe, name)
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: %q is a symbolic link: put the file itself into the package", ErrUnsafe, name)
	case mode.IsDir() != dir || !dir && !mode.IsRegular():
		return fmt.Errorf("%w: %q is neither a file nor a directory", ErrUnsafe, name)
	}
	if err := CheckPath(p); err != nil {
		return err
	}
	if err := t.put(node{name: p, dir: dir}); err != nil {
		return err
	}
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if err := t.put(node{d, true, true}); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) put(n node) error {
	key := strings.ToLower(n.name)
	old, ok := t.seen[key]
	switch {
	case !ok:
		t.seen[key] = n
	case old.name != n.name:
		return fmt.Errorf("%w: %q and %q differ only in case", ErrUnsafe, old.name, n.name)
	case old.dir != n.dir:
		return fmt.Errorf("%w: %q is both a file and a directory", ErrUnsafe, n.name)
	case !old.implied && !n.implied:
		return fmt.Errorf("%w: %q is in the archive twice", ErrUnsafe, n.name)
	case old.implied && !n.implied:
		t.seen[key] = n
	}
	return nil
}
