package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// noRepository refuses a data directory that is a git repository itself: keys, tokens and
// the store don't belong into one, and a person who gives a clone here takes it for the
// desired repository.
func noRepository(dir string) error {
	what := ""
	switch {
	case Exists(filepath.Join(dir, ".git")):
		what = "a work tree of git (it has .git)"
	case Exists(filepath.Join(dir, "HEAD")) && Exists(filepath.Join(dir, "objects")) && Exists(filepath.Join(dir, "refs")):
		what = "a bare repository of git"
	default:
		return nil
	}
	return fmt.Errorf("data directory %s is %s: Jibe keeps its keys, tokens and store in a directory of its own, with the desired repository in it; "+
		"give it another --data. A clone of the desired repository is pushed from; one that a forge has is followed with --remote", dir, what)
}

// CheckComplete refuses a data directory that has a store, but whose desired repository is
// gone: with an empty one in its place, everything that runs would look as if it had been
// removed. With a remote, the repository is only a mirror, which is fetched anew; whether it
// is the same one can be seen only then.
func (d *Dir) CheckComplete(remote string) error {
	if remote != "" || !Exists(d.Store()) {
		return nil
	}
	if items, err := os.ReadDir(d.Desired()); err == nil && len(items) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil // opening it says what is wrong with it
	}
	return fmt.Errorf("data directory %s has a store (%s), but its desired repository (%s) is gone: with an empty one, all that runs would be terminated. "+
		"Put it back (git clone --mirror <a clone or backup> %s), or follow the forge that has it with --remote; "+
		"to begin with nothing, give another --data", d.Path, StoreFile, filepath.Base(d.Desired()), d.Desired())
}

// Exists says whether there is anything at the path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// localPackages is the package repository that a first start makes.
const localPackages = "packages.git"

// MakePackages makes the local package repository, first under another name: if the process
// ends halfway, no half of it may be taken for the repository.
func (d *Dir) MakePackages(ctx context.Context) error {
	dir := filepath.Join(d.Packages(), localPackages)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.Packages(), 0o700); err != nil {
		return err
	}
	// The data directory is locked, so that a process that ended has left this.
	tmp := filepath.Join(d.Packages(), ".new-"+localPackages)
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", tmp},
		{"-C", tmp, "config", "core.fsync", "all"},
		{"-C", tmp, "config", "http.receivepack", "true"},
		{"-C", tmp, "fast-import", "--quiet"},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Stdin = strings.NewReader(firstPackages)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return os.Rename(tmp, dir)
}

// firstPackages is the first commit of a new package repository, as git
// fast-import reads it: without one there is no branch to clone.
const firstPackages = `commit refs/heads/main
committer Jibe <jibe@localhost> 0 +0000
data <<.
Begin the package repository
.
M 100644 inline README.md
data <<.
# VNF packages

One folder a package: an expanded CSAR with TOSCA-Metadata/TOSCA.meta in it.
Check one with "jibe package validate DIR" before you push.
.
`

// FirstRepositories is the repositories.yaml of a new desired repository.
const FirstRepositories = `# Where VNF packages come from: a list of git repositories.
#   url:    anything that git can fetch; a plain name stands below the data directory's packages/
#   path:   a package (with TOSCA-Metadata/), or a folder of packages
#   branch: follow a branch; or tags: "v*" - each matching tag is a version
- name: packages
  url: ` + localPackages + `
  branch: main
`
