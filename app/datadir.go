package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	// crashed means that the last process on the directory didn't end in order, so that its
	// files and addresses may be taken for another moment.
	crashed bool
}

// OpenData makes the directory if need be and locks it: two processes on one
// data directory would each believe that they alone may act.
func OpenData(dir string) (*Data, error) { return openData(dir, slog.New(slog.DiscardHandler)) }

func openData(dir string, log *slog.Logger) (*Data, error) {
	if dir == "" {
		return nil, errors.New("no data directory: give one with --data")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := noRepository(dir); err != nil {
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
	if err := lock(f, log); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by process %s; stop it, or give this one another --data", dir, holder(f)), f.Close())
	}
	d.crashed = holder(f) != ""
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("lock of the data directory: %w", err), f.Close())
	}
	d.lock = f
	return d, nil
}

// endPatience is how long to wait for the files and addresses of a process that was
// killed: it holds them until the last of its threads has ended, and a child that it was
// just starting holds them until it runs.
const endPatience = 10 * time.Second

// lock takes the lock. It waits where the holder is dead or dying, and not where the holder
// lives.
func lock(f *os.File, log *slog.Logger) error {
	logged := false
	for until := time.Now().Add(endPatience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || runs(holder(f)) || time.Now().After(until) {
			return err
		}
		if !logged {
			log.Info("the data directory's lock is that of a process that has just ended, waiting for it", "process", holder(f), "most", endPatience)
			logged = true
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

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// Close gives the lock back. The file that it leaves empty says that the process ended in
// order.
func (d *Data) Close() error { return errors.Join(d.lock.Truncate(0), d.lock.Close()) }

// listen is [net.Listen], but waits for an address that a process which was killed may
// still hold.
func (d *Data) listen(address string, log *slog.Logger) (net.Listener, error) {
	logged := false
	for until := time.Now().Add(endPatience); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", address)
		if err == nil || !d.crashed || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return l, err
		}
		if !logged {
			log.Info("the address is in use, maybe by the process that has just ended, waiting for it", "address", address, "most", endPatience)
			logged = true
		}
	}
}

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

// firstStart makes the local package repository, first under another name: if the process
// ends halfway, no half of it may be taken for the repository.
func (d *Data) firstStart(ctx context.Context) error {
	dir := filepath.Join(d.packages(), localPackages)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.packages(), 0o700); err != nil {
		return err
	}
	// The data directory is locked, so that a process that ended has left this.
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
