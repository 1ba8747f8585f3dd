package packages

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What one package may hold; a repository is somebody else's, so that it can be
// wrong or hostile. Images belong into a registry.
const (
	maxFiles    = 10_000    // files and directories
	maxBlob     = 32 << 20  // bytes of a file
	maxTotal    = 128 << 20 // bytes of all files
	maxTree     = 4 << 20   // bytes of a directory's list
	maxDeep     = 32        // directories in directories
	maxPackages = 1_000     // in a folder of packages
)

// errStore is wrapped where the object store can't be read, in contrast to a
// package that is wrong.
var errStore = errors.New("the repository's objects can't be read")

// refusedError is content that no package may have.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

func refuse(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

// objects reads git objects through one child process. It is not safe for
// concurrent use.
type objects struct {
	cmd    *exec.Cmd
	stop   context.CancelFunc
	in     io.WriteCloser
	out    *bufio.Reader
	stderr tail
}

func (g git) objects(ctx context.Context) (*objects, error) {
	ctx, stop := context.WithCancel(ctx)
	o := &objects{stop: stop}
	o.cmd = g.command(ctx, "cat-file", "--batch")
	o.cmd.Stderr = &o.stderr
	var err error
	if o.in, err = o.cmd.StdinPipe(); err == nil {
		var out io.ReadCloser
		if out, err = o.cmd.StdoutPipe(); err == nil {
			o.out = bufio.NewReaderSize(out, 64<<10)
			err = o.cmd.Start()
		}
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("%w: git cat-file: %w", errStore, err)
	}
	return o, nil
}

func (o *objects) close() {
	o.in.Close()
	o.stop()
	_ = o.cmd.Wait() // it was told to end
}

// get returns an object of the kind ("tree", "blob"), of at most most bytes. An
// object that doesn't exist is ErrUnknown; one that is too large, or of another
// kind, is refused.
func (o *objects) get(name, kind string, most int64) (hash string, data []byte, err error) {
	broken := func(err error) (string, []byte, error) {
		return "", nil, fmt.Errorf("%w: git cat-file %s: %w%s", errStore, name, err, &o.stderr)
	}
	if strings.ContainsAny(name, "\n\x00") {
		return "", nil, refuse("%q can't be the name of an object", name)
	}
	if _, err := io.WriteString(o.in, name+"\n"); err != nil {
		return broken(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return broken(err)
	}
	line = strings.TrimSuffix(line, "\n")
	if strings.HasSuffix(line, " missing") {
		return "", nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	f := strings.Fields(line)
	if len(f) != 3 {
		return broken(fmt.Errorf("unexpected answer %q", line))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return broken(fmt.Errorf("unexpected answer %q", line))
	}
	if f[1] != kind || size > most {
		if _, err := io.CopyN(io.Discard, o.out, size+1); err != nil {
			return broken(err)
		}
		if f[1] != kind {
			return "", nil, refuse("%s is a %s, not a %s", name, f[1], kind)
		}
		return "", nil, refuse("it has %d bytes; at most %d are read", size, most)
	}
	data = make([]byte, size+1)
	if _, err := io.ReadFull(o.out, data); err != nil {
		return broken(err)
	}
	return f[0], data[:size], nil
}

// item is one entry of a directory.
type item struct {
	name string
	mode string // as git writes it: "40000", "100644", …
	hash string
}

func (i item) dir() bool { return i.mode == "40000" }

// parseTree reads a tree object, whose hashes have size bytes.
func parseTree(data []byte, size int) ([]item, error) {
	var out []item
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < size {
			return nil, refuse("a directory's list is damaged")
		}
		out = append(out, item{string(name), string(mode), hex.EncodeToString(rest[:size])})
		data = rest[size:]
	}
	return out, nil
}

// tree returns the directory's entries.
func (o *objects) tree(name string) (string, []item, error) {
	hash, data, err := o.get(name, "tree", maxTree)
	if err != nil {
		return "", nil, err
	}
	items, err := parseTree(data, len(hash)/2)
	return hash, items, err
}

// packages finds the packages at the commit: the directory dir itself, or else
// those directly in it.
func (o *objects) packages(commit, dir string) ([]found, error) {
	hash, items, err := o.tree(commit + ":" + dir)
	if errors.Is(err, ErrUnknown) {
		return nil, refuse("there is no directory %q at this version", dir)
	}
	if err != nil {
		return nil, err
	}
	if isPackage(items) {
		return []found{{dir, hash}}, nil
	}
	var out []found
	for _, i := range items {
		if !i.dir() || checkName(i.name) != nil {
			continue
		}
		_, inside, err := o.tree(i.hash)
		if err != nil {
			return nil, err
		}
		if isPackage(inside) {
			out = append(out, found{path.Join(dir, i.name), i.hash})
		}
		if len(out) > maxPackages {
			return nil, refuse("more than %d packages in one folder", maxPackages)
		}
	}
	return out, nil
}

func isPackage(items []item) bool {
	return slices.ContainsFunc(items, func(i item) bool { return i.dir() && i.name == "TOSCA-Metadata" })
}

// files reads all of a tree into memory, within the limits. Symbolic links and
// submodules are refused, as are names that could leave a directory when written.
func (o *objects) files(tree string) (*files, error) {
	out := newFiles()
	if err := o.fill(out, tree, "", 0); err != nil {
		return nil, err
	}
	out.finish()
	return out, nil
}

func (o *objects) fill(out *files, tree, dir string, depth int) error {
	if depth > maxDeep {
		return refuse("%s: directories nest more than %d deep", dir, maxDeep)
	}
	_, items, err := o.tree(tree)
	if err != nil {
		return describe(dir, err)
	}
	for _, i := range items {
		name := path.Join(dir, i.name)
		if err := checkName(i.name); err != nil {
			return describe(name, err)
		}
		if out.count()+1 > maxFiles {
			return refuse("it has more than %d files and directories", maxFiles)
		}
		switch i.mode {
		case "40000":
			if err := out.mkdir(name); err != nil {
				return err
			}
			if err := o.fill(out, i.hash, name, depth+1); err != nil {
				return err
			}
		case "100644", "100755", "100664":
			_, data, err := o.get(i.hash, "blob", maxBlob)
			if err != nil {
				return describe(name, err)
			}
			if out.size += int64(len(data)); out.size > maxTotal {
				return refuse("its files have more than %d bytes together", maxTotal)
			}
			mode := fs.FileMode(0o444)
			if i.mode == "100755" {
				mode = 0o555
			}
			if err := out.add(name, data, mode); err != nil {
				return err
			}
		case "120000":
			return refuse("%s: symbolic links are not allowed in a package: put the file itself there", name)
		case "160000":
			return refuse("%s: submodules are not allowed in a package: put the files themselves there", name)
		default:
			return refuse("%s: git mode %s is not allowed in a package", name, i.mode)
		}
	}
	return nil
}

// describe says of which file an error is.
func describe(name string, err error) error {
	var refused *refusedError
	if errors.As(err, &refused) {
		return refuse("%s: %s", quoted(name), refused.why)
	}
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%s: %w", quoted(name), err)
	}
	return err
}

func quoted(name string) string {
	if name == "" {
		return "."
	}
	return strconv.Quote(name)
}

func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..", strings.EqualFold(name, ".git"),
		strings.ContainsAny(name, `/\:`), len(name) > 255, !utf8.ValidString(name),
		strings.ContainsFunc(name, unicode.IsControl):
		return refuse("the name is not allowed in a package: use letters, digits, '.', '-', '_'")
	}
	return nil
}
