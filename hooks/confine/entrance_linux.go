package confine

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter gives up all that the program isn't to have, and becomes the program. It returns where it
// can't, with the reason.
func enter(s *Spec) Status {
	var st Status
	// Rights are a thread's own; that which calls execve is the one that goes on.
	runtime.LockOSThread()
	if err := confineThread(s); err != nil {
		st.Trouble = err.Error()
		return st
	}
	err := syscall.Exec(s.Argv[0], s.Argv, s.Env)
	if !errors.As(err, &st.Errno) {
		st.Trouble = err.Error()
	}
	return st
}

// confineThread does all that enter does before the program takes over.
func confineThread(s *Spec) error {
	if err := bound(&s.Limits); err != nil {
		return err
	}
	rules, err := newRuleset(s, landlockABI())
	if err != nil {
		return err
	}
	calls, err := filter(s)
	if err != nil {
		return err
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return fmt.Errorf("enter %s: %w", s.Dir, err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := become(s.UID, s.GID); err != nil {
		return err
	}
	// What changes who a process is takes this back.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up on new privileges: %w", err)
	}
	if err := rules.enforce(); err != nil {
		return err
	}
	return calls.enforce()
}

// become makes this thread another user's, in that user's group alone, without capabilities; where
// the numbers are negative it stays the user's that it is.
func become(uid, gid int) error {
	if uid >= 0 {
		for _, x := range []struct{ call, id uintptr }{{unix.SYS_SETGROUPS, 0}, {unix.SYS_SETGID, uintptr(gid)}, {unix.SYS_SETUID, uintptr(uid)}} {
			// Of this thread alone, unlike what the standard library does.
			if _, _, errno := syscall.RawSyscall(x.call, x.id, 0, 0); errno != 0 {
				return fmt.Errorf("run as user %d: %w", uid, errno)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// dropCapabilities takes from this thread the capabilities that a program could be given or get
// back. Those in force are needed to become another user, which takes them.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // there are no more
		}
		if errors.Is(err, unix.EPERM) {
			break // none of them can be had without new privileges, which are given up
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// bound sets the limits that the kernel keeps, for this process and all that it starts.
func bound(l *Limits) error {
	limits := []struct {
		name     string
		resource int
		value    uint64
	}{
		{"core files", unix.RLIMIT_CORE, 0},
		{"the size of files", unix.RLIMIT_FSIZE, l.Scratch},
		{"open files", unix.RLIMIT_NOFILE, l.Files},
		{"memory", unix.RLIMIT_DATA, l.Memory},
		{"locked memory", unix.RLIMIT_MEMLOCK, 64 << 10},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
	}
	if l.CPU > 0 {
		limits = append(limits, struct {
			name     string
			resource int
			value    uint64
		}{"processor time", unix.RLIMIT_CPU, l.CPU})
	}
	for _, x := range limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(x.resource, &now); err != nil {
			return fmt.Errorf("limit %s: %w", x.name, err)
		}
		value := min(x.value, now.Max) // what is bounded already stays so
		if err := syscall.Setrlimit(x.resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limit %s: %w", x.name, err)
		}
	}
	// Where the processor is short, the run waits for Jibe.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 5)
	return nil
}
