package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/hooks/confine"
)

// probePatience bounds the question what the system can do.
const probePatience = 30 * time.Second

// process is the program of a run: the hook itself, or its launcher.
type process struct {
	cmd *exec.Cmd
	// patience is how long it has between being asked to end and being killed.
	patience time.Duration

	spec *confine.Spec // nil where it isn't confined
	mute bool          // for tests: Jibe gives no sign of life, as if it were stopped
	// life tells the launcher what to do, and by its end that Jibe has ended; status is what
	// the launcher says. theirs are the launcher's ends.
	life   *os.File
	status struct {
		from *os.File
		done chan struct{}
		data []byte
	}
	theirs []*os.File
}

// end is how a program ended.
type end struct {
	reason string // why it didn't succeed, "" where it did
	killed bool   // by a signal, so that it may have been cut short
	err    error  // trouble that isn't the hook's; a [*startError] where it didn't start
}

func isRoot() bool { return os.Geteuid() == 0 }

// process makes the process of the run. It is started by execute.
func (r *Runner) process(w *workspace, who *identity, c Call) (*process, error) {
	c.Timeout = c.timeout()
	if r.Confinement.Unconfined {
		cmd := exec.Command(w.argv[0], w.argv[1:]...)
		cmd.Dir, cmd.Env = w.copy, w.env
		apart(cmd)
		if who != nil {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}
		}
		return &process{cmd: cmd, patience: grace}, nil
	}
	at := func(name string) string { return filepath.Join(w.dir, name) }
	spec := &confine.Spec{
		Argv: w.argv, Env: w.env, Dir: w.copy, UID: -1, GID: -1, Namespaces: r.able.namespaces,
		Write: []string{at("home"), at("tmp")}, Read: append([]string{at("files")}, r.Confinement.Paths...),
		Ports: r.Confinement.ports(&c), AnyPort: r.Confinement.AnyPort, Limits: r.Confinement.limits(), Grace: grace, Silence: r.Silence,
	}
	spec.Limits.CPU = uint64(c.Timeout/time.Second) + 1
	for _, name := range []string{"package", "other", "python_adapter"} {
		if _, err := os.Stat(at(name)); err != nil {
			continue
		}
		if w.older && name != "python_adapter" {
			spec.Write = append(spec.Write, at(name)) // scripts of the older contract always could
		} else {
			spec.Read = append(spec.Read, at(name))
		}
	}
	if r.Tool != "" {
		spec.Read = append(spec.Read, filepath.Join(r.Dir, toolDir))
	}
	if who != nil {
		spec.UID, spec.GID = who.uid, who.gid
		if who.own && spec.Namespaces {
			text, err := who.passwd(at("home"))
			if err != nil {
				return nil, fmt.Errorf("name the user of the run: %w", err)
			}
			spec.Passwd = at("passwd")
			if err := errors.Join(os.WriteFile(spec.Passwd, text, 0o444), os.Chmod(spec.Passwd, 0o444)); err != nil {
				return nil, fmt.Errorf("name the user of the run: %w", err)
			}
		}
	}
	cgroup, err := r.makeCgroup(w.dir, &spec.Limits)
	if err != nil {
		return nil, err
	}
	spec.Cgroup = cgroup != nil
	return r.launcher(spec, cgroup)
}

// launcher makes the process of a launcher. cgroup is the directory of that of the run, nil where it has none.
func (r *Runner) launcher(spec *confine.Spec, cgroup *os.File) (*process, error) {
	theirLife, life, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, closeIf(cgroup))
	}
	status, theirStatus, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirLife.Close(), life.Close(), closeIf(cgroup))
	}
	argv := r.Confinement.Launcher
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{theirLife, theirStatus}
	if cgroup != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, cgroup)
	}
	apart(cmd)
	if spec.Namespaces {
		confine.InNamespaces(cmd)
	} else {
		cmd.SysProcAttr.Pdeathsig = 0 // it ends the run first, when its life file ends
	}
	p := &process{cmd: cmd, patience: grace + spare, spec: spec, mute: r.mute, life: life, theirs: cmd.ExtraFiles}
	p.status.from, p.status.done = status, make(chan struct{})
	return p, nil
}

// closeIf closes the file, if there is one.
func closeIf(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// start starts the process; a launcher waits for goAhead.
func (p *process) start() error {
	err := p.cmd.Start()
	if p.spec == nil {
		return err
	}
	for _, f := range p.theirs {
		_ = f.Close() // the launcher has its own
	}
	if err != nil {
		p.abandon()
		return fmt.Errorf("start the launcher of hooks, %s: %w", p.cmd.Path, launchError{err})
	}
	go func() {
		defer close(p.status.done)
		// More than this no launcher says.
		p.status.data, _ = io.ReadAll(io.LimitReader(p.status.from, 64<<10))
		_ = p.status.from.Close()
	}()
	return nil
}

// abandon lets go of a process that doesn't start.
func (p *process) abandon() {
	if p.spec == nil {
		return
	}
	for _, f := range append([]*os.File{p.life, p.status.from}, p.theirs...) {
		_ = f.Close()
	}
	close(p.status.done)
}

// launchError hides from callers what errors of the launcher are, which are none of the hook's.
type launchError struct{ err error }

func (e launchError) Error() string { return e.err.Error() }

// goAhead has a launcher start the program.
func (p *process) goAhead() error {
	if p.spec == nil {
		return nil
	}
	data, err := json.Marshal(p.spec)
	if err == nil {
		_, err = p.life.Write(append(data, '\n'))
	}
	if errors.Is(err, syscall.EPIPE) {
		return nil // it has ended, and its status says so
	}
	if err == nil && p.spec.Silence > 0 && !p.mute {
		go p.beat()
	}
	return err
}

// beat tells the launcher that Jibe lives, until either has ended.
func (p *process) beat() {
	for {
		time.Sleep(p.spec.Silence / 4)
		if _, err := p.life.Write([]byte{'\n'}); err != nil {
			return
		}
	}
}

// ended says how the program ended, once the process has.
func (p *process) ended() end {
	state := p.cmd.ProcessState
	if p.spec == nil {
		if state == nil || state.Success() {
			return end{}
		}
		return end{reason: state.String(), killed: !state.Exited()}
	}
	_ = p.life.Close()
	<-p.status.done
	if state == nil {
		return end{}
	}
	st, err := confine.ReadStatus(bytes.TrimSpace(p.status.data))
	switch {
	case errors.Is(err, confine.ErrStatus):
		return end{reason: "its launcher was ended (" + state.String() + "): memory or processes may have run out", killed: true}
	case err != nil:
		return end{err: err}
	case st.Silent && st.Signal != 0:
		return end{err: ErrSilent, killed: true}
	case st.Trouble != "":
		return end{err: fmt.Errorf("confine it: %s", st.Trouble)}
	case st.Errno != 0:
		return end{err: &startError{st.Errno}}
	case strings.HasPrefix(st.Exceeded, confine.Unwatched):
		return end{reason: st.Exceeded + ": it was ended", killed: true}
	case st.Exceeded != "":
		return end{reason: st.Exceeded + ": it was ended; jibe serve --hook-limit allows more", killed: true}
	case st.Signal != 0:
		return end{reason: "signal: " + st.Signal.String(), killed: true}
	case st.Exit != 0:
		return end{reason: fmt.Sprintf("exit status %d", st.Exit)}
	}
	return end{}
}

// apart puts the command into a session of its own, so that all of its processes can be ended
// at once, and has the system end it when Jibe ends.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// probe finds out what the system can do. Namespaces that a launcher can't make use of are as
// good as none.
func (r *Runner) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for _, namespaces := range []bool{true, false} {
		p, err := r.launcher(&confine.Spec{Probe: true, Namespaces: namespaces}, nil)
		if err != nil {
			return err
		}
		st, err := p.ask(ctx)
		if err == nil && st.Trouble == "" {
			r.able.known, r.able.namespaces, r.able.abi = true, namespaces, st.ABI
			r.able.cgroups, r.able.noCgroups = r.findCgroups()
			return nil
		}
		if err == nil {
			err = errors.New(st.Trouble)
		}
		if !namespaces || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// findCgroups finds out whether runs can have cgroups of their own.
func (r *Runner) findCgroups() (*confine.Cgroups, error) {
	c, err := confine.FindCgroups()
	if err == nil && r.Cgroups {
		err = c.Prepare()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// makeCgroup makes the cgroup of the run that has the directory, where runs have some.
func (r *Runner) makeCgroup(dir string, l *confine.Limits) (*os.File, error) {
	if !r.Cgroups || r.able.cgroups == nil {
		return nil, nil
	}
	return r.able.cgroups.Make(filepath.Base(dir), l, dir)
}

// removeCgroup removes the cgroup of the run that has, or had, the directory, with what is left in it.
func (r *Runner) removeCgroup(dir string) error {
	if !r.Cgroups {
		return nil
	}
	c, err := confine.FindCgroups()
	if err != nil {
		return nil // there are none
	}
	return c.Remove(filepath.Base(dir))
}

// ask starts the launcher, and returns what it says.
func (p *process) ask(ctx context.Context) (confine.Status, error) {
	defer lockThread()()
	if err := p.start(); err != nil {
		return confine.Status{}, err
	}
	stop := context.AfterFunc(ctx, func() { killGroup(p.cmd.Process.Pid) })
	defer stop()
	err := p.goAhead()
	_ = p.cmd.Wait() // the status says how it ended
	_ = p.life.Close()
	<-p.status.done
	if err != nil {
		return confine.Status{}, err
	}
	return confine.ReadStatus(bytes.TrimSpace(p.status.data))
}
