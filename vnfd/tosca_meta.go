package vnfd

import (
	"bufio"
	"bytes"
	"crypto"
	_ "crypto/sha256" // SHA-224 and SHA-256
	_ "crypto/sha512" // SHA-384 and SHA-512
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// MetaFile is the path of TOSCA.meta in a CSAR (SOL004 clause 4.1.2).
const MetaFile = "TOSCA-Metadata/TOSCA.meta"

// MaxFile is the size in bytes that a definition, TOSCA.meta or manifest may have.
const MaxFile = 1 << 20

// Meta is the content of TOSCA.meta and the manifest. Of a package without TOSCA-Metadata
// (SOL004 clause 4.1.3) it is what the names of the files at the root say.
type Meta struct {
	// Entry is Entry-Definitions: the path of the top VNFD file.
	Entry string
	// Manifest is ETSI-Entry-Manifest, or "".
	Manifest string
	// Certificate is ETSI-Entry-Certificate, or "".
	Certificate string
	// Artifacts in the order in which they are listed. A path may be listed in
	// TOSCA.meta and again in the manifest.
	Artifacts []Artifact

	entryLine int
}

// Artifact is one listed file (SOL004 clause 4.3): a block that starts with
// Name or Source.
type Artifact struct {
	// Path in the package, or a URL.
	Path        string
	ContentType string
	// Algorithm and Hash are as written: "SHA-256" and hexadecimal digits; both
	// "" where the package gives no checksum.
	Algorithm, Hash string
	// Signature and Certificate are the files of the artifact's own signature, and of the
	// certificate for it; "" where it has none.
	Signature, Certificate string
	// File and Line are where it is listed, HashLine is the line of its Hash.
	File           string
	Line, HashLine int
}

// Remote says whether the artifact is a URL instead of a file in the package.
func (a Artifact) Remote() bool {
	return strings.Contains(a.Path, "://")
}

// ReadMeta reads TOSCA.meta and the manifest that it names. It returns an [*InvalidError]
// with all problems in them.
func ReadMeta(files fs.FS) (*Meta, error) {
	m, problems, err := readMeta(files)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &InvalidError{SortProblems(problems)}
	}
	return m, nil
}

func readMeta(files fs.FS) (*Meta, []Problem, error) {
	r := metaReader{meta: &Meta{}}
	data, err := readFile(files, MetaFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r.readRoot(files)
	}

	if p, ok := errors.AsType[*fileError](err); ok {
		r.fail(MetaFile, 0, p.message)
		return nil, r.problems, nil
	}
	if err != nil {
		return nil, nil, err
	}
	r.read(MetaFile, data)
	if r.meta.Entry == "" {
		r.fail(MetaFile, 0, "Entry-Definitions is missing: it names the top VNFD file, such as Definitions/vnfd.yaml")
	}
	return r.readManifest(files)
}

// readRoot reads a package without TOSCA-Metadata (SOL004 clause 4.1.3): its entry and manifest
// are the two files at the root that differ only in their extension.
func (r *metaReader) readRoot(files fs.FS) (*Meta, []Problem, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, nil, err
	}

	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}

	found := RootEntries(names)
	switch len(found) {
	case 0:
		r.fail(MetaFile, 0, "is missing, and the root has no manifest next to a main definition (NAME.yaml and NAME.mf): is this the root of a VNF package (CSAR)?")
		return nil, r.problems, nil
	case 1:
	default:
		r.fail(found[1], 0, fmt.Sprintf("has a manifest of its name, as %s has: without TOSCA-Metadata one of them is the VNFD, and it can't be known which", found[0]))
		return nil, r.problems, nil
	}

	base := strings.TrimSuffix(found[0], path.Ext(found[0]))
	r.meta.Entry, r.meta.Manifest = found[0], base+".mf"
	if slices.Contains(names, base+".cert") {
		r.meta.Certificate = base + ".cert"
	}
	return r.readManifest(files)
}

// RootEntries returns the files among those at a package's root that are the entry of a package
// without TOSCA-Metadata: YAML with a manifest of the same name. Such a package has one.
func RootEntries(names []string) []string {
	var found []string
	for _, name := range names {
		base, isYAML := strings.CutSuffix(name, ".yaml")
		if !isYAML {
			base, isYAML = strings.CutSuffix(name, ".yml")
		}
		if isYAML && base != "" && slices.Contains(names, base+".mf") {
			found = append(found, name)
		}
	}
	return found
}

// readManifest reads the manifest that the metadata name, if they do.
func (r *metaReader) readManifest(files fs.FS) (*Meta, []Problem, error) {
	mf := r.meta.Manifest
	if mf == "" {
		return r.meta, r.problems, nil
	}

	data, err := readFile(files, mf)
	p, isFile := errors.AsType[*fileError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.fail(MetaFile, r.manifestLine, fmt.Sprintf("ETSI-Entry-Manifest names %s, which isn't in the package", mf))
	case isFile:
		r.fail(mf, 0, p.message)
	case err != nil:
		return nil, nil, err
	default:
		r.read(mf, data)
	}
	return r.meta, r.problems, nil
}

// fileError is the problem of a file that can be opened but not used.
type fileError struct{ message string }

func (e *fileError) Error() string { return e.message }

// readFile reads a regular file of at most MaxFile bytes.
func readFile(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("stat %s: %w", name, err)
	} else if !st.Mode().IsRegular() {
		return nil, &fileError{"isn't a regular file"}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > MaxFile {
		return nil, &fileError{fmt.Sprintf("is larger than %d bytes", MaxFile)}
	}
	if isPointer(data) {
		return nil, &fileError{pointerFault}
	}
	return data, nil
}

type metaReader struct {
	meta         *Meta
	problems     []Problem
	manifestLine int
	cur          *Artifact
}

func (r *metaReader) fail(file string, line int, message string) {
	if len(r.problems) >= maxProblems {
		return
	}
	r.problems = append(r.problems, Problem{file, line, message, Error})
}

// read takes the lines "Key: value" of one file. A block begins with its first key, and not
// after a blank line, as manifests are written in both styles.
func (r *metaReader) read(file string, data []byte) {
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, MaxFile+1)
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSpace(sc.Text())
		if strings.HasPrefix(text, "-----BEGIN ") {
			break // the signature of the manifest, or a certificate: nothing follows
		}
		key, value, ok := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case !ok:
			if file == MetaFile {
				r.fail(file, line, fmt.Sprintf("%.60q isn't of the form \"Key: value\"", text))
			}
			continue
		}
		switch {
		case key == "Name", key == "Source":
			r.add()
			r.cur = &Artifact{File: file, Line: line, Path: value}
			if !r.cur.Remote() {
				r.cur.Path = r.path(file, line, key, value)
			}
		case r.cur != nil && r.readArtifact(file, line, key, value):
		case file == MetaFile:
			r.readEntry(line, key, value)
		}
	}
	r.add()
}

// readEntry takes a line of TOSCA.meta's first block (SOL004 clause 4.1.2).
func (r *metaReader) readEntry(line int, key, value string) {
	switch key {
	case "Entry-Definitions":
		r.meta.Entry, r.meta.entryLine = r.path(MetaFile, line, key, value), line
	case "ETSI-Entry-Manifest":
		r.meta.Manifest, r.manifestLine = r.path(MetaFile, line, key, value), line
	case "ETSI-Entry-Certificate":
		r.meta.Certificate = r.path(MetaFile, line, key, value)
	}
}

// readArtifact takes a line of the present block, and reports whether its key is one of a block.
func (r *metaReader) readArtifact(file string, line int, key, value string) bool {
	switch key {
	case "Content-Type":
		r.cur.ContentType = value
	case "Signature":
		r.cur.Signature = r.path(file, line, key, value)
	case "Certificate":
		r.cur.Certificate = r.path(file, line, key, value)
	case "Algorithm":
		r.cur.Algorithm = value
	case "Hash":
		r.cur.Hash, r.cur.HashLine = value, line
	default:
		return false
	}
	return true
}

// path checks that a value names something below the package's root.
func (r *metaReader) path(file string, line int, key, value string) string {
	p := path.Clean(value)
	if value == "" || p == "." || !fs.ValidPath(p) || strings.ContainsAny(p, "\\\x00") {
		r.fail(file, line, fmt.Sprintf("%s: %.200q isn't a path inside the package", key, value))
		return ""
	}
	return p
}

// add ends the present block.
func (r *metaReader) add() {
	a := r.cur
	r.cur = nil
	if a == nil || a.Path == "" {
		return
	}
	if (a.Algorithm == "") != (a.Hash == "") {
		r.fail(a.File, a.Line, fmt.Sprintf("%s has Algorithm or Hash without the other", clip(a.Path)))
		return
	}
	if _, ok := Hash(a.Algorithm); !ok && a.Algorithm != "" {
		r.fail(a.File, a.Line, fmt.Sprintf("Algorithm %.40q of %s is unknown: use SHA-224, SHA-256, SHA-384 or SHA-512", a.Algorithm, clip(a.Path)))
	}
	r.meta.Artifacts = append(r.meta.Artifacts, *a)
}

// Hash returns the hash function that Algorithm names.
func Hash(algorithm string) (crypto.Hash, bool) {
	switch strings.ToUpper(algorithm) {
	case "SHA-224":
		return crypto.SHA224, true
	case "SHA-256":
		return crypto.SHA256, true
	case "SHA-384":
		return crypto.SHA384, true
	case "SHA-512":
		return crypto.SHA512, true
	}
	return 0, false
}

// Sum returns the checksum of a file of the package, in hexadecimal digits.
func Sum(files fs.FS, name string, h crypto.Hash) (string, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := h.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// maxUnsound is how many artifacts with a wrong checksum are reported.
const maxUnsound = 1000

// VerifyArtifacts checks that every listed artifact is in the package and has the listed
// checksum, and that no file is a pointer of git-lfs in the place of its content; if not, it
// returns an [*InvalidError]. An artifact without a checksum, or
// outside of the package, can't be checked and passes. A file that is listed several times
// is read only once for each algorithm.
func VerifyArtifacts(p *Package) error {
	m, err := ReadMeta(p.Files)
	if err != nil {
		return err
	}
	problems, err := pointers(p.Files)
	if err != nil {
		return err
	}
	isPointer := map[string]bool{}
	for _, problem := range problems {
		isPointer[problem.File] = true
	}

	type reading struct {
		path string
		hash crypto.Hash
	}
	sums := map[reading]string{}
	for _, a := range m.Artifacts {
		if a.Remote() || isPointer[a.Path] {
			continue
		}
		if len(problems) >= maxUnsound {
			break
		}
		st, err := fs.Stat(p.Files, a.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, Problem{a.File, a.Line, a.Path + " is listed but isn't in the package", Error})
			continue
		case err != nil:
			return fmt.Errorf("stat artifact %s: %w", a.Path, err)
		case !st.Mode().IsRegular():
			problems = append(problems, Problem{a.File, a.Line, a.Path + " is listed but isn't a file", Error})
			continue
		}
		h, ok := Hash(a.Algorithm)
		if !ok {
			continue
		}
		sum, known := sums[reading{a.Path, h}]
		if !known {
			if sum, err = Sum(p.Files, a.Path, h); err != nil {
				return fmt.Errorf("verify artifact: %w", err)
			}
			sums[reading{a.Path, h}] = sum
		}
		if !strings.EqualFold(sum, a.Hash) {
			problems = append(problems, Problem{a.File, a.HashLine,
				fmt.Sprintf("%s was changed: its %s is %s, not %.128s", a.Path, a.Algorithm, sum, a.Hash), Error})
		}
	}
	if len(problems) > 0 {
		return &InvalidError{SortProblems(problems)}
	}
	return nil
}
