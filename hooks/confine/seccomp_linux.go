package confine

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Arguments are of 64 bits; of those that are looked at the
// kernel itself takes the lower half alone.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// forbidden are system calls that a program of a package has no use for and that would reach
// beyond it: into the kernel, other processes, mounts, or memory that no limit counts.
var forbidden = []uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_ADJTIMEX, unix.SYS_BPF, unix.SYS_CHROOT, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME,
	unix.SYS_DELETE_MODULE, unix.SYS_FANOTIFY_MARK, unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK,
	unix.SYS_GET_ROBUST_LIST, unix.SYS_INIT_MODULE, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_KCMP, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEYCTL, unix.SYS_MIGRATE_PAGES, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOVE_PAGES, unix.SYS_MQ_OPEN,
	unix.SYS_MQ_UNLINK, unix.SYS_MSGCTL, unix.SYS_MSGGET, unix.SYS_MSGRCV, unix.SYS_MSGSND, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_PERF_EVENT_OPEN, unix.SYS_PERSONALITY, unix.SYS_PIDFD_GETFD, unix.SYS_PIVOT_ROOT, unix.SYS_PROCESS_MADVISE,
	unix.SYS_PROCESS_MRELEASE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PTRACE, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SEMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETHOSTNAME, unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMGET, unix.SYS_SWAPOFF, unix.SYS_SWAPON,
	unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_UNSHARE, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
}

// missing are system calls of which programs are told that there are none, as they know how to
// do without: of what clone3 and io_uring do a filter sees nothing, of memory that only a file
// descriptor holds no limit does, and Landlock lets names be watched that it lets no process read.
var missing = []uint32{
	unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	unix.SYS_INOTIFY_INIT1, unix.SYS_FANOTIFY_INIT,
}

// ofOneself are system calls whose first argument is a process. Where the user is the same, as where
// Jibe isn't root, the kernel lets them reach every process of that user, in other domains of
// Landlock, too. 0 is the caller: what libraries pass for it.
var ofOneself = []uint32{
	unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER,
}

// namespaces are the flags of clone that make namespaces.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// families are those of sockets that may be made. A socket of the machine itself (AF_UNIX) would
// reach whatever listens on it: Jibe's push hooks, a container engine, a session's bus, none of
// which asks more than who the user is. Pairs of them have no name, and may be made, but for those
// of datagrams, which can be sent to any other.
var families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// protocols are those of sockets that may be made; 0 is the usual one for a socket's type. By others
// (multipath TCP, SMC, SCTP) connections are made that Landlock's ports don't see.
var protocols = []uint32{0, unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6}

// socketTypes are those whose usual protocol is one of protocols; typeBits are the bits that say the
// type, of which the rest are flags.
var socketTypes = []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW}

const typeBits = 0xf

// program assembles a filter.
type program []unix.SockFilter

func (p *program) add(code uint16, jt, jf uint8, k uint32) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (p *program) load(offset uint32) { p.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (p *program) answer(with uint32) { p.add(unix.BPF_RET|unix.BPF_K, 0, 0, with) }

// equals has what is loaded answered so where it is k.
func (p *program) equals(k, with uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, k)
	p.answer(with)
}

// has has what is loaded answered so where it has any of the bits.
func (p *program) has(bits, with uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, bits)
	p.answer(with)
}

// differs has what is loaded answered so where it isn't k.
func (p *program) differs(k, with uint32) {
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, k)
	p.answer(with)
}

// oneOf has what is loaded answered so where it is none of the list.
func (p *program) oneOf(list []uint32, with uint32) {
	for i, k := range list {
		p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint8(len(list)-i), 0, k)
	}
	p.answer(with)
}

// call has the calls with the number judged by rules, which end with an answer for the rest.
func (p *program) call(nr uint32, rules func(*program)) {
	var body program
	rules(&body)
	p.load(dataNr)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(len(body)), nr)
	*p = append(*p, body...)
}

func refuse(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// arg is the offset of the lower half of an argument of a call, and upper that of its other half.
func arg(n uint32) uint32 {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return dataArgs + 8*n
	}
	return dataArgs + 8*n + 4
}

func upper(n uint32) uint32 { return 2*(dataArgs+8*n) + 4 - arg(n) }

// ofFiles are system calls that change what a file is like, by its name. Landlock lets an owner
// make them; those on a file that is open are no trouble, as what isn't allowed can't be opened.
var ofFiles = []uint32{
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT,
	unix.SYS_FILE_SETATTR,
}

// filter is the program by which the kernel judges each system call.
func filter(s *Spec) (program, error) {
	sameUser := s.UID < 0
	// The run's user owns what isn't the run's, with no mounts that keep it from being changed.
	owner := sameUser && !s.Namespaces
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("there is no filter of system calls for %s", runtime.GOARCH)
	}
	var p program
	p.load(dataArch)
	p.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, arch)
	p.answer(refuse(unix.ENOSYS)) // calls by another architecture's numbers
	p.load(dataNr)
	if runtime.GOARCH == "amd64" {
		const x32 = 0x40000000
		p.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, x32)
		p.answer(refuse(unix.ENOSYS))
	}
	never := slices.Concat(forbidden, forbiddenHere)
	if owner {
		never = slices.Concat(never, ofFiles, ofFilesHere)
	}
	for _, nr := range never {
		p.equals(nr, refuse(unix.EPERM))
	}
	for _, nr := range slices.Concat(missing, missingHere) {
		p.equals(nr, refuse(unix.ENOSYS))
	}
	p.processes()
	p.sockets()
	p.buffers()
	if sameUser {
		p.dumpable()
	}
	if owner {
		p.ownersFiles()
	}
	p.answer(unix.SECCOMP_RET_ALLOW)
	if len(p) > math.MaxUint16 {
		return nil, fmt.Errorf("the filter of system calls has %d steps", len(p))
	}
	return p, nil
}

// enforce puts the filter in force for this thread and all that it starts, for good. The thread
// must have given up on new privileges.
func (p program) enforce() error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	runtime.KeepAlive(p)
	return nil
}
