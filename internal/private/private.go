// Package private tells whether a file with a secret is one for this process alone. It reads no file.
package private

import (
	"io/fs"
	"os"
	"syscall"
)

// SharedWithOthers reports whether others than this process's user can read the file, or write it. One that another
// user owns and shows to this process by its group, as Kubernetes shows a Secret, is for that group.
func SharedWithOthers(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() && int(owner.Gid) != 0 {
		return mode&0o037 != 0
	}
	return mode&0o077 != 0
}
