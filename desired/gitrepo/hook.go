package gitrepo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// RefUpdate is one line of what a push asks for.
type RefUpdate struct {
	Ref string `json:"ref"`
	// Old and New are commits; "" means that the ref doesn't exist before, or is
	// to be deleted.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// maxUpdates bounds the refs of one push.
const maxUpdates = 10_000

// ReadPush reads what git gives a pre-receive hook on its standard input:
// lines of "<old> <new> <ref>".
func ReadPush(r io.Reader) ([]RefUpdate, error) {
	var out []RefUpdate
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		f := strings.SplitN(sc.Text(), " ", 3)
		if len(f) != 3 || !git.IsHash(f[0]) || !git.IsHash(f[1]) || !strings.HasPrefix(f[2], "refs/") {
			return nil, fmt.Errorf("read push: %q isn't \"<old> <new> <ref>\"", clip(sc.Text()))
		}
		if len(out) == maxUpdates {
			return nil, fmt.Errorf("read push: more than %d refs", maxUpdates)
		}
		u := RefUpdate{Old: f[0], New: f[1], Ref: f[2]}
		if u.Old == git.ZeroHash {
			u.Old = ""
		}
		if u.New == git.ZeroHash {
			u.New = ""
		}
		out = append(out, u)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read push: %w", err)
	}
	return out, nil
}

// OpenQuarantine opens the repository of the hook that this process runs in, as
// git's environment names it. It sees the pushed objects, which are in
// quarantine: no other process does. branch "" is main.
func OpenQuarantine(ctx context.Context, branch string) (*Reader, error) {
	if branch == "" {
		branch = "main"
	}
	runner := git.Runner{Quarantine: true}
	dir, err := runner.Run(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, fmt.Errorf("open the pushed objects: %w (this runs as a git hook)", err)
	}
	runner.Dir = strings.TrimSpace(dir)
	return newReader(runner, branch, 16<<20), nil
}

// Overtaken says whether the ref has moved since the pusher learned where it stands. Git will
// refuse the update then, whatever a hook says. A hook that compares it with the present ref
// may find changes that nobody has pushed.
func (r *Reader) Overtaken(u RefUpdate) (bool, error) {
	now, err := git.ReadRef(r.git.Dir, u.Ref)
	return err == nil && now != u.Old, err
}

// PushOptions returns the options of the push ("git push -o terminate=12") that
// git gives a hook in its environment.
func PushOptions() []string {
	n, err := strconv.Atoi(os.Getenv("GIT_PUSH_OPTION_COUNT"))
	if err != nil {
		return nil
	}
	out := make([]string, 0, min(max(n, 0), 100))
	for i := range min(n, 100) {
		out = append(out, os.Getenv(fmt.Sprintf("GIT_PUSH_OPTION_%d", i)))
	}
	return out
}

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
		h.keys = r.opt.Verify.file
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
		return script + "# It lands what is pushed to " + landingRefs + ".\nexec " + command + "\n"
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
