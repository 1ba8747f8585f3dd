package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The form of a backup is a tar in gzip, which every system can list and unpack, with the manifest
// as its last file. Behind it stands one more member of gzip, without content, whose comment is the
// digest of all bytes before it: gzip alone doesn't notice each byte that has changed.

// trailer is that member.
func trailer(sum []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = "jibe backup sha256:" + hex.EncodeToString(sum)
	_ = w.Close() // it writes to memory
	return b.Bytes()
}

// trailerSize is its length, bytes.
var trailerSize = len(trailer(make([]byte, sha256.Size)))

// ErrDamaged is wrapped by errors that say why a backup isn't one, or not a whole one.
var ErrDamaged = errors.New("the backup is damaged or cut short")

// Checker finds out whether what is written to it is a whole backup, by the digest at its end.
// The zero value is ready.
type Checker struct {
	sum  hash.Hash
	tail []byte // what may be the trailer
}

// Write implements io.Writer; it never fails.
func (c *Checker) Write(p []byte) (int, error) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	c.tail = append(c.tail, p...)
	if n := len(c.tail) - trailerSize; n > 0 {
		c.sum.Write(c.tail[:n])
		c.tail = append(c.tail[:0], c.tail[n:]...)
	}
	return len(p), nil
}

// Complete returns an error that wraps [ErrDamaged] unless all of a backup was written.
func (c *Checker) Complete() error {
	if c.sum == nil || !bytes.Equal(c.tail, trailer(c.sum.Sum(nil))) {
		return fmt.Errorf("%w: its digest is another one than it had when it was made", ErrDamaged)
	}
	return nil
}

// write writes all that was gathered, and completes the manifest.
func (s *staging) write(ctx context.Context, w io.Writer, m *Manifest) error {
	sum := sha256.New()
	all := io.MultiWriter(w, sum)
	// Most of it are packs, which can't be compressed further.
	zipped, err := gzip.NewWriterLevel(all, gzip.BestSpeed)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zipped)
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || path == s.dir {
			return err
		}
		name, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o700, ModTime: m.Taken})
		}
		f, err := s.writeFile(out, name, m)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.Files = append(m.Files, f)
		return nil
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ManifestFile, Mode: 0o600, Size: int64(len(text)), ModTime: m.Taken}); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := errors.Join(out.Close(), zipped.Close()); err != nil {
		return err
	}
	_, err = w.Write(trailer(sum.Sum(nil)))
	return err
}

func (s *staging) writeFile(out *tar.Writer, name string, m *Manifest) (File, error) {
	in, err := os.Open(s.path(name))
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return File{}, err
	}
	size := st.Size()
	if limit, ok := s.limits[name]; ok {
		size = limit
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(st.Mode().Perm()), Size: size, ModTime: m.Taken}); err != nil {
		return File{}, err
	}
	sum := sha256.New()
	// What is written on meanwhile counts as far as it went.
	if _, err := io.CopyN(io.MultiWriter(out, sum), in, size); err != nil {
		return File{}, err
	}
	return File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// maxManifest bounds the manifest, bytes: some millions of files.
const maxManifest = 1 << 30

// unpack writes the files of a backup below dir and holds them against the manifest. What is there
// when it returns an error is worth nothing. Files that were written are not synced.
func unpack(ctx context.Context, r io.Reader, dir string) (*Manifest, error) {
	var check Checker
	all := io.TeeReader(r, &check)
	zipped, err := gzip.NewReader(all)
	if err != nil {
		return nil, fmt.Errorf("%w: it isn't a backup of jibe's: %w", ErrDamaged, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	u := &unpacking{root: root, have: map[string]File{}}
	in := tar.NewReader(zipped)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = u.entry(h, in)
		}
		if err != nil {
			return nil, readError(err)
		}
	}
	// To the end, which has the digest.
	for _, rest := range []io.Reader{zipped, all} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return nil, readError(err)
		}
	}
	if err := check.Complete(); err != nil {
		return nil, err
	}
	return u.hold()
}

// errHere marks errors of the place where a backup is unpacked.
type errHere struct{ error }

func (e errHere) Unwrap() error { return e.error }

// readError is an error of reading a backup.
func readError(err error) error {
	var here errHere
	if errors.As(err, &here) || errors.Is(err, ErrDamaged) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

type unpacking struct {
	root     *os.Root
	have     map[string]File
	manifest []byte
}

// entry unpacks one entry. Nothing but files and folders below the directory is taken.
func (u *unpacking) entry(h *tar.Header, in io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if !fs.ValidPath(name) || name == "." || u.manifest != nil {
		return fmt.Errorf("%w: an entry %.200q", ErrDamaged, h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.root.MkdirAll(name, 0o700); err != nil {
			return errHere{err}
		}
		return nil
	case tar.TypeReg:
	default:
		return fmt.Errorf("%w: %.200q is neither a file nor a folder", ErrDamaged, h.Name)
	}
	if name == ManifestFile {
		text, err := io.ReadAll(io.LimitReader(in, maxManifest))
		u.manifest = append([]byte{}, text...)
		return err
	}
	if _, twice := u.have[name]; twice {
		return fmt.Errorf("%w: %.200q is in it twice", ErrDamaged, name)
	}
	if err := u.root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return errHere{err}
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode)&0o777|0o200)
	if err != nil {
		return errHere{err}
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(hereWriter{out}, sum), in)
	if cerr := out.Close(); err == nil && cerr != nil {
		err = errHere{cerr}
	}
	if err != nil {
		return err
	}
	if mode := fs.FileMode(h.Mode) & 0o777; mode&0o200 == 0 {
		if err := u.root.Chmod(name, mode); err != nil {
			return errHere{err}
		}
	}
	u.have[name] = File{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}
	return nil
}

// hereWriter marks the errors of a file that is written.
type hereWriter struct{ f *os.File }

func (w hereWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = errHere{err}
	}
	return n, err
}

// hold compares what was unpacked with the manifest.
func (u *unpacking) hold() (*Manifest, error) {
	if u.manifest == nil {
		return nil, fmt.Errorf("%w: it has no manifest", ErrDamaged)
	}
	var m Manifest
	if err := json.Unmarshal(u.manifest, &m); err != nil {
		return nil, fmt.Errorf("%w: its manifest can't be read: %w", ErrDamaged, err)
	}
	if m.Format < 1 || m.Format > Format {
		return nil, fmt.Errorf("the backup has form %d, made by jibe %s, and this jibe knows %d: restore it with that version or a newer one", m.Format, m.Jibe, Format)
	}
	for _, f := range m.Files {
		if u.have[f.Name] != f {
			return nil, fmt.Errorf("%w: %s isn't what the manifest says", ErrDamaged, f.Name)
		}
	}
	if len(m.Files) != len(u.have) {
		return nil, fmt.Errorf("%w: it has %d files, and its manifest names %d", ErrDamaged, len(u.have), len(m.Files))
	}
	return &m, nil
}
