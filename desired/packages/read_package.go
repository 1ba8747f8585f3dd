package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// What one package may hold; a repository is somebody else's, so that it can be
// wrong or hostile. Images belong into a registry.
const (
	maxFiles    = 10_000  // files and directories
	maxTree     = 4 << 20 // bytes of a directory's list
	maxDeep     = csar.MaxDepth
	maxPackages = 1_000 // in a folder of packages
)

// limits bound the bytes of a package's files.
type limits struct {
	file, total int64 // of one file, and of all
	// Files up to the size held are in memory, until heldTotal bytes are; the others are read
	// out of git each time that they are opened.
	held, heldTotal int64
}

// defaultLimits are those of an archive ([csar.DefaultLimits]): what can be uploaded can be read.
func defaultLimits() limits {
	most := csar.DefaultLimits()
	return limits{file: most.MaxFile, total: most.MaxTotal, held: 4 << 20, heldTotal: 64 << 20}
}

// errStore is wrapped where the object store can't be read, in contrast to a
// package that is wrong.
var errStore = errors.New("the repository's objects can't be read")

// refusedError is content that no package may have.
type refusedError struct {
	why  string
	kind error // nil for none
}

func (e *refusedError) Error() string { return e.why }

func (e *refusedError) Unwrap() error { return e.kind }

func refuse(format string, args ...any) error {
	return &refusedError{why: fmt.Sprintf(format, args...)}
}

// noFiles refuses what stands in the place of a package's folder.
func noFiles(format string, args ...any) error {
	return &refusedError{why: fmt.Sprintf(format, args...), kind: ErrNoFiles}
}

// objects reads packages out of git objects. Within ctx it starts git when there is
// something to read, and close ends that.
type objects struct {
	ctx    context.Context
	runner git.Runner
	most   limits
	git    *git.Objects
	// commits are some that the store has, by which it is told whether it can be read.
	commits []string
}

func newObjects(ctx context.Context, runner git.Runner, most limits) *objects {
	return &objects{ctx: ctx, runner: runner, most: most, git: git.NewObjects(runner, git.Limits{Blob: most.held, Tree: maxTree, Commit: maxTree}, 0)}
}

func (o *objects) close() { o.git.Close() }

// get returns an object of the kind. One that doesn't exist is ErrUnknown; one that is
// too large, or of another kind, is refused.
func (o *objects) get(name, kind string) (hash string, data []byte, err error) {
	hash, data, err = o.git.Lookup(o.ctx, kind, name)
	if large, ok := errors.AsType[*git.SizeError](err); ok {
		return "", nil, refuse("it has %d bytes; at most %d are read", large.Size, large.Limit)
	}
	return hash, data, inWords(name, err)
}

// blob returns the size of a file, and its content where that is small enough to be held.
func (o *objects) blob(hash string) (data []byte, size int64, err error) {
	_, data, err = o.git.Lookup(o.ctx, git.KindBlob, hash)
	large, ok := errors.AsType[*git.SizeError](err)
	switch {
	case !ok:
		return data, int64(len(data)), inWords(hash, err)
	case large.Size > o.most.file:
		return nil, 0, refuse("it has %d bytes; at most %d are read", large.Size, o.most.file)
	}
	return nil, large.Size, nil
}

// inWords is the error of a look at an object called name.
func inWords(name string, err error) error {
	if err == nil {
		return nil
	}
	if other, ok := errors.AsType[*git.KindError](err); ok {
		return refuse("%s is a %s, not a %s", name, other.Kind, other.Want)
	}
	if errors.Is(err, git.ErrMissing) {
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	return fmt.Errorf("%w: %w", errStore, err)
}

// tree returns the directory's entries.
func (o *objects) tree(name string) (string, []git.Entry, error) {
	hash, data, err := o.get(name, git.KindTree)
	if err != nil {
		return "", nil, err
	}
	t, err := git.ParseTree(data)
	if err != nil {
		return "", nil, refuse("a directory's list is damaged")
	}
	return hash, t.Entries(), nil
}

// works returns nil where the store can be read, by a commit that it has, or by others where that is what is damaged: an
// object that can't be read is damaged then.
func (o *objects) works(commit string) error {
	if o.ctx.Err() != nil {
		return o.ctx.Err()
	}
	_, _, err := o.get(commit, git.KindCommit)
	for _, other := range o.commits {
		if err == nil || o.ctx.Err() != nil {
			break
		}
		_, _, err = o.get(other, git.KindCommit)
	}
	return err
}

// damaged is the error of one object of a store that can be read otherwise. It doesn't wrap [errStore].
func damaged(err error) error {
	return fmt.Errorf("%w: %v", ErrDamaged, err) //nolint:errorlint // what it wraps would be of the whole store
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
		return []found{{path: dir, tree: hash}}, nil
	}
	var out []found
	for _, i := range items {
		if !isDir(i) {
			why, err := o.notFolder(commit, dir, i, items)
			if err != nil {
				return nil, err
			}
			if why != nil {
				out = append(out, found{path: path.Join(dir, i.Name), err: why})
			}
			continue
		}
		_, inside, err := o.tree(i.Hash)
		if err != nil && (!errors.Is(err, errStore) || o.works(commit) != nil) {
			return nil, err
		}
		at := found{path: path.Join(dir, i.Name), tree: i.Hash}
		switch {
		case err != nil:
			at.err = damaged(err)
			out = append(out, at)
		case isPackage(inside):
			if err := checkName(i.Name); err != nil {
				at.err = noFiles("%v", err)
			}
			out = append(out, at)
		}
		if len(out) > maxPackages {
			return nil, refuse("more than %d packages in one folder", maxPackages)
		}
	}
	return out, nil
}

// isDir takes a directory only as git writes it now: an old way isn't allowed in a package.
func isDir(e git.Entry) bool { return e.Mode == git.ModeDir }

// isPackage reports whether a directory is meant to be a package: it has TOSCA-Metadata, as
// whatever, or the entry of a package without that. What is wrong with it is then named.
func isPackage(items []git.Entry) bool {
	names := make([]string, 0, len(items))
	for _, i := range items {
		if i.Name == path.Dir(vnfd.MetaFile) {
			return true
		}
		if i.IsFile() {
			names = append(names, i.Name)
		}
	}
	return len(vnfd.RootEntries(names)) > 0
}

// notFolder says why an entry of a folder of packages that stands for a directory is none that
// can be read; why is nil for an entry that stands for no directory. A link to one of the
// packages next to it hides nothing. The error is that of the store.
func (o *objects) notFolder(commit, dir string, i git.Entry, siblings []git.Entry) (why, err error) {
	switch i.Mode {
	case git.ModeSubmodule:
		return noFiles("it is a submodule, which isn't fetched: put the package's files there, or give its repository an entry of its own in %s", desired.RepositoriesFile), nil
	case git.ModeSymlink:
	default:
		return nil, nil
	}

	text, _, err := o.blob(i.Hash)
	if errors.Is(err, errStore) {
		return nil, err
	}
	target := string(text)
	leads := path.Join(dir, target)
	if path.Dir(leads) == path.Clean(dir) && slices.ContainsFunc(siblings, func(s git.Entry) bool { return isDir(s) && s.Name == path.Base(leads) }) {
		return nil, nil
	}
	if !path.IsAbs(target) && fs.ValidPath(leads) {
		isFile, err := o.isFile(commit + ":" + leads)
		if err != nil || isFile {
			return nil, err
		}
	}
	return noFiles("it is a symbolic link to %q, which isn't followed: put the package's files there", target), nil
}

// isFile reports whether the name stands for a file.
func (o *objects) isFile(name string) (bool, error) {
	_, _, err := o.git.Lookup(o.ctx, git.KindBlob, name)
	if _, large := errors.AsType[*git.SizeError](err); err == nil || large {
		return true, nil
	}
	if err := inWords(name, err); errors.Is(err, errStore) {
		return false, err
	}
	return false, nil
}

// files reads a tree, within the limits: small files into memory, and of large ones where
// they are. Symbolic links and submodules are refused, as are names that could leave a
// directory when written.
func (o *objects) files(tree string) (*files, error) {
	out := newFiles(o.runner)
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
	for n, i := range items {
		name := path.Join(dir, i.Name)
		if err := checkName(i.Name); err != nil {
			return describe(name, err)
		}
		switch {
		case n > 0 && items[n-1].Name == i.Name:
			return refuse("%s: its directory's list has it twice", name)
		case n > 0 && !git.InOrder(items[n-1], i):
			return refuse("%s: its directory's list isn't in git's order", name)
		}
		if out.count()+1 > maxFiles {
			return refuse("it has more than %d files and directories", maxFiles)
		}
		switch i.Mode {
		case git.ModeDir:
			if err := out.mkdir(name); err != nil {
				return err
			}
			if err := o.fill(out, i.Hash, name, depth+1); err != nil {
				return err
			}
		case git.ModeFile, git.ModeExec, "100664":
			data, size, err := o.blob(i.Hash)
			if err != nil {
				return describe(name, err)
			}
			if out.size += size; out.size > o.most.total {
				return refuse("its files have more than %d bytes together", o.most.total)
			}
			if out.held+int64(len(data)) > o.most.heldTotal {
				data = nil
			}
			mode := fs.FileMode(0o444)
			if i.Mode == git.ModeExec {
				mode = 0o555
			}
			if err := out.add(name, i.Hash, size, data, mode); err != nil {
				return err
			}
		case git.ModeSymlink:
			return refuse("%s: symbolic links are not allowed in a package: put the file itself there", name)
		case git.ModeSubmodule:
			return refuse("%s: submodules are not allowed in a package: put the files themselves there", name)
		default:
			return refuse("%s: git mode %s is not allowed in a package", name, i.Mode)
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
	if errors.Is(err, ErrUnknown) && name != "" { // its folder is there
		return fmt.Errorf("%w: %s: %v", errStore, quoted(name), err) //nolint:errorlint // the package is known
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
	if err := csar.CheckName(name); err != nil {
		return refuse("%v", err)
	}
	return nil
}
