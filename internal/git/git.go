package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ZeroHash is how git writes "no object".
const ZeroHash = "0000000000000000000000000000000000000000"

// Runner runs git on one repository, each command with the same environment and the
// same limits: no prompt, English messages, no hooks, and no variable of this process
// that would point git at another repository. The zero Runner runs git outside of any.
type Runner struct {
	// Dir is the git directory of the repository.
	Dir string
	// Clone is the root of a clone that a person works in, instead of Dir. Nothing is
	// synced to the disk there: it is a person's, and stays as it is.
	Clone string
	// Quarantine is for the process of a hook: git's own variables name the repository,
	// and the place of the pushed objects, which no other process sees. Dir is then only
	// where refs are read, and named in errors.
	Quarantine bool
	// Foreign is for fetching from repositories that others run. They may only be reached
	// by protocols that can't run a command, what they send is checked, one that stalls is
	// given up, and nothing of this process's environment reaches git but what says how to
	// reach and trust a remote. The operator's own remote isn't held to that: it may need a
	// credential helper with an environment of its own, and have an old history that git
	// would find fault with.
	Foreign bool
	// Config are settings ("core.packedRefsTimeout=10000") for every command.
	Config []string
	// Env is added to the environment ("GIT_INDEX_FILE=…").
	Env []string
}

// ownedByGit are the variables by which an operator says how git reaches a remote and
// where its configuration is. Git's others would move the repository.
var ownedByGit = []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_PROXY_COMMAND",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}

// reachesRemotes are the other variables that a foreign repository's git is given.
var reachesRemotes = []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "all_proxy"}

// Environ is the environment of every git child.
func (r Runner) Environ() []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); r.passes(name) {
			env = append(env, kv)
		}
	}
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		// Whoever may push refs/replace/… would change what every reader sees of any commit.
		"GIT_NO_REPLACE_OBJECTS=1")
	if r.Foreign {
		env = append(env, "GIT_ALLOW_PROTOCOL=https:ssh:git:file")
		if os.Getenv("GIT_SSH_COMMAND") == "" && os.Getenv("GIT_SSH") == "" {
			env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=15")
		}
	}
	return append(env, r.Env...)
}

// passes says whether git sees the variable of this process.
func (r Runner) passes(name string) bool {
	switch {
	case strings.HasPrefix(name, "LC_"), strings.HasPrefix(name, "LANG"):
		return false
	case r.Foreign:
		return slices.Contains(ownedByGit, name) && name != "GIT_PROXY_COMMAND" || slices.Contains(reachesRemotes, name)
	case strings.HasPrefix(name, "GIT_"):
		return r.Quarantine || slices.Contains(ownedByGit, name)
	}
	return true
}

// args are the arguments of a command, with those that every one has.
func (r Runner) args(args []string) []string {
	var all []string
	switch {
	case r.Clone != "":
		all = append(all, "-C", r.Clone)
	case r.Dir != "" && !r.Quarantine:
		// A ref must not outlive its objects in a power failure, whatever the repository's
		// own configuration says.
		all = append(all, "--git-dir="+r.Dir, "-c", "core.fsync=all", "-c", "gc.auto=0")
	}
	// Hooks are for pushes; what Jibe does itself was judged before.
	all = append(all, "-c", "core.hooksPath=/dev/null")
	if r.Foreign {
		all = append(all, "-c", "fetch.fsckObjects=true",
			// Found in the histories of honest old repositories.
			"-c", "fetch.fsck.zeroPaddedFilemode=warn",
			"-c", "fetch.fsck.missingSpaceBeforeDate=warn",
			"-c", "fetch.fsck.badTimezone=warn",
			"-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30")
	}
	for _, kv := range r.Config {
		all = append(all, "-c", kv)
	}
	return append(all, args...)
}

// Command makes a git command that ends with ctx, and the children of git with it.
func (r Runner) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", r.args(args)...)
	r.prepare(cmd)
	cmd.Cancel = func() error { return KillGroup(cmd) }
	cmd.WaitDelay = 5 * time.Second // what git has started may hold the pipe
	return cmd
}

// child makes a long-lived git command. It outlives the request that starts it, and
// ends when its input closes.
func (r Runner) child(args ...string) *exec.Cmd {
	cmd := exec.Command("git", r.args(args)...)
	r.prepare(cmd)
	return cmd
}

func (r Runner) prepare(cmd *exec.Cmd) {
	cmd.Env = r.Environ()
	InGroup(cmd)
	if filepath.IsAbs(r.Dir) && !r.Quarantine {
		if st, err := os.Stat(r.Dir); err == nil && st.IsDir() {
			cmd.Dir = r.Dir
		}
	}
}

// InGroup has a command run in a process group of its own, which ends with this process. That keeps the terminal's
// Ctrl-C from git: it ends after the last write. It also lets [KillGroup] reach what git has started, such as ssh.
func InGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
}

// KillGroup ends a command that was started in a group of its own, and what it has started.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// Error is a git command that ended with an error.
type Error struct {
	Command string // git's subcommand
	Code    int    // its exit code, -1 where it didn't end by itself
	Stderr  string // the end of what git said, without credentials
	err     error
}

func (e *Error) Error() string {
	said := strings.Join(strings.FieldsFunc(e.Stderr, func(r rune) bool { return r == '\n' }), "; ")
	switch {
	case said == "":
		return fmt.Sprintf("git %s: %v", e.Command, e.err)
	case e.Code < 0:
		return fmt.Sprintf("git %s: %v: %s", e.Command, e.err, said)
	}
	return fmt.Sprintf("git %s: %s", e.Command, said)
}

func (e *Error) Unwrap() error { return e.err }

// ExitCode is the exit code of git in err, -1 where err is none of a command that
// ended by itself. Commands that answer a question say no with 1.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return -1
}

// Run returns the standard output of a git command, also where it fails. A command
// that fails is an [*Error].
func (r Runner) Run(ctx context.Context, args ...string) (string, error) {
	return r.RunInput(ctx, "", args...)
}

// RunInput is [Runner.Run] with a standard input.
func (r Runner) RunInput(ctx context.Context, stdin string, args ...string) (string, error) {
	if stdin == "" {
		return r.run(ctx, nil, args)
	}
	return r.run(ctx, strings.NewReader(stdin), args)
}

// RunFile is [Runner.Run] with a file as standard input, which git reads by itself.
func (r Runner) RunFile(ctx context.Context, stdin *os.File, args ...string) (string, error) {
	return r.run(ctx, stdin, args)
}

func (r Runner) run(ctx context.Context, stdin io.Reader, args []string) (string, error) {
	cmd := r.Command(ctx, args...)
	var out bytes.Buffer
	said := &tailBuffer{}
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, said, stdin
	if err := cmd.Run(); err != nil {
		return out.String(), r.failure(ctx, args, said, err)
	}
	return out.String(), nil
}

// Lines calls fn with each line of a git command's standard output as git writes it, until fn returns false. The command
// ends then: what it would go on to find is not waited for.
func (r Runner) Lines(ctx context.Context, fn func(line string) bool, args ...string) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, said := r.Command(running, args...), &tailBuffer{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return r.failure(ctx, args, said, err)
	}

	stopped, lines := false, bufio.NewScanner(out)
	for !stopped && lines.Scan() {
		stopped = !fn(lines.Text())
	}
	if stopped || lines.Err() != nil {
		cancel()
	}
	err = cmd.Wait()
	if stopped {
		return nil
	}
	if err = cmp.Or(lines.Err(), err); err != nil {
		return r.failure(ctx, args, said, err)
	}
	return nil
}

// failure returns the error of a command that failed.
func (r Runner) failure(ctx context.Context, args []string, said *tailBuffer, err error) *Error {
	e := &Error{Command: subcommand(args), Code: -1, Stderr: said.String(), err: err}
	if ctx.Err() != nil {
		e.err = ctx.Err()
	} else if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		e.Code = exit.ExitCode()
	}
	if r.Clone != "" {
		e.Command += " in " + r.Clone
	}
	return e
}

// subcommand is git's subcommand among its arguments.
func subcommand(args []string) string {
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		if args[0] == "-c" {
			args = args[1:]
		}
		args = args[1:]
	}
	return args[0]
}

// redactURLs removes the user and password of URLs that git quotes in messages.
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

// maxSaid is how many bytes of a child's standard error are kept, from its end.
const maxSaid = 2048

// tailBuffer keeps the end of what a child says on its standard error.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - maxSaid; over > 0 {
		t.b = slices.Delete(t.b, 0, over)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return redactURLs(strings.ToValidUTF8(strings.TrimSpace(string(t.b)), "?"))
}

func (t *tailBuffer) note() string {
	if s := t.String(); s != "" {
		return ": " + s
	}
	return ""
}

// IsHash says whether s is a full SHA-1 in lower-case hexadecimal.
func IsHash(s string) bool {
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
