package packages

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// fetchTime is what a fetch may take; a big first one needs most of it.
	fetchTime = 10 * time.Minute
	// localTime is what a command on the repository itself may take.
	localTime = time.Minute
)

// git runs the git program on one bare repository.
type git struct{ dir string }

// command makes a git command whose children die with it.
func (g git) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"--git-dir=" + g.dir,
		"-c", "core.fsync=all", // a pin must not outlive its objects in a power failure
		"-c", "core.hooksPath=/dev/null",
		"-c", "gc.auto=0",
		"-c", "core.packedRefsTimeout=10000",
		"-c", "core.filesRefLockTimeout=10000",
	}, args...)...)
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// environment is what git may know of ours: how to reach and trust a remote, and
// nothing that moves the repository or asks a person.
func environment() []string {
	keep := []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "all_proxy",
		"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}
	env := []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=https:ssh:git:file"}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(keep, name) {
			env = append(env, kv)
		}
	}
	if os.Getenv("GIT_SSH_COMMAND") == "" && os.Getenv("GIT_SSH") == "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=15")
	}
	return env
}

// run returns what git prints. The error holds the end of what it says is wrong,
// without credentials.
func (g git) run(ctx context.Context, timeout time.Duration, stdin string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := g.command(ctx, args...)
	var out bytes.Buffer
	said := &tail{}
	cmd.Stdout, cmd.Stderr = &out, said
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("git %s: %w%s", verb(args), err, said)
	}
	return out.Bytes(), nil
}

// verb is git's subcommand among its arguments.
func verb(args []string) string {
	for len(args) > 2 && args[0] == "-c" {
		args = args[2:]
	}
	return args[0]
}

// tail keeps the last 2 kB that are written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - 2048; over > 0 {
		t.b = slices.Delete(t.b, 0, over)
	}
	return len(p), nil
}

var userInfo = regexp.MustCompile(`://[^/\s@]*@`)

func (t *tail) String() string {
	s := strings.ToValidUTF8(strings.TrimSpace(string(t.b)), "?")
	if s == "" {
		return ""
	}
	return ": " + userInfo.ReplaceAllString(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }), "; "), "://")
}

// fetch brings refspec from the repository at url, and removes what upstream
// removed.
func (g git) fetch(ctx context.Context, url, refspec string) error {
	_, err := g.run(ctx, fetchTime, "",
		"-c", "fetch.fsckObjects=true",
		// Found in the histories of honest old repositories.
		"-c", "fetch.fsck.zeroPaddedFilemode=warn",
		"-c", "fetch.fsck.missingSpaceBeforeDate=warn",
		"-c", "fetch.fsck.badTimezone=warn",
		"-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30",
		"fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--refmap=", "--", url, refspec)
	return err
}

// ref is a ref and the commit that it leads to.
type ref struct{ name, commit string }

// refs returns the refs below prefix that lead to a commit.
func (g git) refs(ctx context.Context, prefix string) ([]ref, error) {
	out, err := g.run(ctx, localTime, "", "for-each-ref", "--format=%(refname) %(objecttype) %(objectname) %(*objecttype) %(*objectname)", prefix)
	if err != nil {
		return nil, err
	}
	var refs []ref
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && f[1] == "commit":
			refs = append(refs, ref{f[0], f[2]})
		case len(f) == 5 && f[1] == "tag" && f[3] == "commit":
			refs = append(refs, ref{f[0], f[4]})
		}
	}
	return refs, nil
}

// allRefs returns the names of the refs below prefix, whatever they lead to.
func (g git) allRefs(ctx context.Context, prefix string) ([]string, error) {
	out, err := g.run(ctx, localTime, "", "for-each-ref", "--format=%(refname)", prefix)
	return strings.Fields(string(out)), err
}

func (g git) deleteRefs(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var b strings.Builder
	for _, n := range names {
		b.WriteString("delete " + n + "\n")
	}
	_, err := g.run(ctx, localTime, b.String(), "update-ref", "--stdin")
	return err
}

// setRef makes name point at the object; durable when it returns.
func (g git) setRef(ctx context.Context, name, object string) error {
	_, err := g.run(ctx, localTime, "", "update-ref", "--", name, object)
	return err
}
