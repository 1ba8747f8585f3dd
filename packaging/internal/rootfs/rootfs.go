// Package rootfs assembles a tree of files in memory and writes it as a tar archive that is
// the same, byte for byte, for the same files: sorted by name, with one time for all, and owned
// as the tree says and not by who built it. It never writes to a folder, so nobody needs to be root.
package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one entry of a Tree. The zero owner is root.
type File struct {
	Type     byte      // tar.TypeReg, tar.TypeDir, tar.TypeSymlink or tar.TypeLink
	Mode     int64     // permissions, and the sticky bit
	UID, GID int       // owner
	Target   string    // of a symbolic link: what it says; of a hard link: the name of the other entry
	Data     []byte    // of a regular file
	Time     time.Time // zero: what Write is told
}

// Tree holds files by their name: relative to the root, clean, without a leading slash.
type Tree map[string]File

// Merged are the names at the root that are symbolic links into usr, as in every Debian since
// version 12.
var Merged = []string{"bin", "lib", "lib64", "sbin"}

// clean returns the name under which an entry of an archive is kept: what a package calls
// /lib/x is usr/lib/x where /lib is a symbolic link to usr/lib.
func clean(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if first, _, _ := strings.Cut(name, "/"); slices.Contains(Merged, first) {
		name = "usr/" + name
	}
	return name
}

// Unpack adds the entries of a tar archive (as dpkg-deb --fsys-tarfile writes it) that keep
// wants; keep is asked for names as Tree has them. Nothing in an image needs to become another
// user: setuid and setgid are taken off. Devices and the like are refused.
func (t Tree) Unpack(r io.Reader, keep func(name string) bool) error {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := clean(h.Name)
		if name == "" || slices.Contains(Merged, strings.TrimPrefix(name, "usr/")) && h.Typeflag != tar.TypeDir || !keep(name) {
			continue
		}
		f := File{Type: h.Typeflag, Mode: h.Mode & 0o1777, UID: h.Uid, GID: h.Gid, Time: h.ModTime}
		switch h.Typeflag {
		case tar.TypeDir:
		case tar.TypeReg:
			if f.Data, err = io.ReadAll(archive); err != nil {
				return fmt.Errorf("%s: %w", h.Name, err)
			}
		case tar.TypeSymlink:
			f.Target = h.Linkname
		case tar.TypeLink:
			f.Target = clean(h.Linkname)
		default:
			return fmt.Errorf("%s: entries of type %q are not for an image", h.Name, h.Typeflag)
		}
		t[name] = f
	}
}

// Add puts one regular file of root's into the tree, and replaces what was there.
func (t Tree) Add(name string, mode int64, data []byte) {
	t[name] = File{Type: tar.TypeReg, Mode: mode, Data: data}
}

// Resolve follows symbolic links from name, and says which entry is there, if any.
func (t Tree) Resolve(name string) (string, bool) {
	for range 40 { // as many as the kernel follows
		name = t.resolveParent(clean(name))
		f, ok := t[name]
		if !ok {
			return name, false
		}
		if f.Type != tar.TypeSymlink {
			return name, true
		}
		if path.IsAbs(f.Target) {
			name = f.Target
		} else {
			name = path.Join(path.Dir(name), f.Target)
		}
	}
	return name, false
}

// resolveParent follows a folder on the way to name that is a symbolic link, once.
func (t Tree) resolveParent(name string) string {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		if f, ok := t[name[:i]]; ok && f.Type == tar.TypeSymlink {
			to := f.Target
			if !path.IsAbs(to) {
				to = path.Join(path.Dir(name[:i]), to)
			}
			return clean(to + name[i:])
		}
	}
	return name
}

// complete adds the folders that entries are in and that nobody named.
func (t Tree) complete() {
	for _, name := range slices.Collect(maps.Keys(t)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := t[dir]; !ok {
				t[dir] = File{Type: tar.TypeDir, Mode: 0o755}
			}
		}
	}
}

// Newest is the time of the newest entry.
func (t Tree) Newest() time.Time {
	var at time.Time
	for _, f := range t {
		if f.Time.After(at) {
			at = f.Time
		}
	}
	return at
}

// Write writes the tree as a tar archive, with at as the time of every entry that has none. Hard links come
// behind all other files, as what they link to must be there when they are made.
func (t Tree) Write(w io.Writer, at time.Time) error {
	t.complete()
	archive := tar.NewWriter(w)
	names := slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		if la, lb := t[a].Type == tar.TypeLink, t[b].Type == tar.TypeLink; la != lb {
			if la {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		f := t[name]
		if f.Time.IsZero() {
			f.Time = at
		}
		h := &tar.Header{Typeflag: f.Type, Name: name, Linkname: f.Target, Mode: f.Mode, Uid: f.UID, Gid: f.GID,
			Size: int64(len(f.Data)), ModTime: f.Time.UTC().Truncate(time.Second), Format: tar.FormatPAX}
		if f.Type == tar.TypeDir {
			h.Name += "/"
		}
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := archive.Write(f.Data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return archive.Close()
}
