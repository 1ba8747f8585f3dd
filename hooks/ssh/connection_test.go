package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
)

func TestAHostThatStartsLaterIsWaitedFor(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	h := knownTo(t, vm)
	stop(t, vm)
	err := refused(t, h, Options{})
	says(t, err, "connection refused", "tries: 1")
	// First nobody listens, then somebody who hangs up before anything is said, then the
	// server.
	started := make(chan error, 1)
	go func() {
		started <- func() error {
			kit.Pause(t.Context(), 500*time.Millisecond)
			_, err := vm.Run(t.Context(), nil, "python3", "-c", `
import socket
s = socket.create_server(("", 22))
for _ in range(2): s.accept()[0].close()`)
			if err != nil {
				return err
			}
			return vm.Serve("/usr/sbin/sshd", "-D")
		}()
	}()
	c := dial(t, h, Options{Wait: time.Minute})
	if err := <-started; err != nil {
		t.Error(err)
	}
	if got := output(t, c, "whoami"); got != "ubuntu\n" {
		t.Errorf("it is %q", got)
	}
}

func TestAHostThatDoesNotAnswerIsGivenUp(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	h := knownTo(t, vm)
	on(t, vm, "ip", "link", "set", "eth0", "down")
	err := refused(t, h, Options{ConnectTimeout: 200 * time.Millisecond, Wait: time.Second})
	says(t, err, "can't be reached", "timeout")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in the pause after the first try
	defer cancel()
	_, err = Dial(ctx, h, Options{ConnectTimeout: 100 * time.Millisecond, Wait: time.Hour})
	mustBe(t, err, context.DeadlineExceeded)
	says(t, err, "the last try")
}

func TestAServerThatIsReachedAndSaysNothingIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	h := Host{Address: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, User: "ubuntu", Password: "very secret"}
	says(t, refused(t, h, Options{ConnectTimeout: time.Second}), "not logged in within 1s")
}

// waiting runs a command that doesn't end by itself, and returns once it runs. Its shell
// may read a line that says so.
func waiting(t *testing.T, c *Conn, cmd string) <-chan error {
	t.Helper()
	r, w := io.Pipe()
	in, input := io.Pipe()
	t.Cleanup(func() { input.Close() })
	done := make(chan error, 1)
	go func() {
		err := c.Run(soon(t), Command{Cmd: "echo running; " + cmd, Stdin: in, Stdout: w})
		w.CloseWithError(err)
		done <- err
	}()
	line := make([]byte, 8)
	if _, err := io.ReadFull(r, line); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if _, err := io.WriteString(input, "seen\n"); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestAConnectionThatTheHostEndsIsNoticedAtOnce(t *testing.T) {
	_, c := one(t, Options{})
	// The shell's parent is the server's process for this connection.
	err := <-waiting(t, c, "read -r seen; kill -9 $PPID; sleep 1000")
	mustBe(t, err, ErrLost)
	says(t, err, "ubuntu@")
	mustBe(t, c.Run(soon(t), Command{Cmd: "true"}), ErrLost)
}

func TestAConnectionThatIsCutIsNoticed(t *testing.T) {
	vm, c := one(t, Options{Silence: 2 * time.Second})
	done := waiting(t, c, "sleep 1000")
	on(t, vm, "ip", "link", "set", "eth0", "down")
	err := <-done
	mustBe(t, err, ErrLost)
	says(t, err, "nothing came from the host for 2s")
	c.Close()
}

func TestAConnectionThatIsCutWhileAFileIsSentIsNoticedAndLeavesTheTarget(t *testing.T) {
	vm, c := one(t, Options{Silence: 2 * time.Second})
	if err := c.Upload(soon(t), strings.NewReader("former"), "file", 0o644); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- c.Upload(soon(t), r, "file", 0o644) }()
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	on(t, vm, "ip", "link", "set", "eth0", "down")
	go func() {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}()
	mustBe(t, <-done, ErrLost)
	r.Close()
	// As the server notices later: it isn't told.
	on(t, vm, "pkill", "-9", "sshd")
	kit.Until(t, "the temporary file's end", func() bool { return on(t, vm, "ls", "-A", "/home/ubuntu") == "file" })
	if got := on(t, vm, "cat", "/home/ubuntu/file"); got != "former" {
		t.Errorf("the file holds %d bytes", len(got))
	}
}

func TestAnIdleConnectionIsKept(t *testing.T) {
	_, c := one(t, Options{Silence: 1200 * time.Millisecond}) // less than the command takes, and more than a busy host
	if got := output(t, c, "sleep 2; echo there"); got != "there\n" {
		t.Errorf("it said %q", got)
	}
}

func TestAConnectionThatIsClosedEndsWhatRuns(t *testing.T) {
	_, c := one(t, Options{})
	done := waiting(t, c, "sleep 1000")
	c.Close()
	says(t, <-done, "the connection was closed")
	c.Close()
	says(t, c.Run(t.Context(), Command{Cmd: "true"}), "the connection was closed")
}

func TestAHostBehindAnotherIsReachedThroughIt(t *testing.T) {
	s := newSite(t)
	jump := s.add(nil)
	vm := s.add(func(spec *netns.Spec) { spec.Users = []netns.User{{Name: "inner", Password: "another secret"}} })
	// Nobody else may come in.
	restart(t, vm, "AllowUsers *@"+jump.Addr().String())
	via := knownTo(t, jump)
	h := knownTo(t, vm)
	h.User, h.Password, h.Jump = "inner", "another secret", &via
	c := dial(t, h, Options{Wait: time.Minute})
	if got, want := output(t, c, "whoami; echo $SSH_CLIENT"), "inner\n"+jump.Addr().String(); !strings.HasPrefix(got, want) {
		t.Errorf("it is %q, want %q", got, want)
	}
	if err := c.Upload(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20)), "big", 0o600); err != nil {
		t.Error(err)
	}

	t.Run("the jump host's own trouble is told as its", func(t *testing.T) {
		wrong := via
		wrong.Password = "guessed"
		h := h
		h.Jump = &wrong
		err := refused(t, h, Options{Wait: time.Hour})
		says(t, err, "jump host: ubuntu@"+jump.At(22), "refuses the login")
		stranger := via
		stranger.KnownHosts = ""
		h.Jump = &stranger
		var problem *HostKeyError
		if err := refused(t, h, Options{Wait: time.Hour}); !errors.As(err, &problem) || problem.Host != jump.At(22) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("the inner host is waited for too", func(t *testing.T) {
		h := h
		h.Port = 2222
		const wait = 1500 * time.Millisecond
		began := time.Now()
		err := refused(t, h, Options{Wait: wait})
		says(t, err, "Connection refused", "from the jump host", "tries: ")
		// How often depends on how busy the machine is: one try may take all the time.
		if took := time.Since(began); took < wait {
			t.Errorf("it was given up after %s: %v", took, err)
		}
	})
	t.Run("the inner host's key is asked about by its name", func(t *testing.T) {
		h := h
		h.KnownHosts = ""
		asked := ""
		dial(t, h, Options{Accept: func(hostport string, _ ssh.PublicKey) error { asked += hostport; return nil }})
		if asked != vm.At(22) {
			t.Errorf("asked about %s", asked)
		}
	})
	t.Run("a jump host that is gone is noticed", func(t *testing.T) {
		done := waiting(t, dial(t, h, Options{Silence: 2 * time.Second}), "sleep 1000")
		jump.Remove()
		mustBe(t, <-done, ErrLost)
	})
}
