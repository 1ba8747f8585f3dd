package csar

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// Rehash brings the checksums in TOSCA.meta and the manifest of the expanded
// package at dir up to date, and changes nothing else in them. Each file is replaced
// atomically. A signature in the manifest is invalid afterwards.
func Rehash(dir string) error {
	files, err := Dir(dir)
	if err != nil {
		return err
	}
	// Either file may list the other, so a change in one round may require another in the
	// next.
	for range 4 {
		meta, err := vnfd.ReadMeta(files)
		if err != nil {
			return fmt.Errorf("rehash: %w", err)
		}
		done := true
		for _, name := range []string{meta.Manifest, vnfd.MetaFile} {
			if _, err := fs.Stat(files, name); name == "" || name == vnfd.MetaFile && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			changed, err := rehash(dir, files, name, meta)
			if err != nil {
				return fmt.Errorf("rehash %s: %w", name, err)
			}
			done = done && !changed
		}
		if done {
			return nil
		}
	}
	return fmt.Errorf("rehash: %s and the manifest list each other's checksum, which can't hold", vnfd.MetaFile)
}

// rehash rewrites the Hash lines of one file and says whether one was wrong.
func rehash(dir string, files fs.FS, name string, meta *vnfd.Meta) (changed bool, err error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return false, err
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for _, a := range meta.Artifacts {
		h, ok := vnfd.Hash(a.Algorithm)
		if a.File != name || a.Remote() || !ok {
			continue
		}
		sum, err := vnfd.Sum(files, a.Path, h)
		if errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("line %d: %s is listed but isn't in the package", a.Line, a.Path)
		}
		if err != nil {
			return false, err
		}
		if a.Hash == sum {
			continue
		}
		key, value, _ := bytes.Cut(lines[a.HashLine-1], []byte(":"))
		value = bytes.Replace(value, []byte(a.Hash), []byte(sum), 1)
		lines[a.HashLine-1] = slices.Concat(key, []byte(":"), value)
		changed = true
	}
	if !changed {
		return false, nil
	}
	return true, replace(filepath.Join(dir, filepath.FromSlash(name)), bytes.Join(lines, nil))
}

// replace writes a temporary file and renames it to name.
func replace(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".rehash-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
