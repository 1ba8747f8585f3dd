package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// grace is how long a command has to end after it was asked to, and again after it
	// was ordered to.
	grace = 2 * time.Second
	// keptStderr is how many bytes of standard error an [ExitError] has.
	keptStderr = 4 << 10
	// openTime is for how long a session is asked for again that the host refuses, and
	// openPause is between two tries.
	openTime  = 5 * time.Second
	openPause = 50 * time.Millisecond
)

// Command is what runs on a host: without a terminal, in the login directory, by the
// user's shell.
type Command struct {
	// Cmd is a line for the shell; see [Quote].
	Cmd string
	// Stdin is what it reads; nil is nothing. Where it stops with an error, so does the
	// command. Run doesn't wait for a Read that blocks when the command ends.
	Stdin io.Reader
	// Stdout and Stderr take what it writes, while it does; nil drops it. They may be the
	// same. What they don't take isn't read: the command waits.
	Stdout, Stderr io.Writer
	// Env is added to the environment, by the shell, which must be a POSIX one. Other
	// users of the host may see it in the list of processes: give secrets to Stdin.
	Env map[string]string
}

// ExitError is returned where a command ran and failed.
type ExitError struct {
	// Status is its exit status; where a signal ended it, 128 and the signal's number.
	Status int
	// Signal is the name of the signal that ended it, "KILL", else "".
	Signal string
	// Stderr is the end of what it wrote to standard error, where Command.Stderr is nil.
	Stderr string
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("exit status %d", e.Status)
	if e.Signal != "" {
		text = "ended by signal " + e.Signal
	}
	if said := strings.TrimSpace(e.Stderr); said != "" {
		text += ": " + said
	}
	return text
}

// ErrTooLong is returned where a command wrote more than its caller takes.
var ErrTooLong = errors.New("the output is longer than allowed")

// Run runs a command to its end, and until nobody on the host holds its output any more. A
// status other than 0 is an [*ExitError]; where the connection ended first, the error
// wraps [ErrLost]. When ctx ends, the command is asked to end, then killed, its session
// is closed, and the error wraps the context's. That is what SSH can do: OpenSSH passes no
// signals to commands of root's, nor can it to those that sudo runs, which go on until they
// write something. Nothing is written to Stdout and Stderr after
// Run has returned, unless a Write of theirs blocks for longer than 2 s.
func (c *Conn) Run(ctx context.Context, cmd Command) error {
	line, err := cmd.line()
	if err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s: waiting for a free session: %w", c.host, context.Cause(ctx))
	case <-c.ended:
		return c.lost()
	}
	// A command that can't be ended may hold its session for ever, but not its turn.
	defer func() { <-c.slots }()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := newRun(cmd, stop)
	defer r.close()
	go func() {
		defer close(r.done)
		r.result = r.do(c.client, line)
	}()
	finished := false
	select {
	case <-r.done:
		finished = true
	case <-ctx.Done():
		r.kill()
	}
	why := context.Cause(ctx)
	var own *streamError
	switch {
	case errors.As(why, &own):
		return own.err
	case finished:
		return c.explain(r.result, r)
	}
	if lost := c.lost(); lost != nil {
		why = errors.Join(why, lost)
	}
	return fmt.Errorf("%s: the command was stopped: %w", c.host, why)
}

// Output runs a command and returns what it writes to standard output, at most so many
// bytes. A command that writes more is ended: the error is [ErrTooLong], beside the
// beginning. Command.Stdout must be nil.
func (c *Conn) Output(ctx context.Context, cmd Command, most int) ([]byte, error) {
	if cmd.Stdout != nil {
		return nil, errors.New("Output keeps what is written: Stdout must be nil") //nolint:revive,staticcheck // the name of the method
	}
	kept := &head{room: most}
	cmd.Stdout = kept
	err := c.Run(ctx, cmd)
	return kept.text.Bytes(), err
}

// explain returns the error of a command that has ended, nil where it succeeded.
func (c *Conn) explain(err error, r *run) error {
	if err == nil {
		return nil
	}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return &ExitError{Status: exit.ExitStatus(), Signal: signalName(exit.Signal()), Stderr: r.tail.String()}
	}
	// The session knows of the end a moment before the connection does.
	select {
	case <-c.ended:
		return c.lost()
	case <-time.After(grace):
	}
	var refused *ssh.OpenChannelError
	var missing *ssh.ExitMissingError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("%s opens no session (see MaxSessions in its sshd_config): %w", c.host, err)
	case errors.As(err, &missing):
		return fmt.Errorf("%s ended the session without telling how the command ended", c.host)
	}
	return fmt.Errorf("%s: %w", c.host, err)
}

// signalName is the name of a signal as a server has it, which may be any text.
func signalName(said string) string {
	if said == "" || plainWord.MatchString(said) {
		return said
	}
	return "unknown"
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// line returns what the shell is given.
func (cmd Command) line() (string, error) {
	if cmd.Cmd == "" {
		return "", errors.New("the command is empty")
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cmd.Env)) {
		if !variable.MatchString(name) {
			return "", fmt.Errorf("%q can't name an environment variable", name)
		}
		fmt.Fprintf(&b, "export %s=%s; ", name, Quote(cmd.Env[name]))
	}
	b.WriteString(cmd.Cmd)
	if strings.ContainsRune(b.String(), 0) {
		return "", errors.New("the command or its environment holds a zero byte")
	}
	return b.String(), nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+:,./=-]*$`)

// Quote returns a line for the shell that runs the first argument with the others, whatever
// characters they hold.
func Quote(args ...string) string {
	var words []string
	for _, a := range args {
		if !plainWord.MatchString(a) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// run is a command under way.
type run struct {
	stdin          io.Reader
	stdout, stderr *gate
	tail           *tail
	stop           context.CancelCauseFunc
	done           chan struct{}
	result         error // once it is done

	mu      sync.Mutex
	session *ssh.Session // nil until it is open
	over    bool
}

// streamError is an error of the caller's own readers and writers.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }

func newRun(cmd Command, stop context.CancelCauseFunc) *run {
	r := &run{stdin: cmd.Stdin, stdout: newGate(cmd.Stdout), tail: &tail{}, stop: stop, done: make(chan struct{})}
	switch {
	case cmd.Stderr == nil:
		r.stderr = newGate(r.tail)
	case same(cmd.Stdout, cmd.Stderr):
		r.stderr = r.stdout
	default:
		r.stderr = newGate(cmd.Stderr)
	}
	return r
}

// same says whether the two are one writer, which must not be called twice at once.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }() // types that can't be compared
	return a == b
}

// do runs the command to its end.
func (r *run) do(client *ssh.Client, line string) error {
	s, err := r.open(client)
	if err != nil {
		return err
	}
	defer s.Close()
	if !r.take(s) {
		return nil // nobody waits for it any more
	}
	stdin, err := s.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := s.StderrPipe()
	if err != nil {
		return err
	}
	if s.Start(line) != nil {
		// The library's error holds the command.
		return errors.New("it doesn't run the command: the account may be allowed a certain one alone")
	}
	go r.feed(stdin)
	var copies sync.WaitGroup
	copies.Go(func() { r.copy(r.stdout, stdout) })
	copies.Go(func() { r.copy(r.stderr, stderr) })
	err = s.Wait()
	copies.Wait()
	return err
}

// open opens a session. The host counts sessions that have just ended for a moment longer than
// we do, so one that it refuses is asked for again; nothing of it has begun there.
func (r *run) open(client *ssh.Client) (*ssh.Session, error) {
	for until := time.Now().Add(openTime); ; time.Sleep(openPause) {
		s, err := client.NewSession()
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) || refused.Reason != ssh.ConnectionFailed || time.Now().After(until) || !r.take(nil) {
			return s, err
		}
	}
}

// take notes the session, and says whether the command is still wanted.
func (r *run) take(s *ssh.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = s
	return !r.over
}

// feed gives the command what it reads. One that ends, or closes its input, before it has
// read all is no error; input that is cut short must not look like its end.
func (r *run) feed(to io.WriteCloser) {
	if r.stdin != nil {
		from := &source{Reader: r.stdin}
		_, _ = io.Copy(to, from)
		if from.err != nil {
			r.stop(&streamError{fmt.Errorf("read standard input: %w", from.err)})
			return
		}
	}
	_ = to.Close()
}

// source keeps the error of a reader.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (r *run) copy(to *gate, from io.Reader) {
	_, err := io.Copy(to, from)
	if err != nil {
		r.stop(&streamError{err})
		// Else the command would wait for its output to be taken.
		_, _ = io.Copy(io.Discard, from)
	}
}

// kill ends the command as far as the host lets it.
func (r *run) kill() {
	r.mu.Lock()
	s := r.session
	r.over = true
	r.mu.Unlock()
	for _, send := range []func(){
		func() { _ = s.Signal(ssh.SIGTERM) },
		func() { _ = s.Signal(ssh.SIGKILL); _ = s.Close() },
	} {
		if s != nil {
			go send() // on a dead line, it wouldn't return
		}
		select {
		case <-r.done:
			return
		case <-time.After(grace):
		}
	}
}

func (r *run) close() {
	r.stdout.close()
	r.stderr.close()
}

// gate passes what is written on to a writer until it is closed; then it drops all.
type gate struct {
	to     io.Writer
	turn   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newGate(to io.Writer) *gate {
	if to == nil {
		to = io.Discard
	}
	return &gate{to: to, turn: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (g *gate) Write(p []byte) (int, error) {
	g.turn <- struct{}{}
	defer func() { <-g.turn }()
	select {
	case <-g.closed:
		return len(p), nil
	default:
		return g.to.Write(p)
	}
}

// close waits for a Write that is under way, but not for ever.
func (g *gate) close() {
	g.once.Do(func() {
		close(g.closed)
		select {
		case g.turn <- struct{}{}:
			<-g.turn
		case <-time.After(grace):
		}
	})
}

// head keeps the first bytes, and refuses more.
type head struct {
	text bytes.Buffer
	room int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.room-h.text.Len())
	if n < 0 {
		n = 0
	}
	h.text.Write(p[:n])
	if n < len(p) {
		return n, fmt.Errorf("%w: %d bytes", ErrTooLong, h.room)
	}
	return n, nil
}

// tail keeps the last bytes.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if more := len(t.text) - keptStderr; more > 0 {
		t.text = append(t.text[:0], t.text[more:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.text), "") }
