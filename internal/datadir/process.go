package datadir

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// secondLook is after how long a process that seems to run is looked at once more: for a
// moment, one that was killed looks like any other.
const secondLook = 50 * time.Millisecond

// runs says whether the process runs, and nobody has killed it.
func runs(process string) bool {
	pid, err := strconv.Atoi(process)
	if err != nil || pid <= 0 || !alive(pid) {
		return false
	}
	time.Sleep(secondLook)
	return alive(pid)
}

// alive says whether the process runs at this moment. Where the system doesn't show the
// state of processes, every one that exists is alive.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	proc := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(proc + "/status")
	if errors.Is(err, os.ErrNotExist) {
		_, err := os.Stat("/proc/self/status")
		return err != nil
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); name {
		case "State": // "Z (zombie)": it has ended, or its first thread has; "X (dead)"
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return false
			}
		case "SigPnd", "ShdPnd": // signals that are to be delivered, a bit each
			if set, err := strconv.ParseUint(value, 16, 64); err == nil && set&(1<<(syscall.SIGKILL-1)) != 0 {
				return false
			}
		}
	}
	return !exiting(proc)
}

// flagExiting is PF_EXITING of Linux: the process gives back what it has.
const flagExiting = 0x4

// exiting says whether the process whose folder below /proc this is has begun to end.
func exiting(proc string) bool {
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return false
	}
	// The name, in parentheses, may hold anything; the flags are the seventh field after it.
	fields := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")")+1:])
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err == nil && flags&flagExiting != 0
}
