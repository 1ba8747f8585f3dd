// Package redisserver runs real Redis servers for tests: each in a folder of its own, on a free
// port of the loopback address, or of another one of this machine. It owns starting, stopping and killing them, and nothing of what
// is kept there.
package redisserver

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

const (
	program  = "redis-server"
	loopback = "127.0.0.1"
)

// patience bounds the wait for a server to answer, or to end.
const patience = 2 * time.Minute

// Server is a Redis server, or a sentinel. Its methods may be called from one goroutine at a time.
type Server struct {
	// Dir is where its files are; Address is HOST:PORT.
	Dir, Address string

	args     []string
	sentinel string // its configuration, where it is a sentinel
	cmd      *exec.Cmd
	ended    chan struct{} // closed once its process has
	log      bytes.Buffer
}

// Start starts a server whose writes are on the disk when they are answered. args are more of
// its configuration, as "--requirepass x". It ends with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartAt(t, loopback, args...)
}

// StartAt is [Start] for a server that others reach at an address of this machine.
func StartAt(t testing.TB, host string, args ...string) *Server {
	t.Helper()
	testenv.Program(t, program, program)
	s, err := launchAt(t.Context(), host, t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Launch is [Start] for those who have no test: dir is a folder that exists, and the caller ends
// the server.
func Launch(ctx context.Context, dir string, args ...string) (*Server, error) {
	return launchAt(ctx, loopback, dir, args...)
}

func launchAt(ctx context.Context, host, dir string, args ...string) (*Server, error) {
	address, err := kit.FreeAddress(host)
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, Address: address, args: args}
	return s, s.Run(ctx)
}

// Sentinel starts a sentinel that watches the master at an address under a name, and fails over by itself.
// args are more of its configuration.
func Sentinel(t testing.TB, name, master string, args ...string) *Server {
	t.Helper()
	s, err := LaunchSentinel(t.Context(), t.TempDir(), name, master, 1, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// LaunchSentinel is [Sentinel] for one of several, of which quorum must agree that the master is
// away. dir is a folder that exists, and the caller ends the sentinel.
func LaunchSentinel(ctx context.Context, dir, name, master string, quorum int, args ...string) (*Server, error) {
	address, err := kit.FreeAddress(loopback)
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, Address: address, args: args, sentinel: filepath.Join(dir, "sentinel.conf")}
	host, port, _ := net.SplitHostPort(master)
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s %[4]d\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", name, host, port, quorum)
	if err := os.WriteFile(s.sentinel, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return s, s.Run(ctx)
}

// Start starts it again, on the files that it has, and returns when it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Run is [Server.Start] for those who have no test.
func (s *Server) Run(ctx context.Context) error {
	host, port, _ := net.SplitHostPort(s.Address)
	args := append([]string{
		"--bind", host, "--port", port, "--dir", s.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, s.args...)
	if s.sentinel != "" {
		args = append([]string{s.sentinel, "--sentinel", "--bind", host, "--port", port, "--dir", s.Dir}, s.args...)
	}
	if err := s.awaitPort(ctx); err != nil {
		return err
	}
	s.cmd = exec.Command(program, args...)
	s.log.Reset()
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	for until := time.Now().Add(patience); ; {
		err := s.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
			if time.Now().Before(until) {
				continue
			}
		}
		s.Kill()
		return fmt.Errorf("redis-server at %s doesn't answer: %w\n%s", s.Address, err, s.log.String())
	}
}

// awaitPort returns once its port is free: while it is down, a connection of anybody on this machine may be
// given it, for as long as that lasts.
func (s *Server) awaitPort(ctx context.Context) error {
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		l, err := net.Listen("tcp", s.Address)
		if err == nil {
			return l.Close()
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return fmt.Errorf("start redis-server: %w", err)
		}
	}
}

// answers asks for nothing that a password would be needed for.
func (s *Server) answers(ctx context.Context) error {
	c := redis.NewClient(&redis.Options{Addr: s.Address, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, Protocol: 2})
	defer c.Close()
	err := c.Ping(ctx).Err()
	if err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "NOPERM")) {
		return nil
	}
	return err
}

// Kill ends it as kill -9 does. What it had answered is in its files.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Client is one of the default user.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := s.Dial()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Dial is [Server.Client] for those who have no test. The caller closes it.
func (s *Server) Dial() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Address, Protocol: 2, DisableIdentity: true})
}

// Pid is the id of its process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// URL is where a store is on it; parameters as "prefix=x".
func (s *Server) URL(parameters ...string) string {
	return fmt.Sprintf("redis://%s/0?%s", s.Address, strings.Join(parameters, "&"))
}

// Keep copies its files as they are to a folder, and Restore puts them back while it is down.
func (s *Server) Keep(t testing.TB) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(to, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Restore replaces its files by those of a copy. It isn't running meanwhile.
func (s *Server) Restore(t testing.TB, from string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.Dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(s.Dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
