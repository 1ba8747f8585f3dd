package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// give makes the user the owner of the file.
func (i *identity) give(path string) error {
	if i == nil {
		return nil
	}
	return os.Lchown(path, i.uid, i.gid)
}

// makeDir makes the Runner's directory, or checks that a Runner made it: in a place where
// anybody may write, somebody else could have put one there.
func (r *Runner) makeDir() error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // the names of runs are secret from other users, all else isn't theirs to read
	}
	if err := os.Mkdir(r.Dir, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(r.Dir)
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(s.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s isn't a directory that Jibe alone may write to: remove it", r.Dir)
	}
	return os.Chmod(r.Dir, mode)
}

// reachable says whether the user may pass through all parents of the path.
func reachable(path string, who *identity) bool {
	for dir := filepath.Dir(path); who != nil; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		bit := os.FileMode(0o001)
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == who.uid {
			bit = 0o100
		} else if ok && int(s.Gid) == who.gid {
			bit = 0o010
		}
		if info.Mode().Perm()&bit == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return true
}

// lockThread ties the goroutine to its thread until free is called.
func lockThread() (free func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// awaitExit returns when the child has ended, and leaves it to be waited for.
func awaitExit(pid int) {
	const byPID = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// The errors of these say that the group has ended already, which is what was wanted.
func killGroup(pid int)      { _ = syscall.Kill(-pid, syscall.SIGKILL) }
func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

// reap waits for processes of the group where Jibe is the first process of its container,
// and thus the parent of all that lost theirs. Elsewhere the group has no children of ours.
func reap(group int) {
	for until := time.Now().Add(grace); time.Now().Before(until); time.Sleep(time.Millisecond) {
		for {
			pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
			if err != nil && !errors.Is(err, syscall.EINTR) {
				return // it has no children of ours
			}
			if pid == 0 && err == nil {
				break // they are still dying
			}
		}
	}
}

// identify says which process has the number now.
func identify(pid int) (Process, error) {
	s, err := readStat(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := bootID()
	return Process{PID: pid, Start: s.start, Boot: boot}, err
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// stat holds some fields of /proc/PID/stat (proc(5)).
type stat struct {
	state   string
	group   int
	session int
	start   uint64
}

func (s stat) lives() bool { return s.state != "Z" && s.state != "X" }

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The second field is the executable's name, which may hold anything.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat can't be read", pid)
	}
	group, groupErr := strconv.Atoi(f[2])
	session, sessionErr := strconv.Atoi(f[3])
	start, startErr := strconv.ParseUint(f[19], 10, 64)
	return stat{f[0], group, session, start}, errors.Join(groupErr, sessionErr, startErr)
}

// processes calls f with every process of this machine.
func processes(f func(pid int)) {
	names, err := filepath.Glob("/proc/[1-9]*")
	if err != nil {
		return
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && pid != os.Getpid() {
			f(pid)
		}
	}
}

// hasVariable says whether the process was started with the variable; an empty value
// stands for any.
func hasVariable(pid int, name, value string) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		k, v, ok := strings.Cut(string(entry), "=")
		if ok && k == name && (value == "" || v == value) {
			return true
		}
	}
	return false
}

// killStrays kills processes that left the group of the hook that runs in dir. It knows
// them by their environment, so those that changed theirs get away.
func killStrays(dir string) {
	if dir == "" {
		return
	}
	tmp := filepath.Join(dir, "tmp")
	for range 3 { // one that is killed may have started another
		var found []*os.Process
		processes(func(pid int) {
			p, err := os.FindProcess(pid) // holds on to this very process
			if err != nil {
				return
			}
			// Nothing of them is killed before all stand still: a shell would tell of a child's end.
			if s, err := readStat(pid); err == nil && s.lives() && hasVariable(pid, "TMPDIR", tmp) && p.Signal(syscall.SIGSTOP) == nil {
				found = append(found, p)
				return
			}
			_ = p.Release()
		})
		for _, p := range found {
			_ = p.Kill() // it may have ended
			_ = p.Release()
		}
		if len(found) == 0 {
			return
		}
	}
}

// end kills what is left of the process group of an interrupted run, and waits until it is
// gone. A process that only has the same number by now is left alone.
func (r *Runner) end(ctx context.Context, o Process) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	if o.Boot == boot && o.PID > 1 {
		for until := time.Now().Add(5 * grace); ; {
			left := orphans(o)
			if len(left) == 0 {
				break
			}
			if time.Now().After(until) {
				return fmt.Errorf("processes %v of it can't be killed", left)
			}
			for _, pid := range left {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("kill process %d: %w", pid, err)
				}
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		killStrays(o.Dir)
		if err := r.removeCgroup(o.Dir); err != nil {
			return err
		}
	}
	r.removeRun(o.Dir)
	return nil
}

// orphans returns the living processes of the session that o began. Where o itself has
// ended, its number stays taken as long as one of them lives: another process with the
// number, which began at another time, says that none does.
func orphans(o Process) []int {
	leader, err := readStat(o.PID)
	if err == nil && leader.start != o.Start {
		return nil
	}
	known := err == nil
	var out []int
	processes(func(pid int) {
		s, err := readStat(pid)
		if err != nil || !s.lives() || s.session != o.PID && s.group != o.PID || s.start < o.Start {
			return
		}
		if known || hasVariable(pid, hookVariable, "") {
			out = append(out, pid)
		}
	})
	return out
}
