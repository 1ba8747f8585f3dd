package process

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// Bare is a bare repository that a test reads and writes in its own process, where a clone, a commit and a push
// cost a dozen processes of git. No hook runs, as none does on a forge: a test that proves something of a push
// makes a real one.
type Bare struct {
	Dir string

	t       testing.TB
	objects *git.Objects
}

// BareAt is the bare repository in a folder that exists.
func BareAt(t testing.TB, dir string) *Bare {
	t.Helper()
	const most = 64 << 20
	b := &Bare{Dir: dir, t: t, objects: git.NewObjects(git.Runner{Dir: dir}, git.Limits{Blob: most, Tree: most, Commit: most}, most)}
	t.Cleanup(b.objects.Close)
	return b
}

// NewBare makes a repository as [InitBare] does, in a folder that goes when the test ends.
func NewBare(t testing.TB) *Bare {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bare.git")
	InitBare(t, dir)
	return BareAt(t, dir)
}

// Fork is a repository of somebody who has fetched all that is in b, and will be: it borrows the objects. What is
// committed there gets into another one by a real push alone.
func (b *Bare) Fork() *Bare {
	b.t.Helper()
	fork := NewBare(b.t)
	b.must(os.WriteFile(filepath.Join(fork.Dir, "objects", "info", "alternates"), []byte(filepath.Join(b.Dir, "objects")+"\n"), 0o644))
	return fork
}

// Push pushes with git, to a path or URL, and returns what it says, each line after the first as part of it.
func (b *Bare) Push(to string, args ...string) (said string, err error) {
	b.t.Helper()
	out, err := Git(b.t.Context(), b.Dir, append([]string{"push", to}, args...)...)
	if err != nil {
		out += err.Error()
	}
	return strings.NewReplacer("\nremote: ", " ", "remote: ", "").Replace(out), err
}

// mainRef is the branch that tests work on.
const mainRef = "refs/heads/main"

// Head is the commit of the branch main, "" where there is none.
func (b *Bare) Head() string {
	b.t.Helper()
	return b.At(mainRef)
}

// At is the commit of a ref, "" where there is none.
func (b *Bare) At(ref string) string {
	b.t.Helper()
	at, err := git.ReadRef(b.Dir, ref)
	b.must(err)
	return at
}

// Read is a file of the branch main.
func (b *Bare) Read(name string) string {
	b.t.Helper()
	return b.ReadAt(b.Head(), name)
}

// ReadAt is a file at a commit.
func (b *Bare) ReadAt(commit, name string) string {
	b.t.Helper()
	text, err := b.objects.Get(b.t.Context(), git.KindBlob, b.ObjectAt(commit, name))
	b.must(err)
	return string(text)
}

// ObjectAt is the hash of a file or folder at a commit.
func (b *Bare) ObjectAt(commit, name string) string {
	b.t.Helper()
	hash := b.rootOf(commit)
	for part := range strings.SplitSeq(name, "/") {
		entry, ok := b.readTree(hash).Find(part)
		if !ok {
			b.t.Fatalf("commit %s of %s has no %s", commit, b.Dir, name)
		}
		hash = entry.Hash
	}
	return hash
}

// Change commits files on top of the branch main, and moves it there; "" removes a file or folder. Where somebody
// else moves the branch meanwhile, it begins again. It returns the commit.
func (b *Bare) Change(message string, files map[string]string) (commit string) {
	b.t.Helper()
	return b.onTop(message, func(all map[string]treeFile) { b.apply(all, files) })
}

// Edit is [Bare.Change] of one file, whose text edit is given.
func (b *Bare) Edit(message, name string, edit func(text string) string) (commit string) {
	b.t.Helper()
	return b.onTop(message, func(all map[string]treeFile) {
		old, ok := all[name]
		if !ok {
			b.t.Fatalf("%s has no %s", b.Dir, name)
		}
		text, err := b.objects.Get(b.t.Context(), git.KindBlob, old.hash)
		b.must(err)
		b.apply(all, map[string]string{name: edit(string(text))})
	})
}

// CopyTree commits the files of a folder of this machine as a folder of the branch main, in place of what is there.
// edit changes the text of each; nil leaves it.
func (b *Bare) CopyTree(message, name, dir string, edit func(file, text string) string) (commit string) {
	b.t.Helper()
	return b.onTop(message, func(all map[string]treeFile) {
		remove(all, name)
		b.must(fs.WalkDir(os.DirFS(dir), ".", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
			if err != nil {
				return err
			}
			if edit != nil {
				text = []byte(edit(file, string(text)))
			}
			mode := git.ModeFile
			if info.Mode()&0o111 != 0 {
				mode = git.ModeExec
			}
			all[path.Join(name, file)] = treeFile{mode, b.write(git.KindBlob, text)}
			return nil
		}))
	})
}

// Commit makes a commit of the files of its first parent, with changes, and moves no branch. Parents that are ""
// don't count.
func (b *Bare) Commit(message string, files map[string]string, parents ...string) string {
	b.t.Helper()
	return b.CommitBy("", message, files, parents...)
}

// CommitBy is [Bare.Commit] with an author, "name <mail>".
func (b *Bare) CommitBy(author, message string, files map[string]string, parents ...string) string {
	b.t.Helper()
	parents = slices.DeleteFunc(slices.Clone(parents), func(p string) bool { return p == "" })
	all := b.filesAt(parents)
	b.apply(all, files)
	return b.commit(author, message, all, parents)
}

// Link is [Bare.Commit] of a symbolic link.
func (b *Bare) Link(message, name, target, parent string) string {
	b.t.Helper()
	all := b.filesAt([]string{parent})
	all[name] = treeFile{git.ModeSymlink, b.write(git.KindBlob, []byte(target))}
	return b.commit("", message, all, []string{parent})
}

// Restore commits, on top of the branch main, what its files were at a commit.
func (b *Bare) Restore(message, at string) {
	b.t.Helper()
	kit.Eventually(b.t, func() error {
		head := b.Head()
		return b.move(mainRef, b.commit("", message, b.filesAt([]string{at}), []string{head}), head)
	})
}

// Move has a ref stand at an object, wherever it was.
func (b *Bare) Move(ref, object string) {
	b.t.Helper()
	kit.Eventually(b.t, func() error { return b.move(ref, object, b.At(ref)) })
}

// MoveFrom has a ref stand at an object in place of another one, and reports whether it stood there.
func (b *Bare) MoveFrom(ref, to, from string) bool {
	b.t.Helper()
	err := b.move(ref, to, from)
	if err != nil && !errors.Is(err, errMoved) {
		b.t.Fatal(err)
	}
	return err == nil
}

// onTop commits what change makes of the files of the branch main, and moves it there.
func (b *Bare) onTop(message string, change func(all map[string]treeFile)) (commit string) {
	b.t.Helper()
	kit.Eventually(b.t, func() error {
		var parents []string
		head := b.Head()
		if head != "" {
			parents = []string{head}
		}
		all := b.filesAt(parents)
		change(all)
		commit = b.commit("", message, all, parents)
		return b.move(mainRef, commit, head)
	})
	return commit
}

// treeFile is one of a tree.
type treeFile struct{ mode, hash string }

// remove removes a file, or all files of a folder.
func remove(all map[string]treeFile, name string) {
	maps.DeleteFunc(all, func(file string, _ treeFile) bool { return file == name || strings.HasPrefix(file, name+"/") })
}

// apply writes files into the list of all; "" removes a file or folder.
func (b *Bare) apply(all map[string]treeFile, files map[string]string) {
	b.t.Helper()
	for name, text := range files {
		if text == "" {
			remove(all, name)
			continue
		}
		mode := git.ModeFile
		if old, ok := all[name]; ok {
			mode = old.mode
		}
		all[name] = treeFile{mode, b.write(git.KindBlob, []byte(text))}
	}
}

// rootOf is the topmost tree of a commit.
func (b *Bare) rootOf(commit string) string {
	b.t.Helper()
	data, err := b.objects.Get(b.t.Context(), git.KindCommit, commit)
	b.must(err)
	c, err := git.ParseCommit(data)
	b.must(err)
	return c.Tree
}

func (b *Bare) readTree(hash string) *git.Tree {
	b.t.Helper()
	data, err := b.objects.Get(b.t.Context(), git.KindTree, hash)
	b.must(err)
	tree, err := git.ParseTree(data)
	b.must(err)
	return tree
}

// filesAt are the files of the first of the commits, by their paths.
func (b *Bare) filesAt(commits []string) map[string]treeFile {
	b.t.Helper()
	all := map[string]treeFile{}
	if len(commits) > 0 {
		b.list(all, "", b.rootOf(commits[0]))
	}
	return all
}

// list adds the files of a tree to all, by their paths.
func (b *Bare) list(all map[string]treeFile, dir, tree string) {
	b.t.Helper()
	for _, e := range b.readTree(tree).Entries() {
		if name := path.Join(dir, e.Name); e.IsDir() {
			b.list(all, name, e.Hash)
		} else {
			all[name] = treeFile{e.Mode, e.Hash}
		}
	}
}

func (b *Bare) commit(author, message string, files map[string]treeFile, parents []string) string {
	b.t.Helper()
	first, others := "", []string(nil)
	if len(parents) > 0 {
		first, others = parents[0], parents[1:]
	}
	return b.write(git.KindCommit, git.EncodeCommit(b.tree(files), first, author, "Test <test@example.org>", time.Now(), message+"\n", others...))
}

// tree writes the trees of files, and returns the topmost.
func (b *Bare) tree(files map[string]treeFile) string {
	b.t.Helper()
	var entries []git.Entry
	folders := map[string]map[string]treeFile{}
	for name, f := range files {
		folder, rest, nested := strings.Cut(name, "/")
		if !nested {
			entries = append(entries, git.Entry{Mode: f.mode, Name: name, Hash: f.hash})
			continue
		}
		if folders[folder] == nil {
			folders[folder] = map[string]treeFile{}
		}
		folders[folder][rest] = f
	}
	for name, inside := range folders {
		entries = append(entries, git.Entry{Mode: git.ModeDir, Name: name, Hash: b.tree(inside)})
	}
	return b.write(git.KindTree, git.EncodeTree(entries))
}

// write writes a loose object, unless it is there.
func (b *Bare) write(kind string, data []byte) (hash string) {
	b.t.Helper()
	hash = git.HashObject(kind, data)
	dir := filepath.Join(b.Dir, "objects", hash[:2])
	name := filepath.Join(dir, hash[2:])
	if _, err := os.Stat(name); err == nil {
		return hash
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	fmt.Fprintf(z, "%s %d\x00", kind, len(data))
	_, err := z.Write(data)
	b.must(errors.Join(err, z.Close(), os.MkdirAll(dir, 0o755)))
	f, err := os.CreateTemp(dir, "tmp_obj_")
	b.must(err)
	_, err = f.Write(packed.Bytes())
	b.must(errors.Join(err, f.Chmod(0o444), f.Close(), os.Rename(f.Name(), name)))
	return hash
}

// errMoved is returned where a ref isn't where it was, or is being moved.
var errMoved = errors.New("somebody else moves the ref")

// move has a ref stand at an object in place of another one, by git's own locks.
func (b *Bare) move(ref, to, from string) error {
	b.t.Helper()
	file := filepath.Join(b.Dir, filepath.FromSlash(ref))
	b.must(os.MkdirAll(filepath.Dir(file), 0o755))
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return errMoved
	}
	b.must(err)
	now, err := git.ReadRef(b.Dir, ref)
	if err == nil && now != from {
		err = errMoved
	}
	if err == nil {
		_, err = lock.WriteString(to + "\n")
	}
	if err = errors.Join(err, lock.Close()); err == nil {
		err = os.Rename(lock.Name(), file)
	}
	if err != nil {
		_ = os.Remove(lock.Name())
	}
	return err
}

func (b *Bare) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}
