package hooks_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attemptsOnOthers are those on processes that aren't the run's, and on what these share with it.
var attemptsOnOthers = []attempt{
	{"lower a limit of Jibe's", func(v *victim) error { return lowersALimit(v.Jibe) }},
	{"lower a limit of its launcher's", func(*victim) error { return lowersALimit(os.Getppid()) }},
	{"choose Jibe's processors", func(v *victim) error { return choosesProcessors(v.Jibe) }},
	{"choose its launcher's processors", func(*victim) error { return choosesProcessors(os.Getppid()) }},
	{"have its launcher wait for all others", func(*victim) error {
		const batch = 3
		param := new(int32)
		return calls(unix.SYS_SCHED_SETSCHEDULER, uintptr(os.Getppid()), batch, uintptr(unsafe.Pointer(param)))(nil)
	}},
	{"have Jibe wait for others", func(v *victim) error { return unix.Setpriority(unix.PRIO_PROCESS, v.Jibe, 1) }},
	{"have all of its user wait for others", func(*victim) error { return unix.Setpriority(unix.PRIO_USER, 0, 6) }},
	{"have Jibe wait for the disk", func(v *victim) error {
		const process, idle = 1, 3 << 13
		return calls(unix.SYS_IOPRIO_SET, process, uintptr(v.Jibe), idle)(v)
	}},
	{"write to the machine's log by a pair of sockets", func(v *victim) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer closeAll(pair[:])
		return unix.Sendto(pair[0], []byte("<3>jibe: all is well"), 0, &unix.SockaddrUnix{Name: v.Log})
	}},
	{"listen at a port that the system chooses", func(*victim) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Listen(fd, 1)
	}},
	{"hear of every process that starts", func(*victim) error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_CONNECTOR)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}},
	{"change the times of the store", func(v *victim) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(v.Data, "store.db"), make([]unix.Timespec, 2), 0)
	}},
	{"change the times of the data directory from within", func(v *victim) error {
		if err := unix.Chdir(v.Data); err != nil {
			return err
		}
		defer func() { _ = unix.Chdir(v.Package) }()
		at := unix.AT_FDCWD
		return calls(unix.SYS_UTIMENSAT, uintptr(at), pointer("."), 0, 0)(v)
	}},
	{"change attributes of the store", func(v *victim) error {
		attr := new([6]uint32) // struct file_attr: none of them is set
		at := unix.AT_FDCWD
		return calls(unix.SYS_FILE_SETATTR, uintptr(at), pointer(filepath.Join(v.Data, "store.db")), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)(v)
	}},
	{"watch the names in the data directory (inotify)", func(v *victim) error {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.InotifyAddWatch(fd, v.Data, unix.IN_ALL_EVENTS)
		return err
	}},
	{"watch them by the newer call (fanotify)", func(v *victim) error {
		fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_CLOEXEC, unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, v.Data)
	}},
	{"use memory that others share (shmat)", func(v *victim) error {
		memory, err := unix.SysvShmAttach(v.Segment, 0, 0)
		if err == nil {
			err = unix.SysvShmDetach(memory)
		}
		return err
	}},
	{"remove a message queue of others", func(v *victim) error { return calls(unix.SYS_MQ_UNLINK, pointer(v.Queue))(v) }},
	{"open files that its process doesn't show", func(*victim) error {
		return unix.CloseRange(1<<20, 1<<20, unix.CLOSE_RANGE_UNSHARE) // of this thread's own, from here on
	}},
	{"hide its open files from the watch", func(*victim) error {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		if os.Getuid() >= 1900000000 { // a user of its own, into whose processes the launcher looks as root
			err = errors.Join(err, errSeen)
		}
		return err
	}},
}

// lowersALimit sets a limit that no test needs.
func lowersALimit(pid int) error {
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}

// choosesProcessors chooses all that there are.
func choosesProcessors(pid int) error {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}

	return unix.SchedSetaffinity(pid, &all)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// bombDeep makes directories that no path is long enough for, and files there.
func bombDeep(*victim) {
	for i := 0; ; i++ {
		dir := make([]byte, 250)
		for n := range dir {
			dir[n] = 'd'
		}
		if err := errors.Join(unix.Mkdir(string(dir), 0o700), unix.Chdir(string(dir))); err != nil {
			panic(err)
		}
		if i < 20 {
			continue
		}
		if err := os.WriteFile("fill", make([]byte, 4<<20), 0o600); err != nil {
			panic(err)
		}
		if i > 40 {
			time.Sleep(time.Minute) // it keeps what it has: more than it may
			return
		}
	}
}

// inMany starts the program as that many processes more, which do another hook's work.
func inMany(n int, hook string) {
	for range n {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{hostileName}
		cmd.Env = append(os.Environ(), "JIBE_HOOK="+hook, "GOMAXPROCS=1") // few threads
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	time.Sleep(time.Minute) // they keep what they have
}

// bombSockets fills all the sockets that one process may have with data that no process reads.
func bombSockets(*victim) {
	data := make([]byte, 32<<10)
	for {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			_ = unix.Pause() // Go's own sleep needs a file
			return
		}
		for _, fd := range pair {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
			for err = nil; err == nil; {
				_, err = unix.Write(fd, data)
			}
		}
	}
}

// bombDescriptors opens all the files that one process may.
func bombDescriptors(*victim) {
	for i := 0; ; i++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			if !errors.Is(err, syscall.EMFILE) {
				panic(strconv.Itoa(i) + ": " + err.Error())
			}
			_ = unix.Pause() // Go's own sleep needs a file
			return
		}
	}
}

func init() {
	if filepath.Base(os.Args[0]) == hostileName && os.Getenv("JIBE_HOOK") == "bomb_first_thread" {
		runtime.LockOSThread() // what goes on from here is on the first thread
	}
}

// bombFirstThread ends the first thread of its process, of which alone /proc says what memory it has,
// and takes memory by another one.
func bombFirstThread(*victim) {
	go func() {
		for range 24 {
			if _, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
				panic(err)
			}
		}
		time.Sleep(time.Minute) // it keeps what it has
		os.Exit(0)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// bombUnseen runs a program that may not be read, into which the kernel lets no process of the same
// user look.
func bombUnseen(*victim) {
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(scratch(hostileName), self, 0o111)
	}
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(scratch(hostileName))
	cmd.Args = []string{hostileName}
	cmd.Env = append(os.Environ(), "JIBE_HOOK=fill_unseen")
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

// bombHiddenDisk fills the disk with files that have no name.
func bombHiddenDisk(*victim) {
	var open []*os.File
	b := make([]byte, 1<<20)
	for range 200 {
		f, err := os.Create(scratch("gone"))
		if err == nil {
			_, err = f.Write(b)
		}
		if err := errors.Join(err, os.Remove(scratch("gone"))); err != nil {
			panic(err)
		}
		open = append(open, f)
	}
	time.Sleep(time.Minute) // it keeps what it has
	runtime.KeepAlive(open)
}
