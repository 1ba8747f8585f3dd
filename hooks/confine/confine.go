// Package confine runs one program apart from all else on the machine: with few rights, few
// resources, and nothing left of it when it ends. Its [Main] is the launcher, a process of
// Jibe's own binary between Jibe and the program. It knows nothing of packages and hooks.
//
// The launcher stays as the first process of the program's own process namespace, or where the
// system grants none as the parent of all that lose theirs, so that nothing outlives the run.
// A second process of the launcher's, the entrance, gives all rights up and becomes the program.
// None of the launcher's own threads does: the program could send signals to one that is in the
// domain of Landlock that it is in, and so end what watches it.
package confine

import (
	"encoding/json"
	"errors"
	"syscall"
	"time"
)

// Command is the argument of jibe that makes a process the launcher.
const Command = "hook-launcher"

// Files that the launcher is handed beside the program's standard ones.
const (
	// lifeFile is where it reads the [Spec], and sees the end of whoever started it.
	lifeFile = 3
	// statusFile is where it writes the [Status].
	statusFile = 4
	// cgroupFile is the directory of the run's cgroup, where it has one.
	cgroupFile = 5
)

// NeededABI is the version of Landlock that confinement needs at least: the first that keeps
// files from being truncated, which came with Linux 6.2. ScopedABI keeps signals and abstract
// sockets in, NetworkABI restricts TCP.
const (
	NeededABI  = 3
	NetworkABI = 4
	ScopedABI  = 6
)

// Spec says what is run, and what it may.
type Spec struct {
	Argv []string
	Env  []string
	Dir  string
	// UID and GID are whom it runs as; negative ones stand for the launcher's own user.
	UID, GID int
	// Namespaces says that the launcher is the first process of namespaces of its own.
	Namespaces bool
	// Cgroup says that the run has a cgroup of its own.
	Cgroup bool
	// Passwd is a file that the program sees as /etc/passwd; "" leaves it as it is. It needs
	// Namespaces.
	Passwd string
	// Read may be read, and programs below it run, beside those of the system. Write may be
	// written to as well.
	Read, Write []string
	// Ports are those that TCP connections may go to; AnyPort allows all.
	Ports   []uint16
	AnyPort bool
	Limits  Limits
	// Grace is how long the program has between being asked to end and being killed.
	Grace time.Duration
	// Silence is after how long without a word from whoever started the launcher that one is taken
	// for lost, as at its end; 0 is never.
	Silence time.Duration
	// Probe runs nothing: the status tells what the system can do.
	Probe bool
	// Enter makes the process the entrance; Devices are the run's own then. The launcher alone
	// sets them.
	Enter   bool
	Devices []string
}

// Limits bound what one run may use.
type Limits struct {
	// CPU is the processor time of one process, in seconds; 0 is no limit.
	CPU uint64
	// Memory bounds the data of one process, by the kernel, and of the whole run, by a look
	// at it every [watchEvery]. Scratch bounds one file, and all in Spec.Write, likewise.
	// Both are in bytes.
	Memory, Scratch uint64
	// Processes bounds processes and threads, Files those that one process has open; all of a run
	// may have [openTogether] times as many.
	Processes, Files uint64
	// Entries bounds the files and directories in Spec.Write: each takes some of the file
	// system's, however small.
	Entries uint64
}

// watchEvery is how often the launcher looks at what a run uses, and watchAtLeast is the longest pause
// where a look takes long.
const (
	watchEvery   = 100 * time.Millisecond
	watchAtLeast = time.Second
)

// Status is what the launcher says of a run that has ended, or of a probe.
type Status struct {
	// Exit and Signal are how the program ended; a Signal of 0 is none.
	Exit   int            `json:",omitempty"`
	Signal syscall.Signal `json:",omitempty"`
	// Exceeded is the limit for which the program was killed, "" where it was for none.
	Exceeded string `json:",omitempty"`
	// Silent says that the program was killed because of Spec.Silence.
	Silent bool `json:",omitempty"`
	// Errno is why the program couldn't be started, and Trouble why it wasn't confined;
	// it didn't run then.
	Errno   syscall.Errno `json:",omitempty"`
	Trouble string        `json:",omitempty"`
	// ABI is the version of Landlock, 0 where there is none.
	ABI int
}

// Ended says that the program ran to its end, with exit status 0.
func (s Status) Ended() bool { return s.Exit == 0 && s.Signal == 0 && s.Exceeded == "" }

// Unwatched begins a Status.Exceeded that is none of the limits: what the run uses couldn't be seen.
const Unwatched = "it can't be watched"

// ErrStatus is returned for what isn't the status of a launcher: it was killed before it
// could say anything.
var ErrStatus = errors.New("the launcher ended without a word")

// ReadStatus reads what the launcher has written.
func ReadStatus(data []byte) (Status, error) {
	var s Status
	if len(data) == 0 {
		return s, ErrStatus
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, errors.Join(ErrStatus, err)
	}
	return s, nil
}
