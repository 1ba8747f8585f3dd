package hooks

import (
	"bytes"
	"cmp"
	"context"
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
	// spare is how much longer than the program's grace its launcher has to end the run.
	spare = 3 * time.Second
	// searchPath is the PATH of hooks. It isn't Jibe's own, which may have directories
	// that hooks may not read.
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// EndsWithin bounds how long a run takes to end once it is told to, or its launcher hears nothing of
// Jibe any more.
const EndsWithin = grace + spare

// ErrSilent is returned for a run that was ended because Jibe gave no sign of life. To run it
// again is right.
var ErrSilent = errors.New("the run was ended, as Jibe itself gave no sign of life")

// Runner runs hooks. It must not be copied once it has run one.
type Runner struct {
	// Dir has the working copies of packages while hooks run. The Runner makes it where it
	// is missing (its parent must be there), and shares it with nobody. User must be able to
	// reach it.
	Dir string
	// User is whom hooks run as where Jibe runs as root: one user by name or number, or
	// "FIRST-LAST", numbers of which each run has one for itself; "" is [DefaultUsers]. Where
	// Jibe isn't root, hooks run as Jibe does.
	User string
	// Confinement says how runs are kept apart from all else.
	Confinement Confinement
	// Tool is the executable of jibe, which hooks find in their PATH (for its commands for
	// scripts) as a copy that User may run; "" is none.
	Tool string
	// Silence is after how long in which Jibe gives no sign of life, as it was stopped, the launcher ends
	// a run with [ErrSilent]; 0 is never. What isn't confined has no launcher.
	Silence time.Duration
	// Cgroups has each run in a cgroup of its own, where this process may make some. For that it moves
	// into another one itself, with all that it has started, the first time that it looks.
	Cgroups bool
	// Parallel is how many hooks run at once at most; 0 is 8.
	Parallel int
	// Log is called with each line that a hook writes to standard error, without secrets,
	// and the path of the hook's file; nil drops them. After [maxLines] lines of a run the
	// rest is dropped.
	Log func(in Input, path, line string)

	once  sync.Once
	slots chan struct{}
	tool  struct {
		sync.Mutex
		copied bool
	}
	able  ability
	users userPool
	mute  bool // for tests: runs are given no sign of life
}

// Run waits for its turn, runs the hook to its end, and returns what it wrote. Where the
// hook can't be started, or fails, the error is a [*FailedError], and of what it wrote only
// Output.HandOver is returned. When ctx ends, the whole process group is killed and the
// context's error returned. Any other error is trouble of this machine, not of the hook.
// The hook leaves neither processes nor files behind.
func (r *Runner) Run(ctx context.Context, c Call) (Output, error) {
	out, err := r.run(ctx, c)
	var failed *FailedError
	if err != nil && !errors.As(err, &failed) {
		err = fmt.Errorf("hook %s: %w", c.Path, err)
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
	if err := r.mayRun(ctx); err != nil {
		return Output{}, err
	}
	who, err := r.identity()
	if err != nil {
		return Output{}, err
	}
	defer r.users.giveBack(who)
	w, err := r.prepare(c, who)
	if err != nil {
		return Output{}, err
	}
	defer w.remove()
	input, err := json.Marshal(w.input)
	if err != nil {
		return Output{}, fmt.Errorf("write its input: %w", err)
	}
	redactor := newRedactor(c)
	stdout, stderr := newHead(), &tail{redactor: redactor}
	if r.Log != nil || c.Said != nil {
		stderr.log = func(line string) {
			if r.Log != nil {
				r.Log(w.input, c.Path, line)
			}
			if c.Said != nil {
				c.Said(line)
			}
		}
	}
	defer func() { _ = r.removeCgroup(w.dir) }() // the kernel may still be ending what it can't end now
	p, err := r.process(w, who, c)
	if err != nil {
		return Output{}, err
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = stdout, stderr, grace
	how, err := execute(ctx, p, task{
		dir: w.dir, input: input, started: c.Started, over: stdout.over, timeout: c.timeout(),
	})
	end := p.ended()
	if err == nil {
		err = end.err
	}
	stderr.close(how != exited || end.killed)
	fail := func(reason string) (Output, error) {
		return Output{}, &FailedError{Path: c.Path, Reason: reason, Stderr: stderr.text()}
	}
	var start *startError
	switch {
	case errors.As(err, &start):
		return Output{}, w.explain(start.err, who, r.Confinement)
	case err != nil:
		return Output{}, err
	case how == cancelled:
		return Output{}, ctx.Err()
	case how == late:
		return fail(fmt.Sprintf("not done within %s", cmp.Or(max(c.Timeout, 0), defaultTimeout)))
	case how == loud:
		return fail(tooMuch)
	case end.reason != "":
		// The hand-over is for the next try; all else the hook failed to bring about.
		out, _ := stdout.output(redactor)
		_, err := fail(end.reason)
		if len(out.HandOver) > maxKept {
			return Output{}, err
		}
		return Output{HandOver: out.HandOver}, err
	case stdout.full:
		return fail(tooMuch)
	}
	out, reason := stdout.output(redactor)
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

// ending is how a hook came to its end.
type ending int

const (
	exited    ending = iota // by itself
	late                    // killed: its time had passed
	cancelled               // killed: the context had ended
	loud                    // killed: it wrote too much
)

// task holds what execute needs beside the command.
type task struct {
	dir     string
	input   []byte
	started func(Process) error
	over    <-chan struct{} // closed when it has written too much
	timeout time.Duration
}

// startError is one of starting the process.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

// execute starts the command, gives it its input, and waits until it and all processes that
// it started have ended.
func execute(ctx context.Context, p *process, t task) (ending, error) {
	cmd := p.cmd
	// The kernel ties the death signal to the thread that forks, not to the process:
	// the thread must live as long as the process does.
	defer lockThread()()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		p.abandon()
		return exited, err
	}
	if err := p.start(); err != nil {
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
		at, err := identify(pid)
		at.Dir = t.dir
		if err == nil {
			err = t.started(at)
		}
		if err != nil {
			killGroup(pid)
			finish()
			return exited, fmt.Errorf("note its process: %w", err)
		}
	}
	if err := p.goAhead(); err != nil {
		killGroup(pid)
		finish()
		return exited, err
	}
	go func() {
		// A hook needn't read its input: a pipe that it closed is no error.
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
		case <-time.After(p.patience):
			killGroup(pid)
		}
	}
	finish()
	return how, nil
}

// output reads what the hook wrote; the reason says why it can't be used.
func (h *head) output(r *redactor) (out Output, reason string) {
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
			r.redact(err.Error(), false, false), r.beginning(string(text), 200))
	}
	out.Message = printable(r.beginning(out.Message, maxLine))
	return out, out.unfit(r)
}

// unfit says why Jibe can't keep what the hook wants to be kept, "" where it can.
func (o *Output) unfit(r *redactor) string {
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
		leaks := r.redact(string(data), false, false) != string(data)
		secretsIn(r.names, entries, func(value string) { leaks = leaks || !desired.IsRef(value) })
		if leaks {
			return fmt.Sprintf("wrote %s with a secret in clear, which would stand in git: leave it in handOver, which is kept encrypted for the time of the operation", name)
		}
	}
	return ""
}

// interpreter returns the path of an executable on [searchPath], "" where there is none.
func interpreter(name string) string {
	for dir := range strings.SplitSeq(searchPath, ":") {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path
		}
	}
	return ""
}
