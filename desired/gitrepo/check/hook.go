package check

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
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

// MaxUpdates bounds the refs of one push.
const MaxUpdates = 10_000

// ReadPush reads what git gives a pre-receive hook on its standard input:
// lines of "<old> <new> <ref>".
func ReadPush(r io.Reader) ([]RefUpdate, error) {
	var out []RefUpdate
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		f := strings.SplitN(sc.Text(), " ", 3)
		if len(f) != 3 || !git.IsHash(f[0]) || !git.IsHash(f[1]) || !strings.HasPrefix(f[2], "refs/") {
			return nil, fmt.Errorf("read push: %q isn't \"<old> <new> <ref>\"", message.Clip(sc.Text()))
		}
		if len(out) == MaxUpdates {
			return nil, fmt.Errorf("read push: more than %d refs", MaxUpdates)
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
func OpenQuarantine(ctx context.Context, branch string) (*Checker, error) {
	if branch == "" {
		branch = "main"
	}
	runner := git.Runner{Quarantine: true}
	dir, err := runner.Run(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, fmt.Errorf("open the pushed objects: %w (this runs as a git hook)", err)
	}
	runner.Dir = strings.TrimSpace(dir)
	return New(read.New(runner, branch, 16<<20)), nil
}

// Overtaken says whether the ref has moved since the pusher learned where it stands. Git will
// refuse the update then, whatever a hook says. A hook that compares it with the present ref
// may find changes that nobody has pushed.
func (r *Checker) Overtaken(u RefUpdate) (bool, error) {
	now, err := git.ReadRef(r.Git.Dir, u.Ref)
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

// EnvPush is the environment variable by which the hook learns which push it runs for. The
// caller of the server never sets it.
const EnvPush = "JIBE_PUSH"
