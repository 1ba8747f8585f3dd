package hooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

const (
	defaultParallel = 8
	defaultTimeout  = 10 * time.Minute
	// grace is how long a process group has between being asked to end and being
	// killed, and how long its pipes are read after it has ended.
	grace = 2 * time.Second
	// searchPath is the PATH of programs. It isn't Jibe's own, which may lead to
	// where they may not look.
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Runner runs programs. It must not be copied once it has run one.
type Runner struct {
	// Dir is where working copies of packages are made while a program runs. It is
	// made where it is missing (its parent must be there), and belongs to this Runner
	// alone. User must be able to reach it.
	Dir string
	// User is whom programs run as where Jibe runs as root, by name or number; "" is
	// "nobody". Where Jibe doesn't, they run as Jibe does.
	User string
	// Tool is a program that all others find in their PATH by the name of jibe (for
	// its commands for scripts), as a copy that User may run; "" is none.
	Tool string
	// Parallel is how many programs run at once at most; 0 is 8.
	Parallel int
	// Log is given each line that a program writes to standard error, without secrets;
	// nil drops them. A program that writes very many isn't listened to for ever.
	Log func(in Input, program, line string)

	once  sync.Once
	slots chan struct{}
	tool  struct {
		sync.Mutex
		copied bool
	}
}

// Run waits for its turn, runs the program to its end, and returns what it wrote.
// Where it can't be started, or fails, the error is a [*FailedError], and of what it
// wrote only Output.HandOver is left. When ctx ends,
// the whole process group is killed and the context's error returned. Any other error
// is trouble of this machine's, not of the program. Nothing of the program's is left
// behind: neither processes nor files.
func (r *Runner) Run(ctx context.Context, c Call) (Output, error) {
	out, err := r.run(ctx, c)
	var failed *FailedError
	if err != nil && !errors.As(err, &failed) {
		err = fmt.Errorf("program %s: %w", c.Program, err)
	}
	return out, err
}

func (r *Runner) run(ctx context.Context, c Call) (Output, error) {
	release, err := r.slot(ctx)
	if err != nil {
		return Output{}, err
	}
	defer release()
	if c.Orphan != nil {
		if err := r.end(ctx, *c.Orphan); err != nil {
			return Output{}, fmt.Errorf("end what an interrupted run left: %w", err)
		}
	}
	who, err := r.identity()
	if err != nil {
		return Output{}, err
	}
	w, err := r.prepare(c, who)
	if err != nil {
		return Output{}, err
	}
	defer w.remove()
	input, err := json.Marshal(w.input)
	if err != nil {
		return Output{}, fmt.Errorf("write its input: %w", err)
	}
	m := newMask(c)
	stdout, stderr := newHead(), &tail{mask: m}
	if r.Log != nil || c.Said != nil {
		stderr.log = func(line string) {
			if r.Log != nil {
				r.Log(w.input, c.Program, line)
			}
			if c.Said != nil {
				c.Said(line)
			}
		}
	}
	cmd := exec.Command(w.argv[0], w.argv[1:]...)
	cmd.Dir, cmd.Env = w.copy, w.env
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, grace
	how, err := execute(ctx, cmd, task{
		who: who, dir: w.dir, input: input, started: c.Started, over: stdout.over, timeout: c.timeout(),
	})
	stderr.close(how != exited || cmd.ProcessState != nil && !cmd.ProcessState.Exited())
	fail := func(reason string) (Output, error) {
		return Output{}, &FailedError{Program: c.Program, Reason: reason, Stderr: stderr.text()}
	}
	var start *startError
	switch {
	case errors.As(err, &start):
		return Output{}, w.explain(start.err, who)
	case err != nil:
		return Output{}, err
	case how == cancelled:
		return Output{}, ctx.Err()
	case how == late:
		return fail(fmt.Sprintf("not done within %s", cmp.Or(max(c.Timeout, 0), defaultTimeout)))
	case how == loud:
		return fail(tooMuch)
	case !cmd.ProcessState.Success():
		// What it wants the next try to know is kept; all else it failed to bring about.
		out, _ := stdout.output(m)
		_, err := fail(cmd.ProcessState.String())
		if len(out.HandOver) > maxKept {
			return Output{}, err
		}
		return Output{HandOver: out.HandOver}, err
	case stdout.full:
		return fail(tooMuch)
	}
	out, reason := stdout.output(m)
	if reason != "" {
		return fail(reason)
	}
	return out, nil
}

// slot waits for a turn.
func (r *Runner) slot(ctx context.Context) (release func(), err error) {
	r.once.Do(func() { r.slots = make(chan struct{}, cmp.Or(max(r.Parallel, 0), defaultParallel)) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ending is how a program came to its end.
type ending int

const (
	exited    ending = iota // by itself
	late                    // killed: its time had passed
	cancelled               // killed: the context had ended
	loud                    // killed: it wrote too much
)

// task is what execute needs beside the command.
type task struct {
	who     *identity
	dir     string
	input   []byte
	started func(Process) error
	over    <-chan struct{} // closed when it has written too much
	timeout time.Duration
}

// startError is one of starting the process.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

// execute starts the command, gives it its input, and sees it and all its kin end.
func execute(ctx context.Context, cmd *exec.Cmd, t task) (ending, error) {
	// The kernel ties the death signal to the thread that forks, not to the process:
	// the thread must live as long as the program does.
	defer lockThread()()
	apart(cmd, t.who)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return exited, err
	}
	if err := cmd.Start(); err != nil {
		return exited, &startError{err}
	}
	pid := cmd.Process.Pid
	gone := make(chan struct{})
	go func() { defer close(gone); awaitExit(pid) }()
	// Until Wait the process keeps its number, so the group can't be another's.
	finish := func() {
		<-gone
		killGroup(pid)
		killStrays(t.dir)
		// How it ended is in ProcessState; what else Wait may say is that somebody
		// still held the pipes.
		_ = cmd.Wait()
		reap(pid)
	}
	if t.started != nil {
		p, err := identify(pid)
		p.Dir = t.dir
		if err == nil {
			err = t.started(p)
		}
		if err != nil {
			killGroup(pid)
			finish()
			return exited, fmt.Errorf("note its process: %w", err)
		}
	}
	go func() {
		// A program needn't read its input: a pipe that it closed is no error.
		_, _ = stdin.Write(t.input)
		_ = stdin.Close()
	}()
	timer := time.NewTimer(t.timeout)
	defer timer.Stop()
	how := exited
	select {
	case <-gone:
	case <-timer.C:
		how = late
	case <-ctx.Done():
		how = cancelled
	case <-t.over:
		how = loud
	}
	if how != exited {
		terminateGroup(pid)
		select {
		case <-gone:
		case <-time.After(grace):
			killGroup(pid)
		}
	}
	finish()
	return how, nil
}

// output reads what the program wrote; the reason says why it can't be used.
func (h *head) output(m *mask) (out Output, reason string) {
	text := bytes.TrimSpace(h.data)
	if len(text) == 0 {
		return Output{}, ""
	}
	var object map[string]json.RawMessage
	err := json.Unmarshal(text, &object)
	if err == nil && object == nil {
		err = errors.New("it is null")
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return Output{}, fmt.Sprintf("wrote to standard output what isn't one JSON object of the contract (%s): %q; write everything else to standard error",
			m.hide(err.Error(), false, false), m.beginning(string(text), 200))
	}
	out.Message = printable(m.beginning(out.Message, maxLine))
	return out, out.unfit(m)
}

// unfit says why Jibe can't keep what the program wants it to, "" where it can.
func (o *Output) unfit(m *mask) string {
	if len(o.HandOver) > maxKept {
		return fmt.Sprintf("wrote %d bytes of handOver, at most %d are kept", len(o.HandOver), maxKept)
	}
	for name, v := range o.VIMs {
		if why := v.unfit(); why != "" {
			return fmt.Sprintf("wrote a VIM %q that can't be reached: %s", name, why)
		}
	}
	for name, entries := range map[string]map[string]any{"metadata": o.Metadata, "extensions": o.Extensions, "params": o.Params} {
		data, err := json.Marshal(entries)
		if err != nil {
			return fmt.Sprintf("wrote %s that can't be kept: %v", name, err)
		}
		if len(data) > maxKept {
			return fmt.Sprintf("wrote %d bytes of %s, at most %d are kept", len(data), name, maxKept)
		}
		leaks := m.hide(string(data), false, false) != string(data)
		secretsIn(m.names, entries, func(value string) { leaks = leaks || !desired.IsRef(value) })
		if leaks {
			return fmt.Sprintf("wrote %s with a secret in clear, which would stand in git: leave it in handOver, which is kept encrypted for the time of the operation", name)
		}
	}
	return ""
}

// unfit says why nobody could use the VIM.
func (v *ProvidedVIM) unfit() string {
	switch {
	case v == nil:
		return ""
	case len(v.Endpoint)+len(v.CACert)+len(v.Token)+len(v.ClientCert)+len(v.ClientKey) > maxKept:
		return fmt.Sprintf("it has more than %d bytes", maxKept)
	case !strings.HasPrefix(v.Endpoint, "https://"):
		return "endpoint must be https://host:port, as what is sent there are credentials"
	case (v.ClientCert == "") != (v.ClientKey == ""):
		return "clientCert and clientKey belong together"
	case v.CACert != "" && !strings.Contains(v.CACert, "-----BEGIN CERTIFICATE-----"):
		return "caCert must be a certificate in PEM"
	case v.Token == "" && v.ClientCert == "":
		return "it needs a token, or clientCert and clientKey"
	}
	if v.ClientCert != "" {
		if _, err := tls.X509KeyPair([]byte(v.ClientCert), []byte(v.ClientKey)); err != nil {
			return "clientCert and clientKey aren't a certificate and its key" // the error may tell of them
		}
	}
	return ""
}

// interpreter is the path of a program that is on [searchPath], or "".
func interpreter(name string) string {
	for dir := range strings.SplitSeq(searchPath, ":") {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path
		}
	}
	return ""
}
