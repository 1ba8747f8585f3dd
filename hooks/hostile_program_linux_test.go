package hooks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// victim is what the hostile program of a package is told of those whom it attacks: more than a
// real one would know.
type victim struct {
	Data     string // Jibe's data directory, of the user that Jibe is
	Runs     string // where runs have their files
	Other    string // the directory of another run, under way
	Jibe     int    // its process
	Port     int    // where something listens that hooks may not connect to
	Abstract string // an abstract socket
	Log      string // a socket of datagrams that every user may send to, as the machine's log has
	Segment  int    // shared memory of System V
	Queue    string // a message queue of POSIX
	Package  string // the working copy of the hostile package
}

// attempt is one thing that the hostile program tries. An error is what came of it; nil says
// that it could be done.
type attempt struct {
	tries string
	try   func(v *victim) error
}

var (
	errNothing = errors.New("there is none")
	errSeen    = errors.New("it is seen all the same")
	errNobody  = errors.New("nobody else is hit")
)

func opens(flags int, path func(v *victim) string) func(*victim) error {
	return func(v *victim) error {
		fd, err := unix.Open(path(v), flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
}

func reads(path func(v *victim) string) func(*victim) error { return opens(unix.O_RDONLY, path) }
func writes(path func(v *victim) string) func(*victim) error {
	return opens(unix.O_WRONLY|unix.O_CREAT, path)
}
func data(name string) func(*victim) string {
	return func(v *victim) string { return filepath.Join(v.Data, name) }
}
func other(name string) func(*victim) string {
	return func(v *victim) string { return filepath.Join(v.Other, name) }
}
func fixed(path string) func(*victim) string { return func(*victim) string { return path } }
func scratch(name string) string             { return filepath.Join(os.Getenv("TMPDIR"), name) }
func proc(name string) func(*victim) string {
	return func(v *victim) string { return fmt.Sprintf("/proc/%d/%s", v.Jibe, name) }
}
func parent(name string) func(*victim) string {
	return func(*victim) string { return fmt.Sprintf("/proc/%d/%s", os.Getppid(), name) }
}

// calls makes a system call.
func calls(nr uintptr, args ...uintptr) func(*victim) error {
	return func(*victim) error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		return nil
	}
}

func pointer(text string) uintptr {
	b, _ := unix.BytePtrFromString(text)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(b))
}

// kept keeps what system calls are given from being moved.
var kept []*byte

// connects makes a TCP connection to the port by a socket of the protocol.
func connects(protocol int) func(*victim) error {
	return func(v *victim) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrInet4{Port: v.Port, Addr: [4]byte{127, 0, 0, 1}})
	}
}

func unixSocket(name func(v *victim) string) func(*victim) error {
	return func(v *victim) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrUnix{Name: name(v)})
	}
}

// hostileName is the program's file.
const hostileName = "hostile"

// attempts are all that the hostile program tries in one run. Those that would end it are
// [bombs].
var attempts = slices.Concat(attemptsOnTheMachine, attemptsOnOthers)

var attemptsOnTheMachine = []attempt{
	{"read Jibe's key, `identity.age`", reads(data("identity.age"))},
	{"read `tokens.yaml`", reads(data("tokens.yaml"))},
	{"read a file of `secrets/`", reads(data("secrets/password"))},
	{"read the store", reads(data("store.db"))},
	{"write to the store", opens(unix.O_WRONLY, data("store.db"))},
	{"cut the store off", func(v *victim) error { return unix.Truncate(filepath.Join(v.Data, "store.db"), 0) }},
	{"remove the store", func(v *victim) error { return unix.Unlink(filepath.Join(v.Data, "store.db")) }},
	{"move the store away", func(v *victim) error { return unix.Rename(filepath.Join(v.Data, "store.db"), scratch("store.db")) }},
	{"list the data directory", reads(data("."))},
	{"open the data directory to all", func(v *victim) error { return unix.Chmod(v.Data, 0o777) }},
	{"read the desired repository", reads(data("desired.git/HEAD"))},
	{"put a hook into the desired repository", writes(data("desired.git/post-receive"))},
	{"link the key into its scratch folder", func(v *victim) error { return unix.Link(filepath.Join(v.Data, "identity.age"), scratch("key")) }},
	{"read the key by a symbolic link", func(v *victim) error {
		if err := unix.Symlink(filepath.Join(v.Data, "identity.age"), scratch("link")); err != nil {
			return err
		}
		return reads(fixed(scratch("link")))(v)
	}},
	{"reach the key by `/proc/self/root`", func(v *victim) error { return reads(fixed("/proc/self/root" + v.Data + "/identity.age"))(v) }},
	{"list the runs", reads(func(v *victim) string { return v.Runs })},
	{"read credentials of another run", reads(other("files/KUBECONFIG"))},
	{"read another run's package", reads(other("package/secret"))},
	{"write to another run's scratch folder", writes(other("tmp/evil"))},
	{"write to its working copy", writes(func(v *victim) string { return filepath.Join(v.Package, "evil") })},
	{"make its working copy writable, and write", func(v *victim) error {
		err := unix.Chmod(filepath.Join(v.Package, "Scripts"), 0o777)
		return errors.Join(err, writes(func(v *victim) string { return filepath.Join(v.Package, "Scripts/evil") })(v))
	}},
	{"read keys of a user of the machine", reads(fixed("/root/.ssh/id_ed25519"))},
	{"read `/etc/shadow`", reads(fixed("/etc/shadow"))},
	{"read other settings of the machine", reads(fixed("/etc/profile"))},
	{"write to `/etc/passwd`", opens(unix.O_WRONLY, fixed("/etc/passwd"))},
	{"leave a file in `/var/tmp`", writes(fixed("/var/tmp/jibe-hostile"))},
	{"leave a file in `/tmp`", writes(fixed("/tmp/jibe-hostile"))},
	{"read Jibe's environment", reads(proc("environ"))},
	{"read Jibe's command line", reads(proc("cmdline"))},
	{"read Jibe's memory", reads(proc("mem"))},
	{"list Jibe's open files", reads(proc("fd"))},
	{"read its launcher's environment", reads(parent("environ"))},
	{"read its launcher's memory", reads(parent("mem"))},
	{"trace Jibe", func(v *victim) error { return calls(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(v.Jibe))(v) }},
	{"trace its launcher", func(v *victim) error { return calls(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getppid()))(v) }},
	{"copy memory out of Jibe", func(v *victim) error { return calls(unix.SYS_PROCESS_VM_READV, uintptr(v.Jibe))(v) }},
	{"take an open file of Jibe's", calls(unix.SYS_PIDFD_GETFD, 0, 0, 0)},
	{"kill Jibe", func(v *victim) error { return unix.Kill(v.Jibe, unix.SIGKILL) }},
	{"kill all processes", func(*victim) error {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return errNobody // as the test goes on, and another run does
	}},
	{"stop its launcher's watch", func(*victim) error { return unix.Kill(os.Getppid(), unix.SIGSTOP) }},
	{"kill its launcher by one of its threads", func(*victim) error {
		for id := os.Getppid() + 1; id < os.Getpid(); id++ {
			if unix.Kill(id, unix.SIGKILL) == nil {
				return nil
			}
		}
		return errNobody
	}},
	{"become root", func(*victim) error { return unix.Setuid(0) }},
	{"join the group of root", func(*victim) error { return unix.Setgroups([]int{0}) }},
	{"gain rights by a setuid program", func(*victim) error {
		if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on == 1 {
			return errors.Join(err, errNothing)
		}
		return nil
	}},
	{"use or regain a capability", func(*victim) error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var has [2]unix.CapUserData
		if err := unix.Capget(&header, &has[0]); err != nil || has != [2]unix.CapUserData{} {
			return err
		}
		return errNothing
	}},
	{"mount a file system", calls(unix.SYS_MOUNT, 0, 0, 0, 0, 0)},
	{"mount by the newer calls", calls(unix.SYS_FSOPEN, 0, 0)},
	{"unmount what hides the machine", calls(unix.SYS_UMOUNT2, pointer("/proc"), unix.MNT_DETACH)},
	{"make namespaces", calls(unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)},
	{"make namespaces with a process", func(*victim) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	}},
	{"join namespaces of others", calls(unix.SYS_SETNS, 0, 0)},
	{"change its root directory", func(*victim) error { return unix.Chroot("/usr") }},
	{"load a program into the kernel (bpf)", calls(unix.SYS_BPF, 0, 0, 0)},
	{"load a module", calls(unix.SYS_FINIT_MODULE, 0, 0, 0)},
	{"measure other processes (perf)", calls(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0)},
	{"read the kernel's keys", calls(unix.SYS_KEYCTL, 0, 0, 0)},
	{"handle page faults (userfaultfd)", calls(unix.SYS_USERFAULTFD, 0)},
	{"go around the filter of calls (io_uring)", calls(unix.SYS_IO_URING_SETUP, 1, 0)},
	{"open files by handle", calls(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)},
	{"keep memory that no limit counts (memfd)", calls(unix.SYS_MEMFD_CREATE, pointer("x"), 0)},
	{"keep memory beyond its end (shmget)", calls(unix.SYS_SHMGET, 0, 4096, unix.IPC_CREAT)},
	{"read the kernel's log", reads(fixed("/dev/kmsg"))},
	{"make a device", func(*victim) error { return unix.Mknod(scratch("disk"), unix.S_IFBLK|0o600, 8<<8) }},
	{"raise a limit", func(*victim) error {
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	}},
	{"be spared where memory is short", opens(unix.O_WRONLY, fixed("/proc/self/oom_score_adj"))},
	{"set the clock", func(*victim) error { return unix.Settimeofday(&unix.Timeval{}) }},
	{"reach the socket of Jibe's push hooks", unixSocket(data("hook.sock"))},
	{"reach an abstract socket", unixSocket(func(v *victim) string { return "@" + v.Abstract })},
	{"connect to a port that isn't allowed", connects(0)},
	{"connect to it by multipath TCP", connects(262)},
	{"connect to it with the first data (fast open)", func(v *victim) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: v.Port, Addr: [4]byte{127, 0, 0, 1}})
	}},
	{"listen where others are expected", func(*victim) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrInet4{Port: 18080})
	}},
	{"listen to the network's packets", func(*victim) error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err }},
	{"send raw packets", func(*victim) error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, 1); return err }},
	{"type into a terminal", calls(unix.SYS_IOCTL, 0, unix.TIOCSTI, pointer("x"))},
}

// bombs are what the hostile program does in a run of its own, by the name of its hook. Where they sleep they are
// programs that hang, as the attack is to: no test waits for them.
var bombs = map[string]func(v *victim){
	"bomb_processes": func(*victim) {
		for range 1000 { // each starts more
			cmd := exec.Command("/bin/sh", "-c", "sleep 60 & sleep 60 & sleep 60 & wait")
			if err := cmd.Start(); err != nil {
				panic(err)
			}
		}
		time.Sleep(time.Minute) // it is deaf to all but a kill
	},
	"bomb_memory": func(*victim) {
		for {
			b, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
			if err != nil {
				panic(err)
			}
			runtime.KeepAlive(b)
		}
	},
	"bomb_disk": func(*victim) {
		b := make([]byte, 4<<20)
		for i := 0; ; i++ {
			if err := os.WriteFile(scratch("fill"+strconv.Itoa(i)), b, 0o600); err != nil {
				panic(err)
			}
		}
	},
	"bomb_hidden_disk": bombHiddenDisk,
	"fill_unseen":      bombHiddenDisk,
	"bomb_file": func(*victim) {
		f, err := os.Create(scratch("sparse"))
		if err == nil {
			err = f.Truncate(1 << 40)
		}
		panic(fmt.Sprint("file: ", said(err)))
	},
	"bomb_files": func(*victim) {
		for i := 0; ; i++ {
			_ = os.Mkdir(scratch("d"+strconv.Itoa(i)), 0o700)
		}
	},
	"bomb_output": func(*victim) {
		b := make([]byte, 1<<20)
		for {
			if _, err := os.Stdout.Write(b); err != nil {
				time.Sleep(time.Second) // it goes on for as long as it may
			}
		}
	},
	"bomb_deep":         func(v *victim) { _ = os.Chdir(os.Getenv("TMPDIR")); bombDeep(v) },
	"bomb_sockets":      func(*victim) { inMany(6, "fill_sockets") },
	"fill_sockets":      bombSockets,
	"bomb_descriptors":  func(*victim) { inMany(10, "fill_descriptors") },
	"fill_descriptors":  bombDescriptors,
	"bomb_first_thread": bombFirstThread,
	"bomb_unseen":       bombUnseen,
	"outlive": func(v *victim) {
		// Twice forked, in a session of its own, with another environment, deaf to signals.
		cmd := exec.Command("/bin/sh", "-c", `trap "" HUP TERM INT; (setsid env -i sh -c 'trap "" HUP TERM INT; exec sleep 86399.`+v.Abstract[len(v.Abstract)-9:]+`' </dev/null >/dev/null 2>&1 &) ; sleep 0.3`)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Run()
	},
	"deaf": func(v *victim) {
		cmd := exec.Command("/bin/sh", "-c", `trap "" HUP TERM INT; while :; do sleep 86399.`+v.Abstract[len(v.Abstract)-9:]+`; done`)
		_ = cmd.Run()
		time.Sleep(time.Hour) // it is deaf to all but a kill
	},
}

// hostile is the program.
func hostile() {
	if fill := bombs[os.Getenv("JIBE_HOOK")]; fill != nil && strings.HasPrefix(os.Getenv("JIBE_HOOK"), "fill_") {
		fill(nil)
		return
	}
	var in struct{ Params victim }
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		panic(err)
	}
	in.Params.Package, _ = os.Getwd()
	if bomb := bombs[os.Getenv("JIBE_HOOK")]; bomb != nil {
		bomb(&in.Params)
		return
	}
	outcomes := map[string]string{}
	for _, a := range attempts {
		outcome := "DONE"
		if err := a.try(&in.Params); err != nil {
			outcome = said(err)
		}
		outcomes[a.tries] = outcome
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"handOver": outcomes}); err != nil {
		panic(err)
	}
}

// said is the error without what differs from run to run.
func said(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}
