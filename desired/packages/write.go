package packages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// ErrMoved is returned by [Catalogue.Edit] where others changed the repository each time that
// a commit was tried.
var ErrMoved = errors.New("the package repository is changed all the time")

// Imported is content that was written into the package repository, and that no commit has yet.
type Imported struct {
	Tree    string
	Package *vnfd.Package
}

// Import writes the files into the package repository that Jibe writes to, as git objects that
// no ref has. scratch is a directory on the same file system, for what isn't complete yet; it
// must not exist and is gone afterwards. What was written is read again as the catalogue reads
// it: the error is [ErrUnsound] where it can't be used.
func (c *Catalogue) Import(ctx context.Context, files fs.FS, scratch string) (in Imported, err error) {
	home, err := c.home()
	if err != nil {
		return Imported{}, err
	}
	dir := c.workshop(home).Dir
	runner := writer(scratch)
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if _, err := (git.Runner{}).Run(ctx, "init", "--quiet", "--bare", "--initial-branch="+importBranch, scratch); err != nil {
		return Imported{}, err
	}
	if err := fastImport(ctx, runner, func(w *bufio.Writer) error { return writeFiles(ctx, w, files) }); err != nil {
		return Imported{}, err
	}
	tree, err := runner.Run(ctx, "rev-parse", "--verify", "refs/heads/"+importBranch+"^{tree}")
	if err != nil {
		return Imported{}, err
	}
	in.Tree = strings.TrimSpace(tree)
	store := newObjects(ctx, runner, c.most)
	defer store.close()
	in.Package, _, err = load(store, in.Tree)
	if err == nil {
		err = verifyArtifacts(ctx, in.Package)
	}
	switch {
	case errors.Is(err, errStore):
		return Imported{}, err
	case err != nil:
		return Imported{}, fmt.Errorf("%w: %w", ErrUnsound, err)
	}
	return in, adopt(scratch, dir)
}

// importBranch is the branch of a scratch repository.
const importBranch = "import"

// writer runs git on a package repository that is Jibe's to write.
func writer(dir string) git.Runner {
	return git.Runner{Dir: dir, Config: []string{"core.packedRefsTimeout=10000", "core.filesRefLockTimeout=10000", streamed}}
}

// adopt moves the packs of the scratch repository into the one at dir, each complete before
// git can find it by its index.
func adopt(scratch, dir string) error {
	from, to := filepath.Join(scratch, "objects", "pack"), filepath.Join(dir, "objects", "pack")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, kind := range []string{"*.pack", "*.rev", "*.idx"} {
		names, err := filepath.Glob(filepath.Join(from, kind))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Rename(name, filepath.Join(to, filepath.Base(name))); err != nil {
				return err
			}
		}
		if err := git.SyncDir(to); err != nil {
			return err
		}
	}
	return nil
}

// fastImport runs git fast-import on what write writes.
func fastImport(ctx context.Context, runner git.Runner, write func(*bufio.Writer) error) error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	runner.Config = append(slices.Clone(runner.Config), "fastimport.unpackLimit=1")
	wrote := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(out, 1<<16)
		err := write(w)
		if err == nil {
			_, err = w.WriteString("done\n")
		}
		wrote <- errors.Join(err, w.Flush(), out.Close())
	}()
	_, err = runner.RunFile(ctx, in, "fast-import", "--quiet", "--done", "--date-format=raw")
	in.Close() // so that a writer that git no longer reads from ends
	werr := <-wrote
	crashed, _ := filepath.Glob(filepath.Join(runner.Dir, "fast_import_crash_*"))
	for _, name := range crashed {
		_ = os.Remove(name) // a report of git for its authors
	}
	// What couldn't be read is the cause where git complains of an input that ends too early.
	if werr != nil && !errors.Is(werr, os.ErrClosed) && !errors.Is(werr, syscall.EPIPE) {
		return werr
	}
	return err
}

// writeFiles writes the content of a package as the only commit of the import branch.
func writeFiles(ctx context.Context, w *bufio.Writer, files fs.FS) error {
	fmt.Fprintf(w, "commit refs/heads/%s\ncommitter %s 0 +0000\ndata 0\n", importBranch, committer)
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkName(d.Name()); err != nil && name != "." {
			return fmt.Errorf("%w: %w", ErrUnsound, describe(name, err))
		}
		if d.IsDir() {
			return nil
		}
		f, err := files.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		mode := git.ModeFile
		if st.Mode()&0o111 != 0 {
			mode = git.ModeExec
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n", mode, quotePath(name), st.Size())
		n, err := io.Copy(w, f)
		if err == nil && n != st.Size() {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		return w.WriteByte('\n')
	})
}

// committer is who makes the commits of the package repository.
const committer = "Jibe <jibe@localhost>"

// quotePath writes a path as fast-import reads it back, whatever is in it.
func quotePath(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// Tip is the package repository that Jibe writes to at the commit that an edit follows.
type Tip struct {
	// Records are those that can be read, by id.
	Records []*Record
	// Folders are the package's folders in the repository by their trees: tree -> path.
	Folders map[string]string
	repo    desired.Repository
	commit  string            // "" in an empty repository
	files   map[string]string // of the records, by id
}

// Repository is the name of the repository.
func (t *Tip) Repository() string { return t.repo.Name }

// Folder is where a package with the vnfdId is put.
func (t *Tip) Folder(vnfdID string) string { return path.Join(t.repo.Path, folderName(vnfdID)) }

// folderName is a name for a folder that any file system and git take.
func folderName(vnfdID string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, vnfdID)
	clean = strings.TrimLeft(clean[:min(len(clean), 100)], ".-")
	if clean == vnfdID && !strings.HasSuffix(clean, ".lock") {
		return clean
	}
	return strings.Trim(clean+"-"+DerivedID(vnfdID)[:8], "-")
}

// Record returns the record with the id, nil where there is none.
func (t *Tip) Record(id string) *Record {
	for _, r := range t.Records {
		if r.ID == id {
			c := *r
			return &c
		}
	}
	return nil
}

// Change is what an edit does to the repository.
type Change struct {
	// Put are records to write; Drop are ids of those to remove.
	Put  []*Record
	Drop []string
	// Add is content by its folder: path -> tree. Remove are folders to remove.
	Add    map[string]string
	Remove []string
}

func (c Change) empty() bool { return len(c.Put)+len(c.Drop)+len(c.Add)+len(c.Remove) == 0 }

// Edit is a commit to the package repository that Jibe writes to.
type Edit struct {
	// Subject is the first line of the message; By the author, "name <mail>", "" for Jibe.
	Subject, By string
	// Change says what to change of what stands at the tip. It may run several times. Its
	// error ends the edit, and nothing is written; nor is it for a change of nothing.
	Change func(*Tip) (Change, error)
}

// editAttempts is how often an edit is tried again, as others may push meanwhile.
const editAttempts = 20

// Edit makes one commit and brings the catalogue up to date with it. The commit is durable
// when Edit returns, and pushed where the repository is on a git server; where only reading it
// again failed, the next Sync does that. It returns [ErrAway] where the server can't be reached.
func (c *Catalogue) Edit(ctx context.Context, e Edit) error {
	home, err := c.home()
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	branch := c.branch(home)
	for range editAttempts {
		at, err := branch.at(ctx)
		if err != nil {
			return fmt.Errorf("package repository %s: %w", home.Name, err)
		}
		tip, err := c.tip(ctx, home, at)
		if err != nil {
			return fmt.Errorf("package repository %s: %w", home.Name, err)
		}
		change, err := e.Change(tip)
		if err != nil {
			return err
		}
		change.Put = slices.DeleteFunc(change.Put, func(r *Record) bool {
			text, err := r.encode()
			return err == nil && tip.files[r.ID] == string(text)
		})
		if change.empty() {
			return nil
		}
		commit, err := commitOf(tip, e, change, time.Now())
		if err != nil {
			return err
		}
		switch err := branch.move(ctx, tip.commit, commit); {
		case err == nil:
			if err := branch.read(ctx); err != nil {
				c.log.WarnContext(ctx, "package repository not read again after a commit", "repository", home.Name, "error", err)
			}
			return nil
		case !errors.Is(err, git.ErrRefMoved):
			return fmt.Errorf("package repository %s: %w", home.Name, err)
		}
	}
	return fmt.Errorf("%w: %s", ErrMoved, home.Name)
}

// branch is the branch of the repository that Jibe writes to.
type branch interface {
	// at says where it is now, "" for nowhere.
	at(ctx context.Context) (commit string, err error)
	// move makes a commit on top of from and moves the branch there, or returns [git.ErrRefMoved] where it
	// has moved. commit is what fast-import reads, behind the line that names the branch.
	move(ctx context.Context, from, commit string) error
	// read brings the catalogue up to date with it.
	read(ctx context.Context) error
}

// branch is that of the repository.
func (c *Catalogue) branch(home desired.Repository) branch {
	if Local(home) {
		return localBranch{c, home}
	}
	return remoteBranch{c, home}
}

// workshop runs git on the repository in which commits for home are made: home itself, or the
// store of the catalogue, which has all of a remote one.
func (c *Catalogue) workshop(home desired.Repository) git.Runner {
	if Local(home) {
		return writer(c.location(home))
	}
	return writer(c.git.Dir)
}

// localBranch is one on this disk.
type localBranch struct {
	c    *Catalogue
	home desired.Repository
}

func (b localBranch) at(context.Context) (string, error) {
	return git.ReadRef(b.c.location(b.home), "refs/heads/"+b.home.Branch)
}

func (b localBranch) move(ctx context.Context, from, commit string) error {
	ref := "refs/heads/" + b.home.Branch
	err := importCommit(ctx, writer(b.c.location(b.home)), ref, commit)
	if err == nil {
		return nil
	}
	if now, rerr := b.at(ctx); rerr != nil || now == from {
		return err
	}
	return git.ErrRefMoved
}

func (b localBranch) read(ctx context.Context) error { return b.c.SyncOne(ctx, b.home.Name) }

// importCommit makes a commit and moves the ref there.
func importCommit(ctx context.Context, runner git.Runner, ref, commit string) error {
	return fastImport(ctx, runner, func(w *bufio.Writer) error {
		_, err := w.WriteString("commit " + ref + "\n" + commit)
		return err
	})
}

// Maintain lets git tidy the package repository that Jibe writes to, if it finds that due.
func (c *Catalogue) Maintain(ctx context.Context) error {
	home, err := c.home()
	if err != nil || !Local(home) {
		return nil // there is none, or its server tidies it
	}
	runner := c.workshop(home)
	runner.Config = append(runner.Config, "gc.auto=2000", "gc.autoDetach=false")
	_, err = runner.Run(ctx, "gc", "--auto", "--quiet")
	return err
}

// tip reads the repository at a commit.
func (c *Catalogue) tip(ctx context.Context, home desired.Repository, commit string) (t *Tip, err error) {
	t = &Tip{repo: home, commit: commit, Folders: map[string]string{}, files: map[string]string{}}
	if commit == "" {
		return t, nil
	}
	store := newObjects(ctx, c.workshop(home), c.most)
	defer store.close()
	if t.Records, _, err = store.records(commit, home.Path); err != nil {
		return nil, err
	}
	for _, r := range t.Records {
		if text, err := r.encode(); err == nil {
			t.files[r.ID] = string(text)
		}
	}
	found, err := store.packages(commit, home.Path)
	if refused := (*refusedError)(nil); errors.As(err, &refused) && home.Path != "" {
		return t, nil // there is no such folder yet
	}
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if f.err != nil {
			continue // a problem of the catalogue
		}
		if f.path == home.Path {
			return nil, fmt.Errorf("%w: its path %q is a package itself, and no folder of packages", ErrReadOnly, home.Path)
		}
		t.Folders[f.tree] = f.path
	}
	return t, nil
}

// commitOf writes the change as fast-import reads it, behind the name of the branch.
func commitOf(t *Tip, e Edit, c Change, at time.Time) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "author %s %d +0000\ncommitter %s %d +0000\n", git.Ident(e.By, committer), at.Unix(), committer, at.Unix())
	subject := strings.Join(strings.Fields(e.Subject), " ") + "\n"
	fmt.Fprintf(&b, "data %d\n%s\n", len(subject), subject)
	if t.commit != "" {
		fmt.Fprintf(&b, "from %s\n", t.commit)
	}
	for _, folder := range c.Remove {
		fmt.Fprintf(&b, "D %s\n", quotePath(folder))
	}
	for folder, tree := range c.Add {
		fmt.Fprintf(&b, "M %s %s %s\n", "040000", tree, quotePath(folder))
	}
	for _, id := range c.Drop {
		fmt.Fprintf(&b, "D %s\n", quotePath(path.Join(t.repo.Path, recordName(id))))
	}
	for _, r := range c.Put {
		text, err := r.encode()
		if err != nil {
			return "", fmt.Errorf("record of package %s: %w", r.ID, err)
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n%s\n", git.ModeFile, quotePath(path.Join(t.repo.Path, recordName(r.ID))), len(text), text)
	}
	return b.String(), nil
}
