package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// FormerRefs begin the names of the refs that keep the commits which were in effect before a person accepted another history:
// the revisions of records lie there, and the next repack would remove them.
const FormerRefs = "refs/jibe/former/"

// KeptPath is where [KeptRef] has a directory.
func KeptPath(tree string) string { return path.Join(tree[:2], tree[2:4], tree) }

// keep makes refs of what must stay besides the commits: the directories that the store names,
// and the notes of the commits that stay. It returns shallow with the notes' commit.
func (c *cutter) keep(ctx context.Context, kept, shallow map[string]bool) (map[string]bool, error) {
	var in strings.Builder
	if err := c.keepNamed(ctx, &in); err != nil {
		return nil, err
	}
	notes, err := c.keepNotes(ctx, kept, &in)
	if err != nil {
		return nil, err
	}
	if in.Len() > 0 {
		if _, err := c.git.RunInput(ctx, in.String(), "fast-import", "--quiet", "--force"); err != nil {
			return nil, err
		}
	}
	if notes {
		tip, err := git.ReadRef(c.opt.Dir, objects.NotesRef)
		if err != nil {
			return nil, err
		}
		shallow[tip] = true
	}
	for _, ref := range []string{KeptRef, objects.NotesRef} { // git syncs the files, and not their names
		if err := git.SyncDir(filepath.Dir(filepath.Join(c.opt.Dir, filepath.FromSlash(ref)))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return shallow, nil
}

func (c *cutter) commit(in *strings.Builder, ref, message string) {
	fmt.Fprintf(in, "commit %s\ncommitter %s %d +0000\ndata %d\n%s\n", ref, git.Ident(c.opt.Author, c.opt.Author), c.opt.Now().Unix(), len(message), message)
}

// keepNamed writes a commit with every directory that the store names, by its hash.
func (c *cutter) keepNamed(ctx context.Context, in *strings.Builder) error {
	trees := map[string]bool{}
	named, err := c.proven(ctx, slices.Concat(c.opt.Moving, c.opt.Named))
	if err != nil {
		return err
	}
	for _, rev := range named {
		trees[rev.Tree] = true
	}
	have, err := present(ctx, c.git, slices.Sorted(maps.Keys(trees)))
	if err != nil || len(have) == 0 {
		return err
	}
	in.WriteString("reset " + KeptRef + "\n\n")
	c.commit(in, KeptRef, "Keep the directories that the store names")
	in.WriteString("deleteall\n")
	for _, tree := range slices.Sorted(maps.Keys(have)) {
		fmt.Fprintf(in, "M 040000 %s %s\n", tree, KeptPath(tree))
	}
	in.WriteString("\n")
	return nil
}

// proven returns those of the revisions which records name that the history or a former cut proves: what is kept is taken for
// proved afterwards, and a client of the store may have changed a record.
func (c *cutter) proven(ctx context.Context, revs []desired.Revision) ([]desired.Revision, error) {
	revs = slices.DeleteFunc(slices.Clone(revs), func(rev desired.Revision) bool {
		return !git.IsHash(rev.Tree) || !git.IsHash(rev.Commit) || strings.ContainsAny(rev.Dir, "\n")
	})
	if len(revs) == 0 {
		return nil, nil
	}
	var ask strings.Builder
	for _, rev := range revs {
		fmt.Fprintf(&ask, "%s:%s\n%s:%s\n", rev.Commit, rev.Dir, KeptRef, KeptPath(rev.Tree))
	}
	out, err := c.git.RunInput(ctx, ask.String(), "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, err
	}
	followed, err := c.git.Run(ctx, "rev-list", "refs/heads/"+c.opt.Branch, "--glob="+FormerRefs+"*", "--")
	if err != nil {
		return nil, err
	}

	history := map[string]bool{}
	for commit := range strings.FieldsSeq(followed) {
		history[commit] = true
	}
	answers := strings.Split(out, "\n")
	var good []desired.Revision
	for i, rev := range revs {
		if len(answers) < 2*i+2 {
			break
		}
		if answers[2*i] == rev.Tree && history[rev.Commit] || answers[2*i+1] == rev.Tree {
			good = append(good, rev)
		}
	}

	return good, nil
}

// keepNotes writes a commit on top of the notes that leaves out those of the commits that go, and
// says whether it did. Being on top, it is a fast-forward for whoever has the notes.
func (c *cutter) keepNotes(ctx context.Context, kept map[string]bool, in *strings.Builder) (bool, error) {
	tip, err := git.ReadRef(c.opt.Dir, objects.NotesRef)
	if err != nil || tip == "" {
		return false, err
	}
	list, err := c.git.Run(ctx, "ls-tree", "-r", tip)
	if err != nil {
		return false, err
	}
	c.commit(in, objects.NotesRef, "Keep the notes of the commits that are kept")
	fmt.Fprintf(in, "from %s\ndeleteall\n", tip)
	for line := range strings.Lines(list) {
		about, name, ok := strings.Cut(strings.TrimSpace(line), "\t")
		f := strings.Fields(about)
		if !ok || len(f) != 3 || !kept[strings.ReplaceAll(name, "/", "")] {
			continue
		}
		fmt.Fprintf(in, "M %s %s %s\n", f[0], f[2], name)
	}
	in.WriteString("\n")
	return true, nil
}

// refusePushes replaces the push hook until open is called: without a server, git takes pushes
// that the hook lets pass, and one that comes while objects are removed could lose some of its
// own. After an interruption, the next start of the server puts its own hook back.
func (c *cutter) refusePushes() (open func() error, err error) {
	name := filepath.Join(c.opt.Dir, "hooks", "pre-receive")
	was, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	put := func(script string) error {
		tmp := filepath.Join(filepath.Dir(name), ".pre-receive.new")
		return errors.Join(git.WriteSynced(tmp, []byte(script)), os.Chmod(tmp, 0o755), os.Rename(tmp, name))
	}
	if err := put("#!/bin/sh\necho 'The history is being archived: push again in a few minutes.' >&2\nexit 1\n"); err != nil {
		return nil, err
	}
	return func() error {
		if was == nil {
			return os.Remove(name)
		}
		return put(string(was))
	}, nil
}

func writeShallow(gitDir string, commits map[string]bool) error {
	if len(commits) == 0 {
		if err := os.Remove(objects.ShallowFile(gitDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return git.SyncDir(gitDir)
	}
	tmp := filepath.Join(objects.OwnDir(gitDir), git.TmpPrefix+"shallow")
	text := strings.Join(slices.Sorted(maps.Keys(commits)), "\n") + "\n"
	if err := git.WriteSynced(tmp, []byte(text)); err != nil {
		return err
	}
	if err := os.Rename(tmp, objects.ShallowFile(gitDir)); err != nil {
		return err
	}
	return git.SyncDir(gitDir)
}

// graft takes their parents from the commits. Nothing is removed yet: where what is left isn't
// whole, everything is as it was.
func (c *cutter) graft(ctx context.Context, was, shallow map[string]bool) error {
	if err := writeShallow(c.opt.Dir, shallow); err != nil {
		return err
	}
	if _, err := c.git.Run(ctx, "rev-list", "--quiet", "--objects", "--all"); err != nil {
		return errors.Join(fmt.Errorf("what would be kept isn't whole: %w", err), writeShallow(c.opt.Dir, was))
	}
	return nil
}

// drop removes the objects that no ref leads to any more.
func (c *cutter) drop(ctx context.Context) error {
	// It has the parents that are gone, and git takes no account of it from now on.
	for _, name := range []string{"commit-graph", "commit-graphs"} {
		if err := os.RemoveAll(filepath.Join(c.opt.Dir, "objects", "info", name)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"-c", "pack.threads=0", "repack", "-a", "-d", "-q", "-n"},
		{"prune", "--expire=now"},
	} {
		if _, err := c.git.Run(ctx, args...); err != nil {
			return err
		}
	}
	return git.SyncDir(filepath.Join(c.opt.Dir, "objects", "pack"))
}

// measure returns the number of the branch's commits and the size of the packs in bytes.
func (c *cutter) measure(ctx context.Context) (commits int, size int64, err error) {
	out, err := c.git.Run(ctx, "rev-list", "--count", "refs/heads/"+c.opt.Branch, "--")
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(out, &commits); err != nil {
		return 0, 0, fmt.Errorf("git rev-list: unexpected answer %.80q", out)
	}
	packs, err := objects.ListPacks(c.opt.Dir)
	for _, p := range packs {
		size += p.Size
	}
	return commits, size, err
}
