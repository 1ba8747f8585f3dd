package gitrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Hook is what git asks about every push to a repository:
// "<Binary> hook pre-receive --socket <Socket> --repository <Repository> --branch <Branch>".
type Hook struct {
	Binary, Socket string // absolute paths
	Repository     string // by which the server knows it
	Branch         string // the desired branch, "" where there is none
	keys           string // file of the keys of which one must have signed each commit, "" demands none
}

// hookMark stands in the hooks that Jibe has written.
const hookMark = "# Written by jibe at each start: changes are lost.\n"

// InstallHooks is [InstallHook] for the desired repository.
func (r *Repo) InstallHooks(h Hook) error {
	h.Branch = r.opt.Branch
	if r.opt.Verify != nil {
		h.keys = r.opt.Verify.File
	}
	return InstallHook(r.opt.Dir, h)
}

// InstallHook makes git ask the hook about every push to the bare repository at dir, and have it land
// what is pushed to refs/for/. It may be repeated, and costs no more than to read small files where
// the hooks are there; a running push sees the old hook or the new one, never half of one. A hook that
// somebody else has put there becomes pre-receive.local, and runs after Jibe's; proc-receive.local
// never runs, as one alone can answer.
func InstallHook(dir string, h Hook) error {
	for _, p := range []string{h.Binary, h.Socket} {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, "\n\x00") {
			return fmt.Errorf("install hooks: %q is no absolute path", p)
		}
	}
	dir = filepath.Join(dir, "hooks")
	for _, name := range []string{"pre-receive", "proc-receive"} {
		if name == "proc-receive" && h.Branch == "" {
			continue
		}
		if err := h.install(dir, name); err != nil {
			return fmt.Errorf("%w: install hooks: %w", desired.ErrUnavailable, err)
		}
	}
	return nil
}

// install writes the hook of one name.
func (h Hook) install(dir, hook string) error {
	name := filepath.Join(dir, hook)
	local := name + ".local"
	old, err := os.ReadFile(name)
	if err == nil && !strings.Contains(string(old), strings.TrimSpace(hookMark)) {
		err = os.Rename(name, local)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	script := h.script(hook, local)
	if string(old) == script {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+hook+".new")
	err = git.WriteSynced(tmp, []byte(script))
	if err == nil {
		err = os.Chmod(tmp, 0o755)
	}
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err == nil {
		err = git.SyncDir(dir)
	}
	return err
}

// script is what git runs as the hook; local is where somebody else's may be.
func (h Hook) script(hook, local string) string {
	command := shellQuote(h.Binary) + " hook " + hook + " --socket " + shellQuote(h.Socket) + " --repository " + shellQuote(h.Repository)
	if h.Branch != "" {
		command += " --branch " + shellQuote(h.Branch)
	}
	script := "#!/bin/sh\n" + hookMark
	if hook == "proc-receive" {
		return script + "# It lands what is pushed to " + check.LandingRefs + ".\nexec " + command + "\n"
	}
	if h.keys != "" {
		command += " --verify-desired " + shellQuote(h.keys)
	}
	script += "# It refuses a push that couldn't be obeyed or may not be made, with the reason.\n"
	if st, err := os.Stat(local); err == nil && st.Mode()&0o111 != 0 {
		return script + "updates=$(cat)\nprintf '%s\\n' \"$updates\" | " + command + " || exit 1\nprintf '%s\\n' \"$updates\" | exec " + shellQuote(local) + "\n"
	}
	return script + "exec " + command + "\n"
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
