package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestACommandIsGivenItsInputAndItsOutputStreams(t *testing.T) {
	_, c := one(t, Options{})
	in, input := io.Pipe()
	output, out := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- c.Run(t.Context(), Command{Cmd: `while read -r x; do echo "$GREETING $x"; done; echo over >&2`, Stdin: in, Stdout: out, Stderr: &stderr,
			Env: map[string]string{"GREETING": "it's $HOME"}})
	}()
	for _, line := range []string{"one", "two"} {
		fmt.Fprintln(input, line)
		want := "it's $HOME " + line + "\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(output, got); err != nil || string(got) != want {
			t.Errorf("it said %q, %v; want %q", got, err, want)
		}
	}
	input.Close()
	if err := <-done; err != nil || stderr.String() != "over\n" {
		t.Errorf("it ended with %v, and said %q", err, stderr.String())
	}
}

func TestHowACommandEndsIsTold(t *testing.T) {
	_, c := one(t, Options{})
	for cmd, want := range map[string]ExitError{
		"exit 3":                      {Status: 3},
		"echo not so >&2; exit 255":   {Status: 255, Stderr: "not so\n"},
		"kill -KILL $$":               {Status: 137, Signal: "KILL"},
		"kill -TERM $$":               {Status: 143, Signal: "TERM"},
		"no-such-program 2>/dev/null": {Status: 127},
	} {
		err := c.Run(t.Context(), Command{Cmd: cmd})
		var got *ExitError
		if !errors.As(err, &got) || *got != want {
			t.Errorf("%s: %#v, want %#v", cmd, err, want)
		}
	}
	if err := c.Run(t.Context(), Command{Cmd: "head -c 1; true", Stdin: strings.NewReader(strings.Repeat("x", 1<<20))}); err != nil {
		t.Errorf("a command that doesn't read all of its input: %v", err)
	}
	err := c.Run(t.Context(), Command{Cmd: "yes | head -c 100000 >&2; exit 1"})
	var exit *ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) != keptStderr {
		t.Errorf("of much on standard error, the end isn't told: %v", err)
	}
}

func TestNoCommandHasATerminalOrWaitsForInput(t *testing.T) {
	_, c := one(t, Options{})
	for cmd, want := range map[string]string{
		"stty size":           "Inappropriate ioctl",
		"read -r x </dev/tty": "No such device",
		"python3 -c 'import getpass, os; os.open(\"/dev/tty\", 2)'": "No such device",
	} {
		says(t, c.Run(soon(t), Command{Cmd: cmd}), want)
	}
	if got := output(t, c, "cat; tty; true"); got != "not a tty\n" {
		t.Errorf("it said %q", got)
	}
}

func TestACommandThatHangsIsEndedWithItsChildren(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	for _, test := range []struct{ user, password, cmd string }{
		{"ubuntu", "very secret", "sleep 1000 & sleep 1000; true"},
		{"ubuntu", "very secret", "trap '' TERM; sleep 1000; sleep 1000"},
		// It is passed no signal, and ends by what it writes.
		{"root", "toor", "while :; do echo on; sleep 1; : sleep 1000; done"},
	} {
		h := knownTo(t, vm)
		h.User, h.Password = test.user, test.password
		c := dial(t, h, Options{Sessions: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, Command{Cmd: test.cmd}) }()
		kit.Until(t, "its start", func() bool { return running(t, vm, "sleep 1000") > 0 })
		cancel()
		err := <-done
		mustBe(t, err, context.Canceled)
		if strings.Contains(err.Error(), "sleep") {
			t.Errorf("the error shows the command, which may hold secrets: %v", err)
		}
		kit.Until(t, "its end, of "+test.user+": "+test.cmd, func() bool { return running(t, vm, "sleep 1000") == 0 })
		if got := output(t, c, "echo still there"); got != "still there\n" {
			t.Errorf("the connection says %q", got)
		}
	}
}

func TestACommandThatPrintsWithoutEndNeedsNoMemoryAndIsEnded(t *testing.T) {
	vm, c := one(t, Options{})
	out, err := c.Output(soon(t), Command{Cmd: "yes"}, 10_001)
	mustBe(t, err, ErrTooLong)
	if want := strings.Repeat("y\n", 5001)[:10_001]; string(out) != want {
		t.Errorf("it kept %d bytes", len(out))
	}
	kit.Until(t, "its end", func() bool { return running(t, vm, "yes ") == 0 })
	if out, err := c.Output(soon(t), Command{Cmd: "printf 1234"}, 4); err != nil || string(out) != "1234" {
		t.Errorf("just as much as allowed: %q, %v", out, err)
	}

	// One who reads nothing for a while isn't sent more than he takes.
	held := make(chan struct{})
	w := &slow{held: held, wrote: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, Command{Cmd: "cat /dev/zero", Stdout: w}) }()
	<-w.wrote
	kit.Pause(t.Context(), 300*time.Millisecond) // for it to send as much as it may
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapInuse > 64<<20 {
		t.Errorf("%d MiB are kept", m.HeapInuse>>20)
	}
	cancel()
	mustBe(t, <-done, context.Canceled)
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	close(held)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late {
		t.Error("it was written to after Run had returned")
	}
}

// slow blocks in its first Write.
type slow struct {
	held, wrote chan struct{}
	once        sync.Once
	mu          sync.Mutex
	ended, late bool
}

func (w *slow) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.late = w.late || w.ended
	w.mu.Unlock()
	w.once.Do(func() { close(w.wrote) })
	<-w.held
	return len(p), nil
}

func TestInputThatCanNotBeReadToItsEndEndsTheCommand(t *testing.T) {
	vm, c := one(t, Options{})
	broken := errors.New("the disk is broken")
	err := c.Run(soon(t), Command{Cmd: "cat >/tmp/all && touch /tmp/done", Stdin: io.MultiReader(strings.NewReader("begin"), failing{broken})})
	mustBe(t, err, broken)
	if got := on(t, vm, "ls", "/tmp"); strings.Contains(got, "done") {
		t.Error("half of the input was taken for all of it")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOneConnectionRunsManyCommandsAtOnce(t *testing.T) {
	_, c := one(t, Options{})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			want := strings.Repeat(fmt.Sprint(i), 1000) + "\n"
			var out bytes.Buffer
			if err := c.Run(soon(t), Command{Cmd: "cat; echo; sleep 0.1", Stdin: strings.NewReader(strings.TrimSpace(want)), Stdout: &out, Stderr: &out}); err != nil || out.String() != want {
				t.Errorf("number %d: %d bytes, %v", i, out.Len(), err)
			}
		})
	}
	all.Wait()
}

func TestAHostThatAllowsFewSessionsIsAskedAgain(t *testing.T) {
	s := newSite(t)
	vm, none := s.add(nil), s.add(nil)
	restart(t, vm, "MaxSessions 1")
	c := dial(t, knownTo(t, vm), Options{Sessions: 2})
	for range 20 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := c.Run(soon(t), Command{Cmd: "true"}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	restart(t, none, "MaxSessions 0")
	says(t, dial(t, knownTo(t, none), Options{}).Run(soon(t), Command{Cmd: "true"}), "MaxSessions")
}

func TestACommandThatWaitsForItsTurnEndsWithItsContext(t *testing.T) {
	_, c := one(t, Options{Sessions: 1})
	_ = waiting(t, c, "sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := c.Run(ctx, Command{Cmd: "true"})
	mustBe(t, err, context.DeadlineExceeded)
	says(t, err, "free session")
}

func TestCommandsThatCanNotBeOneAreRefused(t *testing.T) {
	c := &Conn{}
	for _, cmd := range []Command{{}, {Cmd: "a\x00b"}, {Cmd: "true", Env: map[string]string{"A B": ""}}, {Cmd: "true", Env: map[string]string{"A": "\x00"}}} {
		if err := c.Run(t.Context(), cmd); err == nil {
			t.Errorf("%q was taken", cmd.Cmd)
		}
	}
}

func FuzzWhatIsQuotedReachesTheProgramAsItIs(f *testing.F) {
	for _, s := range []string{"", "plain", "it's", `"two" words`, "$HOME `id` \\", "a\nb", "*", "~", "-n", "=ls", "A=1", "!!", "ö"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			t.Skip()
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", Quote("printf", "%s|%s", s, s)).Output()
		if err != nil || string(out) != s+"|"+s {
			t.Errorf("%q came as %q, %v", s, out, err)
		}
	})
}
