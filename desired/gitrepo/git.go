package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// zeroHash is how git writes "no object".
const zeroHash = "0000000000000000000000000000000000000000"

// gitCLI runs git on one repository.
type gitCLI struct {
	dir string
	// inherit keeps the GIT_* variables of the process: a hook needs them to see
	// the objects in quarantine.
	inherit bool
}

// environ is the environment of every git child: no prompt, no user
// configuration that could change what Jibe writes, and English messages.
func (g gitCLI) environ() []string {
	var env []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "GIT_") && !g.inherit {
			// Those that say how to reach a remote stay; those that say where the
			// repository is would point git somewhere else.
			switch name, _, _ := strings.Cut(kv, "="); name {
			case "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_PROXY_COMMAND",
				"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH":
			default:
				continue
			}
		}
		if strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG") {
			continue
		}
		env = append(env, kv)
	}
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
}

func (g gitCLI) command(ctx context.Context, args ...string) *exec.Cmd {
	if !g.inherit {
		args = append([]string{"--git-dir=" + g.dir}, args...)
	}
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = g.environ()
	cmd.WaitDelay = 5 * time.Second // a killed git may leave an ssh that holds the pipe
	if g.dir != "" && !g.inherit {
		if st, err := os.Stat(g.dir); err == nil && st.IsDir() {
			cmd.Dir = g.dir
		}
	}
	return cmd
}

// gitError is a git command that ended with an error.
type gitError struct {
	Command string
	Code    int
	Stderr  string
	err     error
}

func (e *gitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("git %s: %v", e.Command, e.err)
	}
	return fmt.Sprintf("git %s: %s", e.Command, e.Stderr)
}

func (e *gitError) Unwrap() error { return e.err }

// run returns the standard output of a git command. A command that fails is a
// *gitError.
func (g gitCLI) run(ctx context.Context, args ...string) (string, error) {
	return g.runInput(ctx, nil, args...)
}

func (g gitCLI) runInput(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := g.command(ctx, args...)
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		ge := &gitError{Command: args[0], Code: -1, Stderr: redactURLs(strings.TrimSpace(errb.String())), err: err}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			ge.Code = exit.ExitCode()
		}
		return out.String(), ge
	}
	return out.String(), nil
}

// redactURLs hides the user and password of URLs that git quotes in messages.
func redactURLs(s string) string {
	for rest := 0; ; {
		i := strings.Index(s[rest:], "://")
		if i < 0 {
			return s
		}
		start := rest + i + len("://")
		end := start + strings.IndexFunc(s[start:]+" ", func(r rune) bool { return strings.ContainsRune(" /'\"\n\t", r) })
		if at := strings.LastIndexByte(s[start:end], '@'); at >= 0 {
			s = s[:start] + "***" + s[start+at:]
			end -= at - len("***")
		}
		rest = end
	}
}

// isHash says whether s is a full SHA-1 in lower-case hexadecimal.
func isHash(s string) bool {
	if len(s) != 40 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
