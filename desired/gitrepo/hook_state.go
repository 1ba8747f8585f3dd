package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
)

// CheckGit returns an error unless git is there and new enough.
func CheckGit(ctx context.Context) error { return objects.CheckGitVersion(ctx) }

// HookState says why the hook of the bare repository at dir isn't one that asks the server with
// the socket, "" where it is.
func HookState(dir, socket string) string {
	name := filepath.Join(dir, "hooks", "pre-receive")
	text, err := os.ReadFile(name)
	info, serr := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no hook, so that pushes aren't held against the rules"
	case err != nil || serr != nil:
		return "the hook can't be read: " + errors.Join(err, serr).Error()
	case !strings.Contains(string(text), strings.TrimSpace(hookMark)):
		return "the hook is another one's"
	case info.Mode()&0o100 == 0:
		return "the hook can't be executed, so that git leaves it out"
	case !strings.Contains(string(text), " --socket "+shellQuote(socket)+" "):
		return "the hook asks another server, as after a move of the data directory"
	}
	return ""
}
