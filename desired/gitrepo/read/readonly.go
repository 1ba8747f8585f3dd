package read

import "github.com/jibe-vnfm/jibe/internal/git"

// readerCache bounds what a [Reader] that only looks keeps, bytes.
const readerCache = 16 << 20

// ReadOnly reads a repository that another process may have. The caller MUST close it. branch "" is main.
func ReadOnly(dir, branch string) *Reader {
	if branch == "" {
		branch = "main"
	}
	return New(git.Runner{Dir: dir}, branch, readerCache)
}
