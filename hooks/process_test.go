//go:build linux

package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// note is where scripts write down which processes they are: the test must see them end.
type note struct{ dir string }

func newNote(t *testing.T) note {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-note-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return note{dir}
}

// newUnconfined runs hooks that may write notes, and whose numbers of processes are the
// machine's.
func newUnconfined(t *testing.T) *hooks.Runner {
	r := newRunner(t)
	r.Confinement = hooks.Confinement{Unconfined: true}
	return r
}

func (n note) file(name string) string { return filepath.Join(n.dir, name) }

// wait returns the process that wrote itself down.
func (n note) wait(t *testing.T, name string) (pid int) {
	t.Helper()
	kit.Eventually(t, func() error {
		data, err := os.ReadFile(n.file(name))
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err
	})
	return pid
}

// gone waits until the process has ended; its parent may still have to wait for it.
func gone(t *testing.T, what string, pid int) {
	t.Helper()
	kit.Until(t, what+" has ended", func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(data), ") Z ")
	})
}

// started returns what holds the clock of a run until all have written themselves down.
func (n note) started(t *testing.T, names ...string) func(hooks.Process) error {
	return func(hooks.Process) error {
		for _, name := range names {
			n.wait(t, name)
		}
		return nil
	}
}

func TestAHookThatHangsIsEndedWithAllItStarted(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	// The grandchildren ignore the polite signal, hold the pipes, and one leaves the group.
	c := shell(fmt.Sprintf(`trap "" TERM; (echo $$ > %s; exec sleep 3600) & setsid sh -c 'echo $$ > %s; sleep 3600' & echo waiting for the balancer >&2; echo $$ > %s; sleep 3600; sleep 3600`,
		n.file("child"), n.file("stray"), n.file("all")))
	c.Timeout = 500 * time.Millisecond
	c.Started = n.started(t, "child", "stray", "all")
	if got := fails(t, r, c); got.Reason != "not done within 500ms" || got.Stderr != "waiting for the balancer" {
		t.Error(got)
	}
	gone(t, "the hook", n.wait(t, "child"))
	gone(t, "what left its group", n.wait(t, "stray"))
}

func TestAPoliteHookIsGivenTimeToEnd(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	c := shell(fmt.Sprintf(`trap 'echo $$ > %s; exit 0' TERM; echo $$ > %s; while :; do sleep 0.1; done`, n.file("tidied"), n.file("pid")))
	c.Timeout = 300 * time.Millisecond
	c.Started = n.started(t, "pid")
	if got := fails(t, r, c); got.Reason != "not done within 300ms" {
		t.Error(got)
	}
	n.wait(t, "tidied")
}

func TestTheEndOfTheContextEndsTheHook(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { n.wait(t, "pid"); cancel() }()
	_, err := r.Run(ctx, shell(fmt.Sprintf(`echo $$ > %s; sleep 3600`, n.file("pid"))))
	var failed *hooks.FailedError
	if !errors.Is(err, context.Canceled) || errors.As(err, &failed) {
		t.Errorf("error %v", err)
	}
	gone(t, "the hook", n.wait(t, "pid"))
}

func TestWhatAHookLeavesRunningDoesNotOutliveIt(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	got := run(t, r, shell(fmt.Sprintf(`sleep 3600 & echo $! > %s; setsid sh -c 'echo $$ > %[2]s; exec sleep 3600' & while [ ! -s %[2]s ]; do sleep 0.05; done; echo '{"message": "done"}'`,
		n.file("child"), n.file("stray"))))
	if got != "done" {
		t.Errorf("it says %q", got)
	}
	gone(t, "the child", n.wait(t, "child"))
	gone(t, "what left its group", n.wait(t, "stray"))
}

func TestTheProcessIsToldOfBeforeItHasItsInput(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	c := shell(fmt.Sprintf(`read x; echo $$ > %s; echo '{"message": "'$$'"}'`, n.file("read")))
	var reported hooks.Process
	c.Started = func(p hooks.Process) error {
		time.Sleep(100 * time.Millisecond) // in which the process would have read its input
		if _, err := os.Stat(n.file("read")); err == nil {
			t.Error("it had its input already")
		}
		reported = p
		return nil
	}
	if got := run(t, r, c); got != strconv.Itoa(reported.PID) || reported.Start == 0 || len(reported.Boot) != 36 || filepath.Dir(reported.Dir) != r.Dir {
		t.Errorf("process %s was reported as %+v", got, reported)
	}
	c.Started = func(p hooks.Process) error { reported = p; return errors.New("the lease is lost") }
	if _, err := r.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "the lease is lost") {
		t.Errorf("error %v", err)
	}
	gone(t, "a process that couldn't be noted", reported.PID)
}

// orphan starts what an interrupted run would have left.
func orphan(t *testing.T, script string, env ...string) hooks.Process {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "JIBE_HOOK=coordinate_new"}, env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL); <-done })
	start, err := strconv.ParseUint(strings.Fields(string(data[strings.LastIndexByte(string(data), ')'):]))[20], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	return hooks.Process{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}
}

func TestAnInterruptedRunIsEndedFirst(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"with its leader":    `sleep 3600 & echo $! > %s; wait`,
		"without its leader": `sleep 3600 & echo $! > %s`,
	} {
		t.Run(name, func(t *testing.T) {
			r, n := newUnconfined(t), newNote(t)
			left := orphan(t, fmt.Sprintf(script, n.file("child")))
			child := n.wait(t, "child")
			if name == "without its leader" {
				gone(t, "the leader", left.PID)
			}
			if err := os.MkdirAll(filepath.Join(r.Dir, "run-old", "files"), 0o700); err != nil {
				t.Fatal(err)
			}
			left.Dir = filepath.Join(r.Dir, "run-old")
			// It was killed before the hook began, which it may take the kernel a moment to carry out.
			c := shell(fmt.Sprintf(`i=0; until [ ! -d /proc/%d ] || grep -q ') [ZX] ' /proc/%[1]d/stat; do i=$((i+1)); [ $i -lt 400 ] || exit 1; sleep 0.05; done`, child))
			c.Orphan = &left
			run(t, r, c)
			gone(t, "the orphan", left.PID)
		})
	}
}

func TestANumberThatMeansAnotherProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	other := orphan(t, fmt.Sprintf(`sleep 3600 & echo $! > %s; wait`, n.file("child")))
	child := n.wait(t, "child")
	outside := filepath.Join(n.dir, "run-outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, left := range map[string]hooks.Process{
		"begun at another time": {PID: other.PID, Start: other.Start - 1, Boot: other.Boot, Dir: outside},
		"of another boot":       {PID: other.PID, Start: other.Start, Boot: "another", Dir: r.Dir},
		"none":                  {},
	} {
		c := shell(`exit 0`)
		c.Orphan = &left
		run(t, r, c)
		if err := syscall.Kill(child, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a directory that isn't a run's: %v", err)
	}
}

func TestASweepLeavesNothingOfAFormerProcess(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	if err := r.Sweep(); err != nil {
		t.Fatal(err) // there is nothing yet
	}
	dir := filepath.Join(r.Dir, "run-123")
	if err := os.MkdirAll(filepath.Join(dir, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "files", "KUBECONFIG"), []byte("x"), 0o400); err != nil {
		t.Fatal(err)
	}
	orphan(t, fmt.Sprintf(`setsid sh -c 'echo $$ > %s; exec sleep 3600' & wait`, n.file("stray")), "TMPDIR="+filepath.Join(dir, "tmp"))
	stray := n.wait(t, "stray")
	if err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	gone(t, "a stray", stray)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

func TestAHookEndsWithJibe(t *testing.T) {
	t.Parallel()
	n := newNote(t)
	if at := os.Getenv("JIBE_TEST_RUN_IN"); at != "" {
		r := &hooks.Runner{Dir: at, Confinement: hooks.Confinement{Unconfined: true}}
		c := shell(fmt.Sprintf(`echo $$ > %s; sleep 3600`, os.Getenv("JIBE_TEST_NOTE")))
		_, err := r.Run(t.Context(), c)
		t.Fatal(err)
	}
	r := newUnconfined(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestAHookEndsWithJibe$")
	cmd.Env = append(os.Environ(), "JIBE_TEST_RUN_IN="+r.Dir, "JIBE_TEST_NOTE="+n.file("pid"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := n.wait(t, "pid")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, "the hook of a Jibe that was killed", pid)
	if err := r.Sweep(); err != nil { // and what it left goes with the next start
		t.Fatal(err)
	}
}

func TestNothingIsLeftUnburiedWhereJibeIsTheFirstProcess(t *testing.T) {
	t.Parallel()
	if at := os.Getenv("JIBE_TEST_FIRST_IN"); at != "" {
		r := &hooks.Runner{Dir: at, Confinement: hooks.Confinement{Unconfined: true}}
		if _, err := r.Run(t.Context(), shell(`sleep 3600 & sleep 3600 & exit 0`)); err != nil {
			t.Fatal(err)
		}
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			t.Fatalf("child %d is left: %v", pid, err)
		}
		return
	}
	r := newUnconfined(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "JIBE_TEST_FIRST_IN="+r.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("namespaces need root")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
