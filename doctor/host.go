package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// private are the files and folders of the data directory that nobody else may read or write.
func private() []string {
	return []string{".", datadir.StoreFile, secret.IdentityFile, "tokens.yaml", secret.DefaultDir, "audit.jsonl", "audit.head", datadir.SocketFile}
}

// dataDirectory looks at who owns the data directory, and who else gets at it.
func (t *Target) dataDirectory(context.Context) Finding {
	dir, err := os.Stat(t.Data)
	if err != nil || !dir.IsDir() {
		return found(Failed, "Name the data directory with --data.", "%s is no directory: %v", t.Data, err)
	}
	if datadir.Exists(t.path(datadir.UnfinishedFile)) {
		return found(Failed, "Run jibe restore again.", "%s holds a part of a backup only: a restore was interrupted", t.Data)
	}
	if !datadir.Exists(t.path(datadir.StoreFile)) || !datadir.Exists(t.path("desired.git")) {
		return found(Failed, "Name the data directory with --data, or start a server on it first.", "%s is no data directory of Jibe, or has lost its store or its desired repository", t.Data)
	}
	var open, foreign []string
	owner := uid(dir)
	for _, name := range private() {
		info, err := os.Stat(t.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return found(Failed, "Run the check as the user that Jibe runs as.", "%s can't be read: %v", t.path(name), err)
		}
		mask := fs.FileMode(0o077)
		if name == "." || name == secret.DefaultDir { // a volume may belong to a group of the process's own
			mask = 0o007
		}
		if info.Mode().Perm()&mask != 0 {
			open = append(open, fmt.Sprintf("%s (%04o)", t.path(name), info.Mode().Perm()))
		}
		if uid(info) != owner {
			foreign = append(foreign, t.path(name))
		}
	}
	switch {
	case len(open) > 0:
		return found(Failed, "Take the rights away: chmod -R go-rwx "+t.Data, "others get at keys, tokens or records: %s", strings.Join(open, ", "))
	case len(foreign) > 0:
		return found(Warning, fmt.Sprintf("Give all of it to one user: chown -R %d %s", owner, t.Data), "not all of it belongs to user %d, so that a server that runs as them may not write it: %s", owner, strings.Join(foreign, ", "))
	case owner != os.Geteuid():
		return ok("it belongs to user %d, and nobody else gets at it", owner)
	}
	return ok("it belongs to the user that Jibe runs as, and nobody else gets at it")
}

func uid(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// What is little room: bytes, and the share of inodes.
const (
	littleRoom, tightRoom = 1 << 30, 100 << 20
	fewInodes             = 0.05
)

// disk looks at the room on the file systems of the data directory.
func (t *Target) disk(context.Context) Finding {
	worst := ok("there is room")
	for _, name := range []string{".", "desired.git", "packages"} {
		var st syscall.Statfs_t
		if err := syscall.Statfs(t.path(name), &st); err != nil {
			return found(Failed, "See whether the volume is mounted.", "%s: %v", t.path(name), err)
		}
		switch f := room(t.path(name), st.Bavail*uint64(st.Bsize), st.Ffree, st.Files); {
		case f.State == Failed:
			return f
		case f.State == Warning || worst.State == OK:
			worst = f
		}
	}
	return worst
}

// room is what free bytes, and free inodes of so many, mean; a file system that counts no inodes has 0.
func room(path string, free, inodes, ofInodes uint64) Finding {
	switch {
	case free < tightRoom:
		return found(Failed, "Make room: changes are refused while they can't be written.", "%s has %d MiB left", path, free>>20)
	case free < littleRoom:
		return found(Warning, "Make room before it is full; a backup needs some, too.", "%s has %d MiB left", path, free>>20)
	case ofInodes > 0 && float64(inodes) < fewInodes*float64(ofInodes):
		return found(Warning, "Remove files from the file system, or give it more inodes.", "%s has %d of %d inodes left", path, inodes, ofInodes)
	}
	return ok("%d GiB and %d inodes are left", free>>30, inodes)
}

// installation reads the id that objects at VIMs bear.
func (t *Target) installation(context.Context) Finding {
	id, err := datadir.InstallationOf(t.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found(Warning, "", "there is no id yet: the first start makes one of the key")
	case err != nil:
		return found(Failed, "Put the file back that you have a copy of.", "%v", err)
	}
	return ok("%s: what Jibe makes at VIMs bears it", id)
}

// tokens reads the file of the API's callers as the server does.
func (t *Target) tokens(context.Context) Finding {
	file := datadir.TokensFile(t.Data)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return skipped("there is no %s: a start makes one unless everyone is let in", file)
	case err != nil:
		return found(Failed, "Run the check as the user that Jibe runs as.", "%v", err)
	case info.Mode().Perm()&0o077 != 0:
		return found(Failed, "chmod 600 "+file, "others can read %s (mode %04o): the server refuses it", file, info.Mode().Perm())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return found(Failed, "Run the check as the user that Jibe runs as.", "%v", err)
	}
	if _, err := auth.Parse(text); err != nil {
		return found(Failed, "Put the file right: until then the last one that was whole counts, and a start fails.", "%s: %v", file, err)
	}
	return ok("the file is whole, and its owner alone reads it")
}

// key opens the key of the secrets.
func (t *Target) key(context.Context) Finding {
	file := t.path(secret.IdentityFile)
	info, err := os.Stat(file)
	if err != nil {
		return found(Failed, "Put it back from a backup: nothing that was encrypted can be read without it.", "the key is gone: %v", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return found(Failed, "chmod 600 "+file+", then consider jibe secret rotate.", "others can read the key (mode %04o)", info.Mode().Perm())
	}
	_, err = t.Keeper()
	switch {
	case errors.Is(err, secret.ErrLocked):
		return found(Failed, "See to what keeps the key: a server that starts now couldn't read a secret (--key-kms, --key-plugin).", "%v", err)
	case err != nil:
		return found(Failed, "Put the key back from a backup.", "%v", err)
	}
	return ok("the key opens, and its owner alone reads it")
}

func (t *Target) audit(ctx context.Context) Finding {
	if t.Audit == nil {
		return skipped("the audit log isn't in the data directory")
	}
	said, err := t.Audit(ctx)
	if err != nil {
		return found(Failed, "See jibe audit verify, and who may have changed the file.", "%v", err)
	}
	return ok("%s", said)
}

func (t *Target) hooks(ctx context.Context) Finding {
	if t.Hooks == nil {
		return skipped("it isn't known here")
	}
	how, err := t.Hooks(ctx)
	switch {
	case err != nil && t.HooksAllowed:
		return found(Failed, "Use a kernel that can confine them.", "%v", err)
	case err != nil:
		return found(Warning, "Nothing, while no package needs hooks (--allow-hooks isn't given).", "%v", err)
	case t.HooksAllowed && how == "not at all":
		return found(Warning, "Take --unconfined-hooks away.", "hooks of packages have all the rights of their user")
	case t.HooksAllowed:
		return ok("hooks are confined by %s", how)
	}
	return ok("hooks aren't allowed, and would be confined by %s", how)
}

// memoryLeast is the memory below which a server can't be expected to work, bytes.
const memoryLeast = 256 << 20

// memory compares what the cgroup has with the store, which is mapped into it.
func (t *Target) memory(context.Context) Finding {
	limit, err := memlimit.FromCgroup()
	if err != nil || limit == 0 || limit > 1<<60 {
		return ok("no limit of a cgroup")
	}
	size := int64(0)
	if info, err := os.Stat(t.path(datadir.StoreFile)); err == nil {
		size = info.Size()
	}
	switch {
	case limit < memoryLeast:
		return found(Warning, "Give it 512 MiB or more.", "the cgroup has %d MiB of memory, which is little for a server", limit>>20)
	case uint64(size) > limit/2:
		return found(Warning, "Give it more memory, or keep operations for a shorter time (--keep-operations).", "the store's file has %d MiB and the cgroup %d MiB: reading it drives everything else out", size>>20, limit>>20)
	}
	return ok("the cgroup has %d MiB, the store's file %d MiB", limit>>20, size>>20)
}

// filesLeast is how many files a server should be able to have open: connections, packs, watches.
const filesLeast = 8192

func (t *Target) openFiles(context.Context) Finding {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return skipped("%v", err)
	}
	// Go raises the soft limit to the hard one when a process starts.
	if l.Max < filesLeast {
		return found(Warning, fmt.Sprintf("Raise it (LimitNOFILE= of systemd, ulimit -Hn): %d or more.", filesLeast), "the process may have %d files open: many connections would be refused", l.Max)
	}
	return ok("the process may have %d files open", l.Max)
}

// backupAge is the age of a backup from which one is asked for.
const backupAge = 8 * 24 * time.Hour

func (t *Target) backup(context.Context) Finding {
	at, err := backup.Last(t.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found(Warning, "Take one, regularly: jibe backup --data "+t.Data+" DIRECTORY", "no backup was ever taken of this data directory")
	case err != nil:
		return found(Warning, "Take a backup, which writes the file anew.", "%v", err)
	}
	if age := t.Now().Sub(at); age > backupAge {
		return found(Warning, "Take one, regularly: jibe backup --data "+t.Data+" DIRECTORY", "the last backup was taken %d days ago", int(age.Hours()/24))
	}
	return ok("the last one was taken at %s", at.Format(time.RFC3339))
}

func (t *Target) server(context.Context) Finding {
	if t.Health == nil {
		return skipped("no server runs on the data directory, or it wasn't asked")
	}
	if err := t.Health(); err != nil {
		return found(Failed, "Do what it says; the log has more.", "the server isn't ready: %v", err)
	}
	return ok("the server is ready")
}

// leftover are the files that crashes may leave in a data directory and that nobody needs.
func leftover(dir string) []string {
	var all []string
	for _, pattern := range []string{".backup-*", datadir.StoreFile + ".shrinking"} {
		names, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are constant ones
		all = append(all, names...)
	}
	slices.Sort(all)
	return all
}
