package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// archiveMark is the setting that tells an archive from other repositories. Its value is the
// desired repository that it was made of.
const archiveMark = "jibe.archiveof"

// Update brings the archive at to up to date: a bare repository that has every commit, note and
// pin of the desired repository at dir, and all that earlier calls brought into it. It is made
// where it doesn't exist. git reads and checks every object that is copied; the archive is
// durable when bringUp returns. bringUp only reads from dir, so that a server may work on it
// meanwhile, and may be interrupted and repeated at any point.
func Update(ctx context.Context, dir, to string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	if inside(to, dir) {
		return fmt.Errorf("archive %s is in the desired repository itself: name a path outside of the data directory", to)
	}
	if err := makeArchive(ctx, dir, to); err != nil {
		return fmt.Errorf("archive %s to %s: %w", dir, to, err)
	}
	return nil
}

func inside(name, dir string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func makeArchive(ctx context.Context, dir, to string) error {
	if err := objects.CheckGit(ctx); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		mark, err := git.Runner{Dir: to}.Run(ctx, "config", "--local", archiveMark)
		if err != nil || strings.TrimSpace(mark) == "" {
			return errors.New("there is something else already: name a path where nothing is, or a former archive")
		}
		return fill(ctx, dir, to, true)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	// Under another name until it is whole. Only an archive to the same path has this one.
	tmp := filepath.Join(filepath.Dir(to), ".new-"+filepath.Base(to))
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if _, err := (git.Runner{}).Run(ctx, "init", "--quiet", "--bare", "--object-format=sha1", "--template=", tmp); err != nil {
		return err
	}
	if err := fill(ctx, dir, tmp, false); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, to); err != nil {
		return err
	}
	return git.SyncDir(filepath.Dir(to))
}

// fill copies what the archive at to lacks.
func fill(ctx context.Context, dir, to string, again bool) error {
	source, target := git.Runner{Dir: dir}, git.Runner{Dir: to}
	head, err := source.Run(ctx, "symbolic-ref", "HEAD")
	if err != nil {
		return err
	}
	before, err := tips(ctx, source)
	if err != nil {
		return err
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--no-write-fetch-head"}
	if !again {
		// A new archive begins where the history does that is left; one that has the
		// history before that mustn't forget it.
		args = append(args, "--update-shallow")
	}
	if _, err := target.Run(ctx, append(args, "--", dir, "+refs/*:refs/*")...); err != nil {
		return err
	}
	if err := complete(ctx, target, before); err != nil {
		if again {
			return fmt.Errorf("%w (the history between was archived elsewhere: name that archive, or a path where nothing is)", err)
		}
		return err
	}
	for _, args := range [][]string{
		{"symbolic-ref", "HEAD", strings.TrimSpace(head)},
		{"pack-refs", "--all"},
		{"config", "--local", "gc.auto", "0"},
		{"config", "--local", archiveMark, dir},
	} {
		if _, err := target.Run(ctx, args...); err != nil {
			return err
		}
	}
	for _, d := range []string{to, filepath.Join(to, "objects"), filepath.Join(to, "objects", "pack")} {
		if err := git.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// tip is a ref and what it names.
type tip struct {
	ref, object string
	commit      string // that the object is or leads to, "" where it is a tree
}

// tips returns the refs of a repository that belong into an archive: what was fetched of package
// repositories can be fetched again.
func tips(ctx context.Context, runner git.Runner) ([]tip, error) {
	out, err := runner.Run(ctx, "for-each-ref", "--format=%(refname) %(objectname) %(objecttype) %(*objectname) %(*objecttype)")
	if err != nil {
		return nil, err
	}
	var all []tip
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "refs/jibe/upstream/") || strings.HasPrefix(f[0], "refs/jibe/proposed/") {
			continue
		}
		t := tip{ref: f[0], object: f[1]}
		switch {
		case f[2] == git.KindCommit:
			t.commit = f[1]
		case len(f) == 5 && f[4] == git.KindCommit:
			t.commit = f[3]
		}
		all = append(all, t)
	}
	return all, nil
}

// complete returns an error that names the first of the refs whose object the repository lacks.
func complete(ctx context.Context, runner git.Runner, refs []tip) error {
	hashes := make([]string, len(refs))
	for i, t := range refs {
		hashes[i] = t.object
	}
	have, err := present(ctx, runner, hashes)
	if err != nil {
		return err
	}
	for _, t := range refs {
		if !have[t.object] {
			return fmt.Errorf("%s (%s) is not in it", t.ref, t.object)
		}
	}
	return nil
}

// present returns those of the objects that the repository has.
func present(ctx context.Context, runner git.Runner, hashes []string) (map[string]bool, error) {
	have := make(map[string]bool, len(hashes))
	if len(hashes) == 0 {
		return have, nil
	}
	out, err := runner.RunInput(ctx, strings.Join(hashes, "\n")+"\n", "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		if hash := strings.TrimSpace(line); git.IsHash(hash) { // else "<hash> missing"
			have[hash] = true
		}
	}
	return have, nil
}
