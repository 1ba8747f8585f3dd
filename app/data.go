package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

// Data is the data directory of one process.
type Data struct {
	Dir  string
	lock *os.File
}

// OpenData makes the directory if need be and locks it: two processes on one
// data directory would each believe that they alone may act.
func OpenData(dir string) (*Data, error) {
	if dir == "" {
		return nil, errors.New("no data directory: give one with --data")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	d := &Data{Dir: dir}
	f, err := os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the data directory: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by process %s; stop it, or give this one another --data", dir, holder(f)), f.Close())
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("lock of the data directory: %w", err), f.Close())
	}
	d.lock = f
	return d, nil
}

// lockPatience is how long to wait for a lock whose holder is dead: a program that
// it was just starting when it was killed has the lock until it runs.
const lockPatience = 5 * time.Second

func lock(f *os.File) error {
	for until := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || lives(holder(f)) || time.Now().After(until) {
			return err
		}
	}
}

// holder is the process that wrote itself into the lock.
func holder(f *os.File) string {
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func lives(process string) bool {
	pid, err := strconv.Atoi(process)
	return err == nil && pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// Close gives the lock back.
func (d *Data) Close() error { return d.lock.Close() }

func (d *Data) path(name string) string { return filepath.Join(d.Dir, name) }

// The names below the data directory.
func (d *Data) desired() string  { return d.path("desired.git") }
func (d *Data) packages() string { return d.path("packages") }
func (d *Data) socket() string   { return d.path("hook.sock") }
func (d *Data) secrets() string  { return d.path(secret.DefaultDir) }

// keeper opens the key. Where no directories of secrets are given it makes the usual one.
func (d *Data) keeper(reach secret.Reach) (*secret.Keeper, error) {
	if len(reach.Dirs) == 0 {
		if err := os.MkdirAll(d.secrets(), 0o700); err != nil {
			return nil, fmt.Errorf("directory of secrets: %w", err)
		}
	}
	k, err := secret.Open(d.Dir)
	if err != nil {
		return nil, err
	}
	return k.With(reach)
}

// TokensFile is where the API's static tokens are kept.
func TokensFile(dir string) string { return filepath.Join(dir, "tokens.yaml") }

// localPackages is the package repository that a first start makes.
const localPackages = "packages.git"

// firstStart makes the local package repository: whole, under another name, so that
// an end of the process never leaves half of one that would then be taken for it.
func (d *Data) firstStart(ctx context.Context) error {
	dir := filepath.Join(d.packages(), localPackages)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.packages(), 0o700); err != nil {
		return err
	}
	// The data directory is locked: what stands there was left by a process that ended.
	tmp := filepath.Join(d.packages(), ".new-"+localPackages)
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

// firstRepositories is the repositories.yaml of a new desired repository.
const firstRepositories = `# Where VNF packages come from: a list of git repositories.
#   url:    anything that git can fetch; a plain name stands below the data directory's packages/
#   path:   a package (with TOSCA-Metadata/), or a folder of packages
#   branch: follow a branch; or tags: "v*" - each matching tag is a version
- name: packages
  url: ` + localPackages + `
  branch: main
`
