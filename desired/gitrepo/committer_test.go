package gitrepo

import (
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// committer commits to a bare repository and moves its branch, without a clone and without any process: for tests
// in which it doesn't matter how a person makes and pushes a commit. No hook is asked, as on a forge.
type committer struct {
	testing.TB
	dir  string // the bare repository
	head string // where they are, "" before the first commit
	have map[string]git.Entry
	text map[string][]byte // of the files that they have written, by hash
}

// commitTo is at the head of a repository's main.
func commitTo(tb testing.TB, dir string) *committer {
	tb.Helper()

	head, err := git.ReadRef(dir, "refs/heads/main")
	if err != nil {
		tb.Fatal(err)
	}

	c := &committer{TB: tb, dir: dir, have: map[string]git.Entry{}, text: map[string][]byte{}}
	if head != "" {
		c.reset(head)
	}
	return c
}

// reset goes to a commit, and drops what isn't committed.
func (c *committer) reset(commit string) {
	c.Helper()

	objects := git.NewObjects(git.Runner{Dir: c.dir}, git.Limits{Blob: objects.MaxObject, Tree: objects.MaxObject, Commit: objects.MaxObject}, 1<<20)
	defer objects.Close()
	get := func(kind, hash string) []byte {
		data, err := objects.Get(context.Background(), kind, hash)
		if err != nil {
			c.Fatal(err)
		}
		return data
	}

	c.head = commit
	clear(c.have)
	var read func(hash, folder string)
	read = func(hash, folder string) {
		tree, err := git.ParseTree(get(git.KindTree, hash))
		if err != nil {
			c.Fatal(err)
		}
		for _, e := range tree.Entries() {
			switch {
			case e.IsDir():
				read(e.Hash, folder+e.Name+"/")
			case c.text[e.Hash] == nil && e.IsFile():
				c.text[e.Hash] = get(git.KindBlob, e.Hash)
				fallthrough
			default:
				c.have[folder+e.Name] = e
			}
		}
	}
	is, err := git.ParseCommit(get(git.KindCommit, commit))
	if err != nil {
		c.Fatal(err)
	}
	read(is.Tree, "")
}

// replace replaces text in a file.
func (c *committer) replace(file, old, text string) {
	c.Helper()

	data := string(c.text[c.have[file].Hash])
	if !strings.Contains(data, old) {
		c.Fatalf("%q isn't in %s: %q", old, file, data)
	}
	c.put(file, []byte(strings.Replace(data, old, text, 1)))
}

func (c *committer) set(name, mode string, data []byte) {
	hash := git.HashObject(git.KindBlob, data)
	c.text[hash] = data
	c.have[name] = git.Entry{Mode: mode, Hash: hash}
}

// put writes a file.
func (c *committer) put(name string, data []byte) { c.set(name, git.ModeFile, data) }

// below are the files at or below each of the paths.
func (c *committer) below(paths ...string) []string {
	var names []string
	for name := range c.have {
		if slices.ContainsFunc(paths, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") }) {
			names = append(names, name)
		}
	}
	return names
}

// remove removes files, and folders with all that they hold.
func (c *committer) remove(paths ...string) {
	c.Helper()

	names := c.below(paths...)
	if len(names) == 0 {
		c.Fatalf("none of %q is there", paths)
	}
	for _, name := range names {
		delete(c.have, name)
	}
}

// move renames a folder.
func (c *committer) move(from, to string) {
	c.Helper()

	names := c.below(from)
	if len(names) == 0 {
		c.Fatalf("%s isn't there", from)
	}
	for _, name := range names {
		c.have[to+strings.TrimPrefix(name, from)] = c.have[name]
		delete(c.have, name)
	}
}

// commit makes a commit that no ref names yet. others are further parents.
func (c *committer) commit(message string, others ...string) string {
	c.Helper()

	pack := git.NewPack()
	for _, data := range c.text {
		pack.Add(git.KindBlob, data)
	}
	const person = "A Person <person@example.com>"
	root := c.tree(pack, slices.Sorted(maps.Keys(c.have)), "")
	c.head = pack.Add(git.KindCommit, git.EncodeCommit(root, c.head, person, person, time.Now(), message+"\n", others...))
	if err := pack.Write(c.dir, c.TempDir()); err != nil {
		c.Fatal(err)
	}
	return c.head
}

// checkout writes the files of the last commit, all of which they have written, to a folder.
func (c *committer) checkout(dir string) {
	c.Helper()

	for name, e := range c.have {
		text, ok := c.text[e.Hash]
		if !ok || e.Mode != git.ModeFile {
			c.Fatalf("%s isn't a file that was written here", name)
		}
		put(c, dir, name, text)
	}
}

// tree adds the tree of the files below a folder, which all begin with its path.
func (c *committer) tree(pack *git.Pack, names []string, folder string) string {
	var entries []git.Entry
	for len(names) > 0 {
		name, _, nested := strings.Cut(strings.TrimPrefix(names[0], folder), "/")
		n := 1
		if nested {
			below := folder + name + "/"
			if n = slices.IndexFunc(names, func(s string) bool { return !strings.HasPrefix(s, below) }); n < 0 {
				n = len(names)
			}
			entries = append(entries, git.Entry{Mode: git.ModeDir, Name: name, Hash: c.tree(pack, names[:n], below)})
		} else {
			e := c.have[names[0]]
			entries = append(entries, git.Entry{Mode: e.Mode, Name: path.Base(names[0]), Hash: e.Hash})
		}
		names = names[n:]
	}
	return pack.Add(git.KindTree, git.EncodeTree(entries))
}

// push commits what was changed and moves the branch there. It fails where somebody else has moved that meanwhile.
func (c *committer) push(message string) string {
	c.Helper()

	before := c.head
	c.commit(message)
	c.moveBranch("refs/heads/main", before, c.head)
	return c.head
}

// land lands a commit of theirs, whose objects a ref keeps as the hook's quarantine does.
func (c *committer) land(r *Repo, commit string) (check.RefUpdate, error) {
	c.Helper()

	if ref := "refs/heads/objects-of-" + commit; !exists(filepath.Join(c.dir, ref)) {
		c.moveBranch(ref, "", commit)
	}
	nothing := func(context.Context, check.RefUpdate) error { return nil }
	return r.Land(c.Context(), Landing{Commit: commit, Judge: nothing, Accept: nothing})
}

// moveBranch moves a ref as git does: with a lock that is renamed.
func (c *committer) moveBranch(ref, before, after string) {
	c.Helper()

	name := filepath.Join(c.dir, filepath.FromSlash(ref))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		c.Fatal(err)
	}
	lock, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		c.Fatal(err)
	}
	defer lock.Close()
	if is, err := git.ReadRef(c.dir, ref); err != nil || is != before {
		_ = os.Remove(lock.Name())
		c.Fatalf("%s is at %s, not %s: %v", ref, is, before, err)
	}
	if _, err := lock.WriteString(after + "\n"); err != nil {
		c.Fatal(err)
	}
	if err := os.Rename(lock.Name(), name); err != nil {
		c.Fatal(err)
	}
}
