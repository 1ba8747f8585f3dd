package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endPatience is how long the launcher waits for what it killed to be gone.
const endPatience = 5 * time.Second

// Main is the launcher: it reads a [Spec] from the file lifeFile, runs its program with the
// launcher's standard files, and writes a [Status] to the file statusFile once nothing of the
// run is left. SIGTERM has the program asked to end, and killed after Spec.Grace. The end of
// lifeFile, which is that of whoever started the launcher, has it killed at once, and so has
// Spec.Silence there.
//
// It must be called before the process has done anything else, and the process is to end with
// what it returns.
func Main() (exit int) {
	// Nothing that was left open by mistake gets to the program.
	if err := unix.CloseRange(lifeFile, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 1
	}
	status := os.NewFile(statusFile, "status")
	life := bufio.NewReader(os.NewFile(lifeFile, "life"))
	line, err := life.ReadBytes('\n')
	if err != nil {
		return 1
	}
	var s Spec
	var st Status
	err = json.Unmarshal(line, &s)
	switch {
	case err != nil:
		st.Trouble = err.Error()
	case s.Enter:
		st = enter(&s) // where it returns
	default:
		dead, silent := listen(life, s.Silence)
		st = launch(&s, dead)
		st.Silent = silent.Load()
	}
	if err := json.NewEncoder(status).Encode(st); err != nil {
		return 1
	}
	return 0
}

// listen closes dead when life ends, or nothing is read from it for the time of silence, where that
// isn't 0; silent then says so.
func listen(life io.Reader, silence time.Duration) (dead chan struct{}, silent *atomic.Bool) {
	dead, silent = make(chan struct{}), new(atomic.Bool)
	end := sync.OnceFunc(func() { close(dead) })
	var watchdog *time.Timer
	if silence > 0 {
		watchdog = time.AfterFunc(silence, func() { silent.Store(true); end() })
	}
	go func() {
		defer end()
		word := make([]byte, 64)
		for {
			if _, err := life.Read(word); err != nil {
				return
			}
			if watchdog != nil {
				watchdog.Reset(silence)
			}
		}
	}()
	return dead, silent
}

// launch runs the spec. dead is closed when whoever started the launcher has ended, or seems to have.
func launch(s *Spec, dead <-chan struct{}) Status {
	st := Status{ABI: landlockABI()}
	trouble := func(err error) Status {
		st.Trouble = err.Error()
		return st
	}
	// Where memory is short, the run goes before Jibe does.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0)
	others, err := othersOf(s) // before the run has a /proc of its own
	if err != nil {
		return trouble(fmt.Errorf("count the user's processes: %w", err))
	}
	s.Limits.Processes += others
	if s.Namespaces {
		if s.Devices, err = furnish(s); err != nil {
			return trouble(err)
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return trouble(fmt.Errorf("take care of the run's processes: %w", err))
	}
	if s.Probe {
		return st
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	// The kernel knows no better name for the launcher's own secrets than that it can't be
	// dumped.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return trouble(err)
	}
	r := &run{spec: s, ended: make(chan struct{})}
	if s.Cgroup {
		r.cgroup = &cgroup{os.NewFile(cgroupFile, "cgroup")}
	}
	failed, err := r.start()
	if err != nil {
		return trouble(err)
	}
	r.supervise(asked, dead)
	if len(failed()) > 0 {
		at, err := ReadStatus(failed())
		if err != nil {
			return trouble(err)
		}
		st.Errno, st.Trouble = at.Errno, at.Trouble
		return st
	}
	if r.exceeded == "" && r.cgroup.outOfMemory() {
		r.exceeded = tooMuchMemory(s.Limits)
	}
	st.Exceeded = r.exceeded
	if r.how.Signaled() {
		st.Signal = r.how.Signal()
	} else {
		st.Exit = r.how.ExitStatus()
	}
	return st
}

// run is a program under way.
type run struct {
	spec     *Spec
	cgroup   *cgroup
	main     int
	how      syscall.WaitStatus
	ended    chan struct{} // closed when main has ended
	exceeded string
}

// start starts the entrance to the program; failed is what it says where it can't become that,
// once it has ended.
func (r *run) start() (failed func() []byte, err error) {
	theirs, spec, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	defer spec.Close()
	said, status, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer status.Close()
	s := *r.spec
	s.Enter = true
	line, err := json.Marshal(&s)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		// The program's death signal is tied to this thread, which lasts as long as it does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		r.main, err = syscall.ForkExec("/proc/self/exe", []string{os.Args[0], Command}, &syscall.ProcAttr{
			Dir: "/", Files: []uintptr{0, 1, 2, theirs.Fd(), status.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
		})
		started <- err
		if err == nil {
			<-r.ended
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the entrance: %w", err)
	}
	// It waits for its spec, so that nothing of the program runs elsewhere.
	if err := r.cgroup.enter(r.main); err != nil {
		_ = syscall.Kill(r.main, syscall.SIGKILL)
		return nil, err
	}
	if _, err := spec.Write(append(line, '\n')); err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, fmt.Errorf("tell the entrance what to run: %w", err)
	}
	done := make(chan struct{})
	var data []byte
	go func() {
		defer close(done)
		data, _ = io.ReadAll(io.LimitReader(said, 64<<10)) // the program itself has no end of it
	}()
	return func() []byte { <-done; return bytes.TrimSpace(data) }, nil
}

// supervise waits for the end of the program and of all that it started.
func (r *run) supervise(asked <-chan os.Signal, dead <-chan struct{}) {
	gone := make(chan struct{})
	go r.reap(gone)
	watch, files := time.NewTimer(watchEvery), time.NewTimer(watchEvery)
	defer watch.Stop()
	defer files.Stop()
	var held uint64
	var late <-chan time.Time
wait:
	for {
		select {
		case <-r.ended:
			break wait
		case <-dead:
			break wait
		case <-late:
			break wait
		case <-asked:
			if late == nil {
				_ = syscall.Kill(-r.main, syscall.SIGTERM) // it may have ended just now
				late = time.After(r.spec.Grace)
			}
		case <-watch.C:
			began := time.Now()
			if r.exceeded, held = r.look(); r.exceeded != "" {
				break wait
			}
			watch.Reset(pause(began))
		case <-files.C:
			began := time.Now()
			if r.exceeded = r.lookAtFiles(held); r.exceeded != "" {
				break wait
			}
			files.Reset(pause(began))
		}
	}
	giveUp := time.After(endPatience)
	for {
		r.killAll()
		select {
		case <-gone:
			return
		case <-giveUp:
			return // with the launcher ends its namespace, and what is left in it
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// pause is how long it is from a look that began then to the next. One at very many files takes its
// time: a tenth of all, but never so long a pause that much could be used meanwhile.
func pause(began time.Time) time.Duration {
	return min(max(watchEvery, 9*time.Since(began)), watchAtLeast)
}

// reap waits for all children, which are all processes of the run in the end, and closes gone
// when there are none.
func (r *run) reap(gone chan<- struct{}) {
	defer close(gone)
	for {
		var how syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return
		case pid == r.main:
			r.how = how
			close(r.ended)
		}
	}
}

// killAll kills every process of the run.
func (r *run) killAll() {
	r.cgroup.kill()
	if r.spec.Namespaces {
		_ = syscall.Kill(-1, syscall.SIGKILL) // all of this namespace but the launcher
		return
	}
	for _, pid := range r.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
