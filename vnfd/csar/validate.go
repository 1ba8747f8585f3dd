package csar

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// manifests is where a package keeps its Kubernetes manifests.
const manifests = "Files/kubernetes"

// maxProblems is how many problems of a hostile package are reported.
const maxProblems = 1000

// Check returns the package and all that is wrong with it as a package, for its author: what
// [vnfd.Load] refuses, names and files that no archive or repository may have, and listed
// artifacts that are missing or were changed. A warning is about something that works, though
// hardly as it was meant. The package is nil where its files can't be read.
func Check(files fs.FS) (*vnfd.Package, []vnfd.Problem) {
	p, problems, err := vnfd.Check(files)
	if err != nil {
		return nil, []vnfd.Problem{{File: ".", Message: err.Error(), Severity: vnfd.Error}}
	}
	v := &validator{files: files, problems: problems}
	v.entries()
	if meta, err := vnfd.ReadMeta(files); err == nil { // else Check has reported why not
		v.artifacts(p, meta)
		v.manifests(p)
	}
	v.definitions(p)
	return p, vnfd.SortProblems(v.problems)
}

type validator struct {
	files    fs.FS
	problems []vnfd.Problem
}

func (v *validator) fail(file string, line int, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		return
	}
	v.problems = append(v.problems, vnfd.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Severity: vnfd.Error})
}

func (v *validator) warn(file string, line int, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		return
	}
	v.problems = append(v.problems, vnfd.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Severity: vnfd.Warning})
}

func (v *validator) artifacts(p *vnfd.Package, meta *vnfd.Meta) {
	err := vnfd.VerifyArtifacts(p)
	if invalid, ok := errors.AsType[*vnfd.InvalidError](err); ok {
		v.problems = append(v.problems, invalid.Problems...)
	} else if err != nil {
		v.fail(vnfd.MetaFile, 0, "%v", err)
	}
	hashed := map[string]bool{}
	for _, a := range meta.Artifacts {
		hashed[a.Path] = hashed[a.Path] || a.Hash != ""
	}
	for _, a := range meta.Artifacts {
		switch {
		case a.Remote():
			v.warn(a.File, a.Line, "%s is outside the package: nobody checks what is there", a.Path)
		case !hashed[a.Path]:
			v.warn(a.File, a.Line, "%s has no checksum: add Algorithm and Hash", a.Path)
		}
	}
}

// entries checks names, sizes and kinds of files as archives and repositories of packages are
// held to them. What only one of the two refuses is a warning.
func (v *validator) entries() {
	limits := DefaultLimits()
	archive := newTree(limits.MaxLength)
	count, total := 0, int64(0)
	err := walk(v.files, func(p string, d fs.DirEntry) error {
		if count++; count == limits.MaxFiles+1 {
			v.fail(".", 0, "it has more than %d files and directories", limits.MaxFiles)
		}
		if err := CheckPath(p); err != nil {
			v.fail(p, 0, "%v", err)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			if err := archive.add(p+"/", fs.ModeDir); err != nil {
				v.warn(p, 0, "can't be in an archive: %v", err)
			}
			return nil
		}

		if d.Type()&fs.ModeSymlink != 0 {
			v.warn(p, 0, "is a symbolic link: an archive gets the file itself, and a package repository in git refuses it")
		}
		st, err := stat(v.files, p, d)
		if err != nil {
			v.fail(p, 0, "%v", err)
			return nil
		}
		if err := archive.add(p, st.Mode()&^fs.ModeSymlink); err != nil {
			v.warn(p, 0, "can't be in an archive: %v", err)
		}
		if st.Size() > limits.MaxFile {
			v.fail(p, 0, "it has %d bytes; at most %d are read", st.Size(), limits.MaxFile)
		}
		total += st.Size()
		return nil
	})
	if err != nil {
		v.fail(".", 0, "%v", err)
	}
	if total > limits.MaxTotal {
		v.fail(".", 0, "its files have more than %d bytes together", limits.MaxTotal)
	}
}

// definitions warns of files that look like a part of the VNFD but aren't.
func (v *validator) definitions(p *vnfd.Package) {
	if p.VNFD == nil {
		return
	}
	for _, name := range p.Unused() {
		v.warn(name, 0, "Entry-Definitions doesn't import the file, directly or through others: it is ignored")
	}
}

// manifests warns of manifests without a checksum.
func (v *validator) manifests(p *vnfd.Package) {
	err := fs.WalkDir(v.files, manifests, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !p.HasArtifact(name) {
			v.warn(name, 0, "isn't listed in TOSCA.meta or the manifest: no checksum vouches for it")
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.fail(manifests, 0, "%v", err)
	}
}
