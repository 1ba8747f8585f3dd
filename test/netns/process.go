package netns

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// tools are the commands that hosts and their makers need, and Debian's packages of them.
var tools = [][2]string{
	{"ip", "iproute2"}, {"nsenter", "util-linux"}, {"sshd", "openssh-server"}, {"sudo", "sudo"}, {"python3", "python3"},
}

// install sees that all commands are there.
func install(ctx context.Context) error {
	for _, t := range tools {
		if err := need(ctx, t[0], t[1]); err != nil {
			return err
		}
	}
	return nil
}

// searchPath leads to the system's commands, whatever the tests' own PATH begins with.
const searchPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// need installs Debian's package of a command where that is missing.
func need(ctx context.Context, command, debian string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(testenv.Root(), "test", "need"), command, debian)
	cmd.Env = append(os.Environ(), "PATH="+searchPath)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, bytes.TrimSpace(out))
	}
	return nil
}

// NeedParamiko installs Debian's package of the SSH client that scripts in Python use, and
// that they import wherever they run, where it is missing.
func NeedParamiko(t testing.TB) {
	t.Helper()
	if exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import paramiko").Run() == nil {
		return
	}
	// A module has no command: none of that name is ever there, so that it is installed.
	if err := need(t.Context(), "paramiko (a module of python3)", "python3-paramiko"); err != nil {
		t.Fatal(err)
	}
}

// process is the first process of namespaces: they last as long as it does, and it as
// long as this process, which holds the other end of its standard input.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *output
	once   sync.Once
}

// startProcess starts a command in new namespaces, those that flags name.
func startProcess(flags uintptr, argv ...string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), stderr: &output{}}
	p.cmd.Stderr = p.stderr
	p.cmd.Env = []string{"PATH=" + searchPath, "LANG=C.UTF-8", "HOME=/root"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Setsid: true}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s in namespaces of its own: %w", argv[0], err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process and, where it is the first one of its PID namespace, all others
// in there.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
	})
}

// ip runs lines of ip(8) in the network namespace of the process; nil is this machine's.
func ip(ctx context.Context, in *process, lines ...string) error {
	argv := []string{"ip", "-batch", "-"}
	if in != nil {
		argv = append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", in.pid())}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + searchPath}
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(lines, "; "), err, bytes.TrimSpace(out))
	}
	return nil
}

// output keeps what processes write, which may be read while they do.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(o.text.String())
}
