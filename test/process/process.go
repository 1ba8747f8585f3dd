// Package process lets a test work with Jibe as people do: the built binary as a
// process of its own, a data directory, HTTP requests and git clones. It owns building,
// starting, killing and talking to that process; it never looks inside it, and it
// decides nothing about what a test proves.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// startWait bounds the wait for a process to serve, and for one to end.
const startWait = 3 * time.Minute

// Root is the project's folder.
func Root() string { return testenv.Root() }

// Binary builds the jibe binary of this source tree and returns its path. It is kept
// in the tree's .cache, so that a binary that is up to date isn't linked again, not even
// for another package's tests. flags are more flags of "go build", as -race.
func Binary(t testing.TB, flags ...string) string {
	t.Helper()
	binary := filepath.Join(Root(), ".cache", "test", "jibe"+strings.Join(flags, ""))

	built, _ := builds.LoadOrStore(binary, sync.OnceValue(func() error { return refresh(binary, flags) }))
	if err := built.(func() error)(); err != nil {
		t.Fatal(err)
	}

	return binary
}

// builds holds the build of each binary: a test process looks once whether it is up to date.
var builds sync.Map

// refresh builds this tree's binary unless nothing has changed since it was built. "go build" takes two
// seconds of CPU time to find that out, the times of the tree's files a fiftieth.
func refresh(binary string, flags []string) error {
	stamp, version := binary+".built", runtime.Version()+" "+os.Getenv("GOFLAGS")
	fresh := func() bool {
		text, err := os.ReadFile(stamp)
		return err == nil && string(text) == version && unchanged(binary, stamp)
	}
	if fresh() {
		return nil
	}

	return alone(func() error {
		if fresh() { // another package's tests have built it meanwhile
			return nil
		}

		begun := time.Now() // what changes while it is built is newer than the stamp
		if err := build(context.Background(), Root(), binary, flags...); err != nil {
			return err
		}

		next := stamp + ".next"
		return errors.Join(os.WriteFile(next, []byte(version), 0o644), os.Chtimes(next, begun, begun), os.Rename(next, stamp))
	})
}

// unchanged reports whether there is the binary, and no file or folder of which it may be made is newer
// than the stamp.
func unchanged(binary, stamp string) bool {
	if _, err := os.Stat(binary); err != nil {
		return false
	}
	built, err := os.Stat(stamp)
	if err != nil {
		return false
	}

	errNewer := errors.New("newer")
	err = filepath.WalkDir(Root(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == Root() { // builds and walks make their folders there
			return nil
		}
		if name := d.Name(); d.IsDir() && (strings.HasPrefix(name, ".") || path == filepath.Join(Root(), "test") || name == "demo-data" || name == "bin") {
			return fs.SkipDir
		}
		if info, err := d.Info(); err != nil || !info.ModTime().Before(built.ModTime()) {
			return errNewer
		}
		return nil
	})
	return err == nil
}

// Build builds the jibe of a source tree as binary, which isn't linked again where it is up to date.
func Build(ctx context.Context, tree, binary string, flags ...string) error {
	return alone(func() error { return build(ctx, tree, binary, flags...) })
}

// alone runs f while no other process runs one. Packages are tested side by side: the first one builds,
// the others find it built.
func alone(f func() error) error {
	dir := filepath.Join(Root(), ".cache", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}

	return f()
}

func build(ctx context.Context, tree, binary string, flags ...string) error {
	// What debuggers read is half of the linker's work.
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/jibe")...)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the jibe of %s: %w\n%s", tree, err, out)
	}

	return nil
}

// Server is a running "jibe serve". Its methods may be called from any goroutine.
type Server struct {
	// URL is where its API is; Data its data directory; Token lets in as an admin.
	URL, Data, Token string
	// HTTP makes the requests; nil is http.DefaultClient.
	HTTP *http.Client

	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read after done

	first chan string // the first line that it printed, "" where it ended without
}

// Start starts "jibe serve" on a data directory and a free port of the loopback address,
// with more flags in args, and returns when it serves. The process is killed when the
// test ends, and the end of its log is shown if the test failed.
func Start(t testing.TB, data string, args ...string) *Server {
	t.Helper()
	s, err := StartBinary(Binary(t), data, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.KillGroup() // a git that it had started would still write where folders are removed
		if t.Failed() {
			t.Logf("the end of the log of process %d:\n%s", s.Pid(), s.Log())
		}
	})
	return s
}

// StartBinary is [Start] for a test that restarts the process often, or from another
// goroutine: the caller ends the process and asks for its log.
func StartBinary(binary, data string, args ...string) (*Server, error) {
	s, err := Spawn(binary, data, args...)
	if err != nil {
		return nil, err
	}
	return s.whenReady()
}

// StartLogged is [StartBinary] with a log that stays: it is appended to a file. environment is what
// the process gets beside [Environment].
func StartLogged(binary, data, log string, environment []string, args ...string) (*Server, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	s, err := spawn(binary, data, file, environment, args)
	if err != nil {
		return nil, err
	}
	return s.whenReady()
}

func (s *Server) whenReady() (*Server, error) {
	if err := s.Ready(); err != nil {
		s.Kill()
		return nil, fmt.Errorf("%w; its log:\n%s", err, s.Log())
	}
	return s, nil
}

// Spawn starts the process and doesn't wait: only Pid, Kill, KillGroup, Exited, Log and
// Ready may be called before Ready has returned nil.
func Spawn(binary, data string, args ...string) (*Server, error) {
	// A file, as people have it: git processes that outlive a killed server write to it
	// without harm, and nobody waits for them.
	log, err := os.CreateTemp("", "jibe-log-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(log.Name()); err != nil { // its content stays while it is open
		return nil, errors.Join(err, log.Close())
	}
	return spawn(binary, data, log, nil, args)
}

func spawn(binary, data string, log *os.File, environment, args []string) (*Server, error) {
	cmd := exec.Command(binary, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.0/8,::1"}, args...)...)
	// A group of its own, so that KillGroup reaches the git processes below it. The kernel kills it if the test is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(Environment(), environment...)
	cmd.Stderr = log
	// Not StdoutPipe, which Wait closes: the first line may be read after the end.
	stdout, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	s := &Server{Data: data, cmd: cmd, log: log, done: make(chan struct{}), first: make(chan string, 1)}
	started := make(chan error, 1)
	go func() {
		// The death signal is tied to the thread, which lasts as long as the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			s.err = cmd.Wait()
			close(s.done)
		}
	}()
	if err := errors.Join(<-started, w.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", binary, err), stdout.Close())
	}
	go func() {
		defer stdout.Close()
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadString('\n')
		s.first <- line
		_, _ = io.Copy(io.Discard, lines) // what follows is for people
	}()
	return s, nil
}

// Ready waits until the process serves, and fills in URL and Token. It is called once.
func (s *Server) Ready() error {
	select {
	case line := <-s.first:
		_, url, ok := strings.Cut(strings.TrimSpace(line), " serves ")
		if !ok {
			return fmt.Errorf("jibe serve did not start, it says %q", line)
		}
		s.URL = url
	case <-time.After(startWait):
		return fmt.Errorf("jibe serve did not start in %s", startWait)
	}
	token, err := auth.LocalToken(datadir.TokensFile(s.Data))
	if slices.Contains(s.cmd.Args, "--insecure-dev") && errors.Is(err, fs.ErrNotExist) {
		err = nil // nobody needs one
	}
	if err != nil {
		return fmt.Errorf("token of %s: %w", s.Data, err)
	}
	s.Token = token
	return nil
}

// Environment is what processes that a test starts get: this one's, without what a
// person's git configuration would change.
func Environment() []string {
	return append(os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.org",
		"GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.org")
}

// Pid is the process's id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Exited is closed when the process has ended, however it did.
func (s *Server) Exited() <-chan struct{} { return s.done }

// Kill ends the process as kill -9 does, and returns when it is gone. The git
// processes that it had started go on, as they would. Killing twice is the same as once.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.done
}

// KillGroup is Kill for the process and everything that it started, as when a machine
// or container dies.
func (s *Server) KillGroup() {
	_ = syscall.Kill(-s.Pid(), syscall.SIGKILL) // it may have ended already
	<-s.done
}

// Stop asks the process to end in order (SIGTERM), and returns an error unless it does
// with exit code 0.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", s.Pid(), err)
	}
	select {
	case <-s.done:
	case <-time.After(startWait):
		s.Kill()
		return fmt.Errorf("process %d did not stop in %s; its log:\n%s", s.Pid(), startWait, s.Log())
	}
	if s.err != nil {
		return fmt.Errorf("process %d: %w; its log:\n%s", s.Pid(), s.err, s.Log())
	}
	return nil
}

// logEnd is how much of a log a failed test shows, bytes.
const logEnd = 16 << 10

// Log is the end of what the process has logged.
func (s *Server) Log() string {
	info, err := s.log.Stat()
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.NewSectionReader(s.log, max(0, info.Size()-logEnd), logEnd))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
